"""Calibrating alpha on a log, under targets, with a log kept back."""

from __future__ import annotations

import numpy as np
import pytest

from clairvoyant_lab.advice.alpha import alpha_grid, calibrate_alpha
from clairvoyant_lab.economics import alpha_cost, table1_workload
from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.simulation.batch_time import FootprintTime

PRICES = {"step_cost": 0.0005, "footprint_cost": 1e-6, "token_price": 0.002}
LENGTHS = table1_workload(3)


def test_without_targets_the_cheapest_is_no_externality_when_steps_are_cheap():
    advice = calibrate_alpha(LENGTHS, 50, policy="slack", **PRICES)
    assert advice.alpha == 0
    dear = calibrate_alpha(LENGTHS, 50, policy="slack", step_cost=1.0, footprint_cost=1e-6)
    assert dear.alpha is not None
    assert dear.alpha > 0
    assert dear.table["schedule_cost"].min() == dear.summary()["schedule_cost"]


def test_targets_bind_and_smallest_takes_the_smallest():
    table = calibrate_alpha(LENGTHS, 50, policy="slack", **PRICES).table
    target = float(table["throughput"].median())
    advice = calibrate_alpha(
        LENGTHS,
        50,
        policy="slack",
        min_throughput=target,
        choose="smallest",
        holdout=table1_workload(4),
        **PRICES,
    )
    good = table[table["throughput"] >= target]
    assert advice.alpha == good["alpha"].min()
    assert advice.holdout_agrees in (True, False)
    assert "holdout_throughput" in advice.table
    assert "Calibrated alpha" in advice._repr_html_()


def test_targets_that_nothing_meets_are_said_so():
    advice = calibrate_alpha(LENGTHS, 50, min_throughput=51.0, **PRICES)
    assert advice.alpha is None
    assert "best throughput" in advice.reason
    late = calibrate_alpha(LENGTHS, 50, max_latency=1.0, **PRICES)
    assert late.alpha is None


def test_seconds_and_arrivals():
    release = np.arange(LENGTHS.size) * 5
    advice = calibrate_alpha(
        LENGTHS,
        50,
        policy="online",
        grid=[50, 200],
        release_steps=release,
        step_time=FootprintTime(0.02, 1e-6),
        **PRICES,
    )
    assert advice.table["alpha"].tolist() == [50, 200]
    steps = calibrate_alpha(LENGTHS, 50, policy="online", grid=[50, 200], release_steps=release, **PRICES)
    assert (advice.table["throughput"] > steps.table["throughput"]).all()  # a step takes less than a second


def test_grids():
    grid = alpha_grid(LENGTHS, 4)
    assert grid[0] == 0
    assert grid[-1] == int(alpha_cost(LENGTHS, 2.0))
    assert alpha_grid([5, 9], 2, "quantiles").tolist() == [0, 7, 9]


@pytest.mark.parametrize(
    ("keywords", "field"),
    [
        ({"grid": []}, "grid"),
        ({"grid": [-1]}, "alpha"),
        ({"choose": "best"}, "choose"),
        ({"latency_quantile": 95}, "latency_quantile"),
        ({"min_throughput": 0}, "min_throughput"),
        ({"policy": "isjll"}, "name"),
        ({"step_cost": -1}, "step_cost"),
    ],
)
def test_bad_input(keywords, field):
    with pytest.raises(ParameterError) as caught:
        calibrate_alpha(LENGTHS, 50, **{**PRICES, **keywords})
    assert caught.value.field == field
