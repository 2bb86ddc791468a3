"""Bursts over HTTP on the emulated backend: the order, the oracle beside it, the ledger's rows."""

from __future__ import annotations

import numpy as np
import pytest

from clairvoyant_lab.bench.overtaking import bench_emulated_burst, with_oracle
from clairvoyant_lab.bench.report import BenchReport
from clairvoyant_lab.figures.overtaking import burst_timeline
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.papers.live import measure_burst


@pytest.fixture(scope="module")
def report() -> BenchReport:
    return bench_emulated_burst(n_short=4, n_long=4, runs=1, speedup=100.0, capped=True, seed=3)


def test_shorts_come_first_under_the_default_and_work_is_conserved(report: BenchReport) -> None:
    sample = {s.policy: s for s in report.samples}
    short = sample["sjf_tokens"].values(LengthClass.SHORT, "sojourn_s")
    long = sample["sjf_tokens"].values(LengthClass.LONG, "sojourn_s")
    assert short.max() < long.min()
    assert report.percentile("sjf_tokens", LengthClass.SHORT, 50) < report.percentile(
        "fcfs", LengthClass.SHORT, 50
    )
    assert all(s.failed == 0 and s.sojourn_s.size == 8 for s in report.samples)


def test_the_oracle_keeps_the_work_and_is_no_worse(report: BenchReport) -> None:
    both = with_oracle(report, "sjf_tokens")
    assert both.policies == ("fcfs", "sjf_tokens", "oracle")
    ours, oracle = both.samples[1], both.samples[2]
    assert oracle.sojourn_s.max() == pytest.approx(ours.sojourn_s.max())
    assert oracle.sojourn_s.mean() <= ours.sojourn_s.mean() + 1e-9


def test_the_figure_and_the_rows_show_the_report(report: BenchReport) -> None:
    figure = burst_timeline(report)
    bars = [t for t in figure.data if t.type == "bar"]
    assert sum(len(t.y) for t in bars) == 16
    rows = {row.key: row.value for row in measure_burst(report, "sjf_tokens")}
    cut = rows["clairvoyant.section5_4.short.cut_pct"]
    assert cut is not None
    ratio = report.percentile("sjf_tokens", LengthClass.SHORT, 50) / report.percentile(
        "fcfs", LengthClass.SHORT, 50
    )
    assert cut == pytest.approx(100 * (1 - float(np.mean(ratio))))
    assert rows["clairvoyant.section5_4.short_before_long_pct"] == 100.0
