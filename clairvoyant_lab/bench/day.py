"""A day in the queue: real prompts' features and answers' lengths, at a machine's pace, as a trace."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.simulation.profiles import HardwareProfile, hardware_profile
from clairvoyant_lab.simulation.replicates import Replicates
from clairvoyant_lab.simulation.serial import SerialRun
from clairvoyant_lab.simulation.trace import Trace

__all__ = ["busiest", "day_trace", "days", "held_out_rows"]


@functools.cache
def held_out_rows() -> Any:
    """ShareGPT's first turns that no committed model has seen: features, prompt and answer tokens."""
    from clairvoyant_lab.corpora import load_corpus
    from clairvoyant_lab.predictor.sharegpt_rows import held_out

    rows = load_corpus("sharegpt")
    return rows[held_out(rows)].reset_index(drop=True)


def day_trace(
    model: str = "sharegpt",
    profile: str | HardwareProfile = "m1",
    *,
    rho: float = 0.74,
    n: int = 2_000,
    seed: int = 42,
    most_tokens: int | None = 4_096,
) -> Trace:
    """Draw requests from the held-out prompts and let them arrive at random on one machine.

    Parameters
    ----------
    model : str
        A `lexical-19` model: the committed rows hold features, not texts.
    profile : str or HardwareProfile
        Whose pace turns tokens into seconds.
    rho : float
        Load, in (0, 1).
    n : int
        Requests.
    seed : int
        Draws rows and gaps; another load stretches the same arrivals.
    most_tokens : int or None
        Answers end here, as they do on a server with a context of 4,096 tokens; None lets them run on (one
        held-out answer has 37,000 tokens and alone holds the line for 20 minutes).

    Returns
    -------
    Trace
        With `score` = P(Long), predicted tokens, token counts and true classes.

    Raises
    ------
    ParameterError
        For a load outside (0, 1) or no requests.
    """
    if not 0.0 < rho < 1.0:
        raise ParameterError("rho", rho, "give a load between 0 and 1")
    if most_tokens is not None and most_tokens < 1:
        raise ParameterError("most_tokens", most_tokens, "give 1 or more tokens; None means no limit")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ParameterError("n", n, "give a whole number, 1 or more")
    machine = hardware_profile(profile)
    rows = held_out_rows()
    pick_rng, gap_rng = np.random.default_rng(seed).spawn(2)
    pick = pick_rng.integers(0, len(rows), n)
    prompt = rows["prompt_tokens"].to_numpy(np.int64)[pick]
    response = rows["response_tokens"].to_numpy(np.int64)[pick]
    if most_tokens is not None:
        response = np.minimum(response, most_tokens)
    service = machine.pace.service_s(prompt, response)
    gaps = gap_rng.exponential(1.0, n)
    probabilities, means = _predictions(model)
    return Trace.from_arrays(
        np.cumsum(gaps) * float(service.mean()) / rho,
        service,
        probabilities[pick, 2].astype(np.float64),
        predicted_tokens=(probabilities[pick] @ means).astype(np.float64),
        prompt_tokens=prompt,
        response_tokens=response,
        source=f"ShareGPT, held-out first turns (seed {seed}), Poisson arrivals at load {rho:g}",
        service_model=f"{machine.name}: {machine.pace.describe()}",
    )


def days(
    model: str = "sharegpt",
    profile: str | HardwareProfile = "m1",
    *,
    rho: float = 0.74,
    n: int = 2_000,
    seeds: Iterable[int] = range(42, 47),
) -> Replicates:
    """Several days like `day_trace`, one a seed, to run every policy on."""
    return Replicates(tuple(day_trace(model, profile, rho=rho, n=n, seed=seed) for seed in seeds))


def busiest(run: SerialRun, requests: int = 24) -> Trace:
    """Return the stretch of a run's trace in which its requests waited longest, as a trace of its own.

    Parameters
    ----------
    run : SerialRun
        Usually FCFS: where its line was longest.
    requests : int
        How many consecutive requests; the clock starts at the first one's arrival.
    """
    size = min(requests, len(run.trace))
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(run.wait_s))])
    first = int(np.argmax(total[size:] - total[:-size]))
    part = run.trace.take(slice(first, first + size))
    return part.with_columns(arrival_s=part.arrival_s - part.arrival_s[0])


@functools.lru_cache(maxsize=4)
def _predictions(model: str) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    from clairvoyant_lab.predictor import LengthPredictor
    from clairvoyant_lab.prompts import FEATURE_NAMES

    predictor = LengthPredictor.load(model)
    features = held_out_rows()[list(FEATURE_NAMES)].to_numpy(np.float32)
    return predictor.predict_proba(features), np.asarray(predictor.info.class_mean_tokens)
