"""Corpora side by side: tokenizers, turns, and files of one's own, each judged by the same rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.corpora.sources import SOURCES
from clairvoyant_lab.corpora.starvation import Starvation, starvation_report
from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.lengths import LengthClass

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COUNTED",
    "compare_corpora",
    "local_reports",
    "require_files",
    "starvation_table",
    "tokenizers_beside",
]

COUNTED = ("llama-like", "tekken", "chars/4")
"""Tokenizers whose counts the committed table of ShareGPT holds."""


def tokenizers_beside(
    name: str, corpus: pd.DataFrame, options: dict[str, Any]
) -> dict[str, NDArray[np.int64]]:
    """Lengths of the same rows by the other tokenizers that the committed table holds; else nothing.

    Parameters
    ----------
    name : str
        What was loaded.
    corpus : DataFrame
        What `load_corpus` gave.
    options : dict
        What it was called with.
    """
    from clairvoyant_lab.corpora.load import load_corpus

    used = str(corpus.attrs["corpus"]["recipe"]["tokenizer"])
    committed = name == "sharegpt" and options.get("path") is None
    if not committed or used not in COUNTED or options.get("detector", "py3langid") != "py3langid":
        return {}
    found: dict[str, NDArray[np.int64]] = {}
    for tokenizer in COUNTED:
        if tokenizer != used:
            other = load_corpus(name, **{**options, "tokenizer": tokenizer})
            found[tokenizer] = other["response_tokens"].to_numpy(np.int64)
    return found


def require_files(files: Mapping[str, str | Path]) -> None:
    """Refuse paths, before any is read, when one is no file.

    Parameters
    ----------
    files : mapping of str to path
        Keyed by the parameter that names each, as `own_files[0]`.

    Raises
    ------
    ParameterError
        For the first that is no file.
    """
    for field, file in files.items():
        if not isinstance(file, str | Path) or not Path(file).is_file():
            raise ParameterError(field, file, "give the path of a file that exists")


def local_reports(local_copies: Mapping[str, str | Path], *, progress: bool = True) -> dict[str, Starvation]:
    """Analyse local copies of published corpora as Table 3 does: every language, nothing dropped as a copy.

    Parameters
    ----------
    local_copies : mapping of str to path
        Name in `SOURCES` -> a file in its publishers' schema.
    progress : bool
        Show a bar a file.

    Returns
    -------
    dict of str to Starvation
        Keyed by the corpus' name.

    Raises
    ------
    ParameterError
        For a name that is not in `SOURCES`, or a path that is no file.
    """
    for name in local_copies:
        if name not in SOURCES:
            raise unknown_name("local_copies", name, SOURCES)
    require_files({f"local_copies[{name!r}]": path for name, path in local_copies.items()})
    return {
        name: starvation_report(name, path=path, language=None, deduplicate=False, progress=progress)
        for name, path in local_copies.items()
    }


def compare_corpora(
    own_files: Sequence[str | Path] = (),
    local: Mapping[str, Starvation] | None = None,
    **options: Any,
) -> dict[str, Starvation]:
    """ShareGPT by its turns and tokenizers, then local copies and files of one's own.

    Parameters
    ----------
    own_files : sequence of path
        Files as `load_corpus` reads them, with the counts they report or by its default tokenizer.
    local : mapping of str to Starvation, optional
        From `local_reports`.
    **options
        For `starvation_report` of ShareGPT and of the own files, as `language` and `long_from`.

    Returns
    -------
    dict of str to Starvation
        Keyed by what to call each in a figure.

    Raises
    ------
    ParameterError, DataError
        For a path that is no file, and a file that can't be used.
    """
    require_files({f"own_files[{index}]": file for index, file in enumerate(own_files)})
    found: dict[str, Starvation] = {}
    for turns in ("first", "all"):
        for tokenizer in COUNTED:
            label = f"ShareGPT V3, {turns} turns, {tokenizer}"
            found[label] = _alone("sharegpt", turns=turns, tokenizer=tokenizer, **options)
    for name, report in (local or {}).items():
        found[f"{SOURCES[name].title}, {report.provenance['origin']}"] = report
    for file in map(Path, own_files):
        # two files of one name are told apart by their folders
        label = file.name if file.name not in found else str(file)
        found[label] = _alone(file, **options)
    return found


def _alone(corpus: str | Path, **options: Any) -> Starvation:
    from clairvoyant_lab.corpora.load import load_corpus

    bounds = {key: options[key] for key in ("short_below", "long_from") if key in options}
    return starvation_report(load_corpus(corpus, keep_prompt=False, **options), **bounds)


def starvation_table(reports: Mapping[str, Starvation]) -> pd.DataFrame:
    """One row a corpus: tokenizer, rows, classes, Long share with its interval, verdict.

    Parameters
    ----------
    reports : mapping of str to Starvation
        Keyed by what to call each.
    """
    import pandas as pd

    long = LengthClass.LONG
    return pd.DataFrame(
        [
            {
                "corpus": label,
                "tokenizer": report.tokenizer,
                "rows": report.n,
                **{one.label: int(report.counts[one]) for one in LengthClass},
                "Long_pct": round(100 * float(report.shares[long]), 3),
                "Long_low_pct": round(100 * float(report.low[long]), 3),
                "Long_high_pct": round(100 * float(report.high[long]), 3),
                "balanced_rows": report.balanced_rows,
                "verdict": report.verdict,
            }
            for label, report in reports.items()
        ]
    )
