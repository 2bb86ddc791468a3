"""Figures of the batch world: every trace has data, axes name their units."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import clairvoyant_lab as cl
from clairvoyant_lab.advice.alpha import calibrate_alpha
from clairvoyant_lab.economics import cost_frame
from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.figures import batch, batch_theory
from clairvoyant_lab.papers.batch import table1_frame, table1_means
from clairvoyant_lab.scheduling.theory import KvMemory, optimum_ratios
from clairvoyant_lab.simulation.batch_time import UnitTime, time_run

LENGTHS = [37, 5, 12, 60, 3, 44, 18, 9, 55, 21, 7, 30, 2, 48, 16, 11, 26, 40, 6, 33]


def run(name, alpha=5):
    return cl.simulate_batch(LENGTHS, cl.batch_policy(name, alpha=alpha), 6)


def titled(figure):
    assert figure.layout.xaxis.title.text
    assert figure.layout.yaxis.title.text
    assert len(figure.data) > 0
    for trace in figure.data:
        assert trace.x is not None
        assert len(trace.x) > 0
    return figure


def test_schedule_has_one_bar_a_job_and_slots_never_overlap():
    done = run("isjl")
    figure = titled(batch.schedule_chart(done))
    bar = figure.data[0]
    assert len(bar.x) == len(LENGTHS)
    for slot in set(bar.y):
        spans = sorted((b, b + x) for b, x, y in zip(bar.base, bar.x, bar.y, strict=True) if y == slot)
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
    assert "fair" in figure.layout.title.text
    assert len(batch.schedule_chart(done, most_jobs=3).data[0].x) == 3


def test_schedule_marks_where_fairness_broke():
    figure = batch.schedule_chart(run("isjl_literal"))
    assert "NOT fair" in figure.layout.title.text
    assert any("too far ahead" in note.text for note in figure.layout.annotations)


def test_gap_chart_shows_the_runs_largest_gap():
    runs = {name: run(name) for name in ("fcfs", "ljf", "isjl")}
    figure = titled(batch.gap_chart(runs, 5))
    for trace, done in zip(figure.data, runs.values(), strict=True):
        assert max(trace.y) == done.max_gap


def test_money_figures():
    runs = {name: run(name) for name in ("fcfs", "ljf", "slack")}
    frame = cost_frame(runs, 0.1, 0.001, 1.0)
    bars = titled(batch.cost_bars(frame))
    assert np.allclose(sum(np.asarray(trace.y) for trace in bars.data), frame["cost"])
    lines = titled(batch.profit_over_step_cost(runs, runs["ljf"], 0.001, np.linspace(0, 1, 5), marked=0.5))
    assert (np.asarray(lines.data[1].y) == 0).all()
    table = table1_frame(range(2), policies=("slack",), alphas=(100, 400))
    titled(batch.profit_frontier(table1_means(table)))
    gain = titled(batch.gain_chart(table[table["alpha"].notna()], {100: 0.06}))
    assert gain.data[-1].y[0] == pytest.approx(6)
    limited = table[table["policy"] == "slack"]
    sweep = batch.alpha_sweep(limited, "throughput", y_title="y", title="t", references={"ljf": 40.0})
    assert len(titled(sweep).data) == 2
    with pytest.raises(ParameterError, match="not in the frame"):
        batch.alpha_sweep(limited, "speed", y_title="y", title="t")


def test_calibration_names_its_choice():
    advice = calibrate_alpha(LENGTHS, 6, step_cost=1, footprint_cost=1e-3, policy="slack", grid=[0, 5, 20])
    figure = titled(batch.calibration_chart(advice))
    assert figure.layout.annotations[0].text == f"α = {advice.alpha}"


def test_histogram_counts_every_request():
    assert sum(titled(batch.length_histogram(LENGTHS)).data[0].y) == len(LENGTHS)


def test_theory_figures():
    points = pd.DataFrame({"gamma": [0.5], "ratio": [2 / 3], "batch_size": [3], "instance": ["[2, 2, 1, 1]"]})
    assert len(titled(batch_theory.ratio_curve(points)).data) == 3
    assert len(titled(batch_theory.ratio_curve()).data) == 2
    distances = optimum_ratios(["ljf", "slack"], instances=10)
    curve = titled(batch_theory.optimum_chart(distances))
    assert max(curve.data[0].y) == 100
    pools = pd.DataFrame({"pending": [10, 100], "unmatched": [0.5, 0.1], "bound": [1.0, 0.3]})
    titled(batch_theory.matching_chart(pools))
    titled(batch_theory.latency_curve({"ljf": time_run(run("ljf"), UnitTime(0.1))}))
    titled(batch_theory.kv_chart({"8B": KvMemory(5e9, 32, 8, 128)}, range(1, 5), 2048))
