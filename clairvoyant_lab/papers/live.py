"""Section 5.4's claims about a burst, on one that was measured over HTTP.

No topic of the ledger's run: it takes the wall clock's time and noise, and the section does not say how many
requests its burst had. The notebook of the proxy shows it beside its own burst.
"""

from __future__ import annotations

import numpy as np

from clairvoyant_lab.bench.report import BenchReport
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.papers.verdicts import Measured

__all__ = ["measure_burst"]

_VARIANT = "over HTTP"


def measure_burst(report: BenchReport, policy: str, base: str = "fcfs") -> list[Measured]:
    """Section 5.4's claims on a measured burst.

    Parameters
    ----------
    report : BenchReport
        With both policies.
    policy, base : str
        What is compared.
    """
    ours = report.percentile(policy, LengthClass.SHORT, 50)
    theirs = report.percentile(base, LengthClass.SHORT, 50)
    cuts = 100.0 * (1.0 - ours / theirs)
    first = [
        float(s.values(LengthClass.SHORT, "sojourn_s").max() < s.values(LengthClass.LONG, "sojourn_s").min())
        for s in report.samples
        if s.policy == policy
    ]
    call = "bench_emulated_burst" if report.mode == "emulate" else "bench_overtaking"
    how = f"{call}({report.profile!r}), {policy} against {base}"
    counts = report.parameters
    note = f"{counts['n_short']} short and {counts['n_long']} long; section 5.4 does not say"
    return [
        Measured(
            key="clairvoyant.section5_4.short.cut_pct",
            value=float(cuts.mean()),
            low=float(cuts.min()),
            high=float(cuts.max()),
            n=int(cuts.size),
            how=how,
            note=f"{note} how many; range over runs",
            because="the cut depends on how many requests a burst has, which the section leaves open",
            variant=_VARIANT,
        ),
        Measured(
            key="clairvoyant.section5_4.short_before_long_pct",
            value=100.0 * float(np.mean(first)),
            n=len(first),
            how=how,
            note=note,
            because="a short prompt that the model takes for a long one goes late",
            variant=_VARIANT,
        ),
    ]
