"""What the proxy's order is worth on a real llama.cpp server: short requests behind long ones.

One short request runs, then 6 short and 6 long ones come at once, in a random order that all policies share.
With caps (12 and 300 tokens) both kinds of answer fill them: every policy does the same work. Without them,
each answer ends by itself or with the context (1,024 tokens), and the prompts alone tell the proxy. The order
of the oracle is what the service times measured under the default policy would have allowed.

Run: python benchmarks/bench_overtaking.py [RUNS]    (each run takes about 1 minute with caps, 5 without)
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.bench.overtaking import bench_overtaking, with_oracle
from clairvoyant_lab.bench.report import BenchReport
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.serving import LocalServer

CONTEXT_TOKENS = 1024
DEFAULT = "sjf_tokens"


def run(runs_with_caps: int = 3, runs_without: int = 1) -> list[dict[str, Any]]:
    """Rows of the table: the median short sojourn and the last long finish, the default against FCFS."""
    rows = []
    with LocalServer(context_tokens=CONTEXT_TOKENS) as server:
        for what, short_cap, long_cap, runs in (
            ("with caps", 12, 300, runs_with_caps),
            ("without caps", None, None, runs_without),
        ):
            report = bench_overtaking(
                server.url,
                ("fcfs", DEFAULT),
                short_cap=short_cap,
                long_cap=long_cap,
                runs=runs,
                timeout_s=3600.0,
            )
            rows += _rows(what, with_oracle(report, DEFAULT))
    return rows


def _rows(what: str, report: BenchReport) -> list[dict[str, Any]]:
    short = {policy: report.percentile(policy, LengthClass.SHORT, 50) for policy in report.policies}
    last = {policy: report.percentile(policy, LengthClass.LONG, 100) for policy in report.policies}
    oracle = f"FCFS; oracle order {short['oracle'].mean():.2f} s"
    same_work = "FCFS, the same work, so that a difference is the machine's"
    return [
        _row(f"llama.cpp burst {what}: short P50", short, "<= 0.1", oracle),
        _row(f"llama.cpp burst {what}: last long finish", last, "0.9 to 1.1", same_work),
    ]


def _row(bench: str, times_s: dict[str, NDArray[np.float64]], target: str, peer: str) -> dict[str, Any]:
    ours, fcfs = times_s[DEFAULT], times_s["fcfs"]
    by_run = ", ".join(f"{ratio:.3f}" for ratio in ours / fcfs)
    return {
        "bench": bench,
        "ours": float(ours.mean()),
        "peer": float(fcfs.mean()),
        "ratio": float(ours.mean() / fcfs.mean()),
        "unit": "s",
        "target": target,
        "note": f"peer: {peer}; means over runs, by run {by_run}",
    }


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:2]]
    for row in run(*given, *given):
        print(
            f"{row['bench']}: ours {row['ours']:.2f}, peer {row['peer']:.2f} {row['unit']}, "
            f"ratio {row['ratio']:.3f} (target {row['target']}); {row['note']}"
        )
