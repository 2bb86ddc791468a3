"""Single claims of the Clairvoyant paper that no table holds: counts, arithmetic, an example."""

from __future__ import annotations

import numpy as np

from clairvoyant_lab.corpora.load import load_corpus
from clairvoyant_lab.corpora.starvation import wilson_interval
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.papers.ledger import Measured
from clairvoyant_lab.papers.serial_experiments import figure3
from clairvoyant_lab.prompts.extract import extract_features
from clairvoyant_lab.prompts.schema import FEATURE_NAMES
from clairvoyant_lab.simulation.profiles import hardware_profile

__all__ = ["ESSAY_PROMPT", "load_where_gain_begins", "measure"]

ESSAY_PROMPT = "Write a 2,000-word essay on climate change"
"""The paper's example of a short prompt with a long answer (section 5.2)."""

_NO_MODEL = "needs a running backend with a model that writes 2,000 words"


def measure(*, fast: bool, seed: int) -> list[Measured]:
    """Measure what section titles promise and no table holds.

    Parameters
    ----------
    fast : bool
        Fewer seeds for the load at which scheduling begins to pay.
    seed : int
        First of the seeds.
    """
    return [
        Measured("clairvoyant.abstract.features", len(FEATURE_NAMES), how="len(cl.FEATURE_NAMES)"),
        _curated(),
        _gain_begins(fast, seed),
        _default_timeout(),
        *_essay(),
    ]


def load_where_gain_begins(
    seeds: range, *, gain_pct: float = 5.0, rhos: tuple[float, ...] = (0.40, 0.45, 0.50, 0.55, 0.60, 0.65)
) -> tuple[float, float, float]:
    """Find the utilisation at which the default timeout begins to cut the short P50 by a stated share.

    Parameters
    ----------
    seeds : range
        Seeds of the traces, the same for every load.
    gain_pct : float
        The cut in percent that counts as a gain.
    rhos : tuple of float
        Loads to try, ascending; between them the cut is read off a straight line.

    Returns
    -------
    tuple of float
        ρ of the mean curve, and of the upper and lower ends of its 95 % interval (so low, high).
    """
    curve = figure3(seeds, rhos=rhos)

    def crossing(column: str) -> float:
        return float(np.interp(gain_pct, np.maximum.accumulate(curve[column]), curve["rho"]))

    return crossing("cut_pct"), crossing("high_pct"), crossing("low_pct")


def _curated() -> Measured:
    """The share of Long in a curated set, on the part of CodeAlpaca that is here."""
    classes = load_corpus("codealpaca_2k")["length_class"].to_numpy()
    long = int((classes == LengthClass.LONG).sum())
    low, high = wilson_interval(long, classes.size)
    return Measured(
        "clairvoyant.abstract.curated_long_pct",
        100.0 * long / classes.size,
        100.0 * low,
        100.0 * high,
        n=classes.size,
        how='load_corpus("codealpaca_2k")',
        note="no Long row in the sample; so few rows can't exclude 0.1 %",
    )


def _gain_begins(fast: bool, seed: int) -> Measured:
    count = 10 if fast else 40
    value, low, high = load_where_gain_begins(range(seed, seed + count))
    return Measured(
        "clairvoyant.section1.rho_where_fcfs_suffices",
        value,
        min(low, value),
        max(high, value),
        n=count,
        how=f"load_where_gain_begins(range({seed}, {seed + count}))",
        note="read as: where τ = 3x begins to cut the short P50 by 5 %, on Figure 3's workload",
    )


def _default_timeout() -> Measured:
    """Section 3.4's τ: three times the mean short service time of the M1 profile, which is Table 1's."""
    short_s = hardware_profile("m1").service_model().class_moment(LengthClass.SHORT)
    return Measured(
        "clairvoyant.section3_4.tau_s",
        3.0 * short_s,
        how='3 * hardware_profile("m1").service_model().class_moment(SHORT)',
        note="arithmetic on Table 1's short mean, not a measurement",
    )


def _essay() -> list[Measured]:
    tokens = float(extract_features(ESSAY_PROMPT)[FEATURE_NAMES.index("prompt_token_len")])
    return [
        Measured(
            "clairvoyant.section5_2.essay_prompt_tokens",
            tokens,
            how="extract_features(ESSAY_PROMPT)",
            because=f"{len(ESSAY_PROMPT)} characters // 4 is {tokens:.0f} by section 3.2's own rule",
        ),
        Measured.not_run(
            "clairvoyant.section5_2.essay_response_tokens",
            how="clairvoyant-lab proxy --backend URL, then ProxyClient(...).chat(ESSAY_PROMPT)",
            why=_NO_MODEL,
        ),
    ]
