"""The same corpus through other tokenizers: the tokenizer that labels is part of a corpus's identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.corpora.reference import REFERENCES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["tokenizers_beside"]

_COUNTED = ("llama-like", "tekken", "chars/4")


def tokenizers_beside(
    name: str, corpus: pd.DataFrame, options: dict[str, Any]
) -> dict[str, NDArray[np.int64]]:
    """Lengths of the same rows by the other tokenizers that a committed table holds; else nothing.

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
    committed = name in REFERENCES or (name == "sharegpt" and options.get("path") is None)
    if not committed or used == "reported" or options.get("detector", "py3langid") != "py3langid":
        return {}
    found: dict[str, NDArray[np.int64]] = {}
    for tokenizer in _COUNTED:
        if tokenizer != used:
            other = load_corpus(name, **{**options, "tokenizer": tokenizer})
            found[tokenizer] = other["response_tokens"].to_numpy(np.int64)
    return found
