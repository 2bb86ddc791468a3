"""Lengths for batch experiments: like section 6's sample, and from public traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import DataError, ParameterError

__all__ = ["lmsys_like_lengths", "trace_lengths"]

Steps = NDArray[np.int64]

# fitted to the mean, median, variance and maximum that section 6 states of its 2,000 conversations
LMSYS_LOG_MEAN, LMSYS_LOG_SD, LMSYS_LONGEST = 4.4835, 0.85, 905


def lmsys_like_lengths(n: int = 2_000, seed: int | np.random.Generator = 0) -> Steps:
    """Lengths with section 6's mean 126, median 90, variance 14,938 and maximum 905.

    The n mid-rank quantiles of a lognormal, clipped to [2, 905] and rounded, the largest set to 905: the
    same multiset for every seed. The seed shuffles the order of arrival, which only FCFS looks at.

    Parameters
    ----------
    n : int
        Number of conversations.
    seed : int or Generator

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    if n < 1:
        raise ParameterError("n", n, "give at least 1")
    from scipy.special import ndtri

    rank = (np.arange(n) + 0.5) / n
    raw = np.exp(LMSYS_LOG_MEAN + LMSYS_LOG_SD * ndtri(rank))
    lengths: Steps = np.rint(np.clip(raw, 2, LMSYS_LONGEST)).astype(np.int64)
    lengths[-1] = LMSYS_LONGEST
    np.random.default_rng(seed).shuffle(lengths)
    return lengths


def trace_lengths(path: str | Path, n: int | None = None) -> Steps:
    """Prompt + response tokens of a trace's requests, in its order.

    Parameters
    ----------
    path : str or Path
        A CSV with ContextTokens and GeneratedTokens (Azure's published traces), or with prompt_tokens and
        response_tokens.
    n : int, optional
        Only the first n requests.

    Raises
    ------
    DataError
        For a file without these columns, or a request without tokens.
    """
    import pandas as pd

    try:
        frame = pd.read_csv(path, nrows=n)
    except (OSError, ValueError) as error:
        raise DataError(f"can't be read as CSV ({error})", source=str(path)) from error
    for prompt, response in (("ContextTokens", "GeneratedTokens"), ("prompt_tokens", "response_tokens")):
        if prompt in frame and response in frame:
            total = frame[prompt].to_numpy() + frame[response].to_numpy()
            bad = ~(total >= 1)
            if bad.any():
                raise DataError(
                    "a request needs at least one token",
                    source=str(path),
                    row=int(np.flatnonzero(bad)[0]),
                    column=response,
                )
            return np.asarray(total, dtype=np.int64)
    raise DataError("needs the columns ContextTokens and GeneratedTokens", source=str(path))
