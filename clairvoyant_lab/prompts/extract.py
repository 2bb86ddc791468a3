"""From text to the 19 features: one scan for one prompt or for many (Clairvoyant, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.prompts.fold import fold
from clairvoyant_lab.prompts.lexicon import compile_lexicon
from clairvoyant_lab.prompts.schema import FEATURE_NAMES

__all__ = ["extract_features", "extract_features_batch"]

_N = len(FEATURE_NAMES)


def extract_features(prompt: str, variant: str = "paper") -> NDArray[np.float32]:
    """Compute the 19 features of one prompt.

    Parameters
    ----------
    prompt : str
        The text as the user sent it; leading and trailing white space counts as length.
    variant : {"paper", "authors"}
        `paper` follows section 3.2 on word boundaries; `authors` does what the authors' published code
        does, to run their model and files.

    Returns
    -------
    ndarray of float32, shape (19,)
        In the order of `FEATURE_NAMES`; exactly one verb flag is 1.

    Raises
    ------
    ParameterError
        When `prompt` is no string, or for an unknown variant.
    """
    if not isinstance(prompt, str):
        raise ParameterError("prompt", prompt, "give a string")
    scan, tables = _scanner(variant)
    out = np.empty((1, _N), np.float32)
    scan(fold(prompt), np.array([0, len(prompt)], np.int64), out, *tables)
    return out[0]


def extract_features_batch(prompts: Sequence[str], variant: str = "paper") -> NDArray[np.float32]:
    """Compute the 19 features of many prompts; row i equals `extract_features(prompts[i])`.

    Parameters
    ----------
    prompts : sequence of str
        Texts; a pandas Series or numpy array of strings will do. Memory: about twice the text.
    variant : {"paper", "authors"}
        See `extract_features`.

    Returns
    -------
    ndarray of float32, shape (n, 19)
        In the order of `FEATURE_NAMES`.

    Raises
    ------
    ParameterError
        When `prompts` is a single string or no sequence, or for an unknown variant.
    DataError
        When an element is no string; the row is named.
    """
    if isinstance(prompts, str | bytes) or not isinstance(prompts, Iterable):
        raise ParameterError("prompts", prompts, "give a sequence of strings, or call extract_features")
    scan, tables = _scanner(variant)
    texts = list(prompts)
    try:
        joined = "".join(texts)
    except TypeError:
        row = next(i for i, text in enumerate(texts) if not isinstance(text, str))
        raise DataError(f"{texts[row]!r} is no string", row=row, column="prompt") from None
    bounds = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=bounds[1:])
    out = np.empty((len(texts), _N), np.float32)
    scan(fold(joined), bounds, out, *tables)
    return out


@lru_cache(maxsize=4)
def _scanner(variant: str) -> tuple[Any, tuple[NDArray[Any], ...]]:
    lex = compile_lexicon(variant)
    from clairvoyant_lab.prompts import scanner  # numba, so only when something is scanned

    if variant == "authors":
        return scanner.scan_authors, (
            lex.trie, lex.symbol, lex.flags, lex.role, lex.rank, lex.phrase_column, lex.phrase,
            lex.phrase_flags, lex.substring, lex.substring_hit,
        )  # fmt: skip
    return scanner.scan_paper, (
        lex.trie, lex.symbol, lex.flags, lex.clause, lex.role, lex.phrase_column, lex.phrase,
        lex.phrase_flags, lex.opening, lex.opening_kind,
    )  # fmt: skip
