"""A proxy's journal as a corpus: features and lengths of the requests it served, no text."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clairvoyant_lab.errors import DataError
from clairvoyant_lab.journal_reader import read_journal
from clairvoyant_lab.lengths import classify_lengths
from clairvoyant_lab.prompts.schema import FEATURE_NAMES

if TYPE_CHECKING:
    import pandas as pd

    from clairvoyant_lab.corpora.pipeline import Recipe

__all__ = ["journal_corpus"]


def journal_corpus(path: Path, recipe: Recipe) -> pd.DataFrame:
    """Read a journal in the layout of `load_corpus`, without `prompt`.

    A journal has no text, so no language is told, no duplicate is found, and the counts are the
    backend's (`tokenizer="reported"`).

    Raises
    ------
    DataError
        When it holds no usable row, or speaks another feature schema.
    """
    import pandas as pd

    journal = read_journal(path)
    rows = journal.training_set()
    if rows.feature_names != FEATURE_NAMES:
        raise DataError("its features are not the 19 of this version", source=path.name)
    if len(rows) == 0:
        why = ", ".join(f"{count:,} {reason}" for reason, count in rows.dropped.items()) or "it is empty"
        raise DataError(f"no finished request with features ({why})", source=path.name)
    number = np.arange(len(rows), dtype=np.int64)
    columns: dict[str, Any] = {
        "response_tokens": rows.response_tokens,
        "length_class": classify_lengths(rows.response_tokens, recipe.short_below, recipe.long_from),
        "prompt_tokens": rows.features[:, 0].astype(np.int64),
        "language": np.full(len(rows), "", dtype=object),
        "group": number,
        "turn": np.zeros(len(rows), np.int64),
        "row_id": number.astype(np.uint64),
    }
    columns |= {name: rows.features[:, index] for index, name in enumerate(FEATURE_NAMES)}
    frame = pd.DataFrame(columns)
    steps = replace(recipe, tokenizer="reported", language=None, deduplicate=False).steps()
    digest = hashlib.sha256(rows.features.tobytes() + rows.response_tokens.tobytes()).hexdigest()
    frame.attrs["corpus"] = {
        "name": path.name,
        "origin": f"journal {path.name}",
        "recipe": steps,
        "rows_read": len(rows) + sum(rows.dropped.values()),
        "kept": len(rows),
        "dropped": dict(rows.dropped),
        "notes": ["a journal has no texts: no language filter, no duplicates removed"],
        "fingerprint": digest[:16],
    }
    return frame
