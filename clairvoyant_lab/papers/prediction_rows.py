"""The rows the prediction studies run on: ShareGPT from the package, foreign traffic from the user's files.

The foreign files carry texts whose licences don't let this project ship them: the Clairvoyant authors'
labelled OASST1 and Dolly rows, their published model, and GPT-4's answers under three instructions.
`papers.reference_files` says where they are looked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import MissingExtraError
from clairvoyant_lab.papers.reference_files import reference_file
from clairvoyant_lab.predictor.committed import balanced_rows
from clairvoyant_lab.predictor.evaluation import Rows
from clairvoyant_lab.predictor.sharegpt_rows import RichRows, held_out, rich_rows
from clairvoyant_lab.prompts.schema import FEATURE_NAMES

__all__ = [
    "FOREIGN",
    "ForeignRows",
    "authors_model",
    "corpus_rows",
    "foreign_rows",
    "held_out_texts",
    "sharegpt_balanced",
    "sharegpt_held_out",
    "sharegpt_texts",
]

_MODEL = "authors_predictor.onnx"
FOREIGN = {
    "OASST1": ("clairvoyant_oasst1_labeled.csv", None),
    "Dolly": ("clairvoyant_dolly_labeled.csv", None),
    "GPT-4, concise": ("alpaca_eval_gpt4_1106_preview_concise.json", "chars/4"),
    "GPT-4, as is": ("alpaca_eval_gpt4_1106_preview.json", "chars/4"),
    "GPT-4, verbose": ("alpaca_eval_gpt4_1106_preview_verbose.json", "chars/4"),
}
"""Label -> file, and who counts the answer's tokens (None: the file does)."""


@dataclass(frozen=True)
class ForeignRows:
    """Traffic that no committed model was trained on.

    Attributes
    ----------
    name : str
        Label.
    prompts : list of str
        Texts.
    tokens : ndarray of float64, shape (n,)
        Response tokens.
    authors : Rows
        The 19 features as the Clairvoyant authors' code gives them.
    """

    name: str
    prompts: list[str]
    tokens: NDArray[np.float64]
    authors: Rows


def corpus_rows(name: str, seed: int = 42, reference_dir: str | Path | None = None) -> Rows | None:
    """Balanced rows of `sharegpt` or `oasst1`; None where the authors' file is not at hand."""
    if name == "sharegpt":
        return sharegpt_balanced(seed)
    foreign = foreign_rows("OASST1", reference_dir)
    return None if foreign is None else foreign.authors


def foreign_rows(name: str, reference_dir: str | Path | None = None) -> ForeignRows | None:
    """Rows of one of `FOREIGN`, or None where the file is not at hand."""
    path = reference_file(FOREIGN[name][0], reference_dir)
    return None if path is None else _read_foreign(name, path)


@lru_cache(maxsize=8)
def _read_foreign(name: str, path: Path) -> ForeignRows:
    from clairvoyant_lab.corpora import load_corpus

    tokenizer = FOREIGN[name][1]
    frame = load_corpus(
        path, language=None, deduplicate=False, tokenizer=tokenizer, variant="authors", progress=False
    )
    features = frame[list(FEATURE_NAMES)].to_numpy(np.float32)
    tokens = frame["response_tokens"].to_numpy(np.float64)
    return ForeignRows(name, frame["prompt"].tolist(), tokens, Rows.checked(name, features, tokens))


def authors_model(reference_dir: str | Path | None = None) -> Path | None:
    """The Clairvoyant authors' published model, or None where it is not at hand."""
    return reference_file(_MODEL, reference_dir)


@lru_cache(maxsize=4)
def sharegpt_balanced(seed: int = 42, variant: str = "paper") -> Rows:
    """English first turns, equally many of each class (section 4.2), from the committed figures."""
    from clairvoyant_lab.corpora import load_corpus

    frame = load_corpus("sharegpt", variant=variant, progress=False)
    rows = balanced_rows(frame["length_class"].to_numpy(np.int8), seed)
    features = frame[list(FEATURE_NAMES)].to_numpy(np.float32)[rows]
    return Rows.checked("ShareGPT", features, frame["response_tokens"].to_numpy()[rows])


@lru_cache(maxsize=1)
def sharegpt_held_out() -> Rows:
    """First turns of the held-out conversations, with their natural shares of classes."""
    from clairvoyant_lab.corpora import load_corpus

    frame = load_corpus("sharegpt", progress=False)
    frame = frame[held_out(frame)]
    features = frame[list(FEATURE_NAMES)].to_numpy(np.float32)
    return Rows.checked("ShareGPT, held out", features, frame["response_tokens"].to_numpy())


@lru_cache(maxsize=1)
def sharegpt_texts() -> RichRows | None:
    """ShareGPT's turns with their texts, or None without the extra `sharegpt`."""
    try:
        return rich_rows(progress=False)
    except MissingExtraError:
        return None


@lru_cache(maxsize=1)
def held_out_texts() -> RichRows | None:
    """The held-out first turns with their texts, or None without the extra `sharegpt`."""
    rows = sharegpt_texts()
    return None if rows is None else rows.take(rows.held_out & rows.first_turn)
