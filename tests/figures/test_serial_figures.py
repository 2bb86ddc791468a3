"""Figures of serial runs hold the numbers they are made of."""

from __future__ import annotations

import numpy as np
import pytest

import clairvoyant_lab as cl
from clairvoyant_lab.bench import bench_burst
from clairvoyant_lab.figures import serial, serial_sweeps
from clairvoyant_lab.papers.serial_experiments import figure3, frontier, table10
from clairvoyant_lab.simulation.replicates import Replicates
from clairvoyant_lab.simulation.workloads import paper_mix, poisson_trace


@pytest.fixture(scope="module")
def runs() -> list[cl.SerialRun]:
    trace = poisson_trace(300, paper_mix(0.5), rho=0.8, seed=1, accuracy=0.95)
    return [cl.simulate_serial(trace, p) for p in ("fcfs", "sjf", cl.serial_policy("sjf", 15.0))]


def test_the_timeline_draws_each_request_once_a_band(runs: list[cl.SerialRun]) -> None:
    figure = serial.timeline(runs, first=20)
    strokes = [t for t in figure.data if t.mode == "lines" and t.line.width == 6]
    assert sum(len(t.x) for t in strokes) == 3 * 3 * 20  # start, end, gap; three bands
    starts = sorted(float(x) for t in strokes for x in np.asarray(t.x)[0::3])
    expected = sorted(float(s) for run in runs for s in run.start_s[:20])
    np.testing.assert_allclose(starts, expected)
    assert figure.layout.xaxis.title.text.startswith("time (s)")


def test_bars_are_the_runs_percentiles_from_zero(runs: list[cl.SerialRun]) -> None:
    figure = serial.percentiles_by_class(runs)
    names = {t.name for t in figure.data}
    assert names == {"FCFS", "SJF", "SJF, τ = 15 s"}
    first = figure.data[0]
    np.testing.assert_allclose(first.y, runs[0].percentile((50, 95, 99), cl.LengthClass.SHORT))
    assert len({t.marker.color for t in figure.data}) == 3
    assert figure.layout.yaxis.rangemode == "tozero"


def test_points_lie_below_the_bound(runs: list[cl.SerialRun]) -> None:
    figure = serial.wait_against_bound(runs[2], runs[0])
    line = next(t for t in figure.data if t.name and t.name.startswith("W(FCFS)"))
    slack = line.y[0] - line.x[0]
    for cloud in (t for t in figure.data if t.mode == "markers"):
        assert (np.asarray(cloud.y) <= np.asarray(cloud.x) + slack + 1e-9).all()
    with pytest.raises(cl.ParameterError, match="timeout"):
        serial.wait_against_bound(runs[1], runs[0])


def test_queue_length_ends_empty_and_distribution_is_monotone(runs: list[cl.SerialRun]) -> None:
    for curve in serial.queue_length(runs).data:
        assert curve.y[-1] == 0
        assert min(curve.y) >= 0
    for curve in serial.sojourn_distribution(runs).data:
        assert (np.diff(curve.x) >= 0).all()


def test_sweep_figures_show_ours_and_the_printed_numbers() -> None:
    by_load = figure3(range(3), rhos=(0.5, 0.74), n=300, promotions=("oldest", "long_only"))
    figure = serial_sweeps.cut_against_load(by_load, published=(0.74, 17.4))
    assert [t.name for t in figure.data][-1] == "printed: 17.4 %"
    assert len(figure.data) == 3
    cells = table10(range(3), n=200)
    figure = serial_sweeps.p50_against_tau(cells)
    printed = sorted(v for t in figure.data if "printed" in t.name for v in t.y)
    assert printed == sorted(cells["published_s"])
    points = frontier((5.0, None), range(2), n=200)
    assert len(serial_sweeps.frontier_chart(points, budget_pct=5.0).data) == 3
    report = bench_burst("l4", 5, 5, runs=2)
    bars = serial_sweeps.bench_bars(report).data
    assert [bar.name for bar in bars] == ["FCFS", "SJF"]


def test_bars_over_replicates_carry_intervals() -> None:
    traces = Replicates.poisson(200, paper_mix(0.5), rho=0.8, seeds=(1, 2, 3), accuracy=0.9)
    figure = serial.class_percentiles({"FCFS": traces.percentiles("fcfs"), "SJF": traces.percentiles("sjf")})
    assert [t.name for t in figure.data] == ["FCFS", "SJF"]
    assert all(v > 0 for t in figure.data for v in t.error_y.array)
