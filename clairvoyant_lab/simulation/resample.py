"""Other days like this one: block bootstrap of a trace, so that advice from it can be checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.simulation.trace import Trace

__all__ = ["resample_trace"]


def resample_trace(
    trace: Trace, seed: int | np.random.Generator, n: int | None = None, block: int = 50
) -> Trace:
    """Draw runs of consecutive requests from a trace, gaps and all columns together.

    Parameters
    ----------
    trace : Trace
        At least two requests.
    seed : int or Generator
    n : int, optional
        Requests to draw; as many as the trace has by default.
    block : int
        Requests a run: long enough to keep bursts whole, short enough to mix.

    Returns
    -------
    Trace
        Without request ids.
    """
    if len(trace) < 2:
        raise ParameterError("trace", trace.source, "needs two requests or more to be resampled")
    if block < 1:
        raise ParameterError("block", block, "give a number of requests, 1 or more")
    total = len(trace) if n is None else n
    if total < 1:
        raise ParameterError("n", n, "give a number of requests, 1 or more")
    rng = np.random.default_rng(seed)
    size = min(block, len(trace))
    starts = rng.integers(0, len(trace), -(-total // size))
    # blocks wrap around, so that each request is drawn as often as any other
    rows = ((starts[:, None] + np.arange(size)) % len(trace)).ravel()[:total]
    gaps = np.diff(trace.arrival_s, prepend=trace.arrival_s[0])
    # the gap before the first request is not in the trace: the mean stands for it
    gaps[0] = gaps[1:].mean()
    columns: dict[str, Any] = {
        name: values[rows]
        for name, values in trace.columns().items()
        if name not in ("arrival_s", "request_id")
    }
    return Trace(
        arrival_s=np.cumsum(gaps[rows]),
        source=f"{trace.source}, resampled in blocks of {size}",
        service_model=trace.service_model,
        **columns,
    )
