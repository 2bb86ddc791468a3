"""What one prediction costs: one prompt at a time, end to end, on this CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.predictor.runtime import LengthPredictor

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["latency_table", "time_calls"]


def latency_table(prompts: Sequence[str], repeat: int = 1) -> pd.DataFrame:
    """Time the committed models on prompts, one at a time.

    Parameters
    ----------
    prompts : sequence of str
        What people send; long ones take longer.
    repeat : int
        Passes over the prompts.

    Returns
    -------
    DataFrame
        what, p50_us, p99_us, calls.
    """
    import pandas as pd

    from clairvoyant_lab.prompts import extract_features

    paper, rich = LengthPredictor.load("sharegpt"), LengthPredictor.load("sharegpt-rich")
    quick = LengthPredictor.load("sharegpt-rich", form="fast")
    calls: Mapping[str, Callable[[str], object]] = {
        "19 features": extract_features,
        "sharegpt: P(Long)": paper.p_long,
        "sharegpt-rich: P(Long)": rich.p_long,
        "sharegpt-rich: everything (predict)": rich.predict,
        "sharegpt-rich, fast: P(Long)": quick.p_long,
    }
    records = []
    for what, call in calls.items():
        taken = time_calls(call, prompts, repeat)
        p50, p99 = 1e6 * np.quantile(taken, [0.5, 0.99])
        records.append({"what": what, "p50_us": p50, "p99_us": p99, "calls": taken.size})
    return pd.DataFrame(records)


def time_calls(
    call: Callable[[str], object],
    prompts: Sequence[str],
    repeat: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> NDArray[np.float64]:
    """Seconds of each call, after a warm-up.

    With `clock=time.thread_time` only what the call itself computed: on a busy machine the tail of the
    wall clock is the scheduler's.
    """
    for prompt in prompts[:20]:
        call(prompt)
    taken = np.empty(repeat * len(prompts))
    place = 0
    for _ in range(repeat):
        for prompt in prompts:
            start = clock()
            call(prompt)
            taken[place] = clock() - start
            place += 1
    return taken
