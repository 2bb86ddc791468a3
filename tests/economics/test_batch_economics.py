"""Costs, prices and demand of batch schedules (ISJL, section 5)."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clairvoyant_lab as cl
from clairvoyant_lab.economics import (
    ModelPrice,
    PriceList,
    accept_by_length,
    accept_with_delay,
    acceptance_probability,
    alpha_cost,
    break_even_step_cost,
    certified_profit,
    compare_profit,
    cost_frame,
    profit_guarantee,
    table1_workload,
)
from clairvoyant_lab.errors import DataError, ParameterError


def run(name, lengths, batch_size, alpha=None):
    return cl.simulate_batch(lengths, cl.batch_policy(name, alpha=alpha), batch_size)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(1, 6), st.integers(0, 60))
@settings(max_examples=100, deadline=None)
def test_the_decomposition_is_exact_and_bounded(lengths, batch_size, alpha):
    """Theorem 5.1 in integers: sum over steps of c + tau |S| max r, counted one by one."""
    for name in ("fcfs", "ljf", "isjl", "slack"):
        done = run(name, lengths, batch_size, alpha)
        cost = 0
        for t in range(done.makespan_steps):
            active = (done.start_steps <= t) & (t < done.finish_steps)
            cost += 7 + 3 * int(active.sum()) * int((t - done.start_steps[active] + 1).max())
        parts = cl.cost_breakdown(done, step_cost=7, footprint_cost=3, token_price=2)
        assert parts.cost == cost
        assert parts.revenue == 2 * sum(lengths)
        assert parts.profit == parts.revenue - cost
        assert parts.intrinsic == 3 * sum(o * (o + 1) // 2 for o in lengths)
        if name != "fcfs":
            assert done.externality <= alpha * done.tokens
    assert run("ljf", lengths, batch_size).externality == 0


def test_pairwise_comparison_equals_the_difference_of_profits():
    lengths = np.random.default_rng(0).integers(1, 300, 80)
    runs = [run("isjl", lengths, 16, 60), run("ljf", lengths, 16), run("fcfs", lengths, 16)]
    for other in runs[1:]:
        compared = compare_profit(runs[0], other, 0.01, 1e-5)
        profits = [cl.cost_breakdown(r, 0.01, 1e-5, 0.002).profit for r in (runs[0], other)]
        assert compared.difference == pytest.approx(profits[0] - profits[1])
        assert compared.guaranteed is not None
        assert compared.guaranteed <= compared.difference  # eqs. (13) and (14)
    assert compare_profit(runs[2], runs[1], 0.01, 1e-5).guaranteed is None  # FCFS promises nothing
    with pytest.raises(ParameterError, match="other lengths"):
        compare_profit(runs[0], run("ljf", lengths[:-1], 16), 0.01, 1e-5)


def test_break_even():
    lengths = [9, 5, 3]
    slack, ljf = run("slack", lengths, 2, 4), run("ljf", lengths, 2)
    c = break_even_step_cost(slack, ljf, 1e-3)
    assert slack.makespan_steps < ljf.makespan_steps
    assert c is not None
    assert compare_profit(slack, ljf, c, 1e-3).difference == pytest.approx(0)
    assert compare_profit(slack, ljf, c * 1.01, 1e-3).difference > 0
    assert break_even_step_cost(ljf, slack, 1e-3) is None
    assert break_even_step_cost(ljf, ljf, 1e-3) is None


def test_alpha_cost_keeps_externality_within_its_share():
    lengths = np.random.default_rng(4).integers(1, 500, 300)
    delta = 0.2
    limit = int(alpha_cost(lengths, delta))
    for name in ("isjl", "slack"):
        done = run(name, lengths, 32, limit)
        assert done.externality <= delta * done.intrinsic
    assert alpha_cost([3], 1.0) == 2.0
    with pytest.raises(ParameterError):
        alpha_cost([3], -0.1)


def test_certificate_and_guarantee():
    lengths = [5, 5, 3, 2, 1]
    done = run("isjl", lengths, 2, 2)
    floor = certified_profit(lengths, 2, done.makespan_steps, 0.5, 0.01, 1.0)
    assert floor <= cl.cost_breakdown(done, 0.5, 0.01, 1.0).profit
    guarantee = profit_guarantee(done, step_cost=10, footprint_cost=1)
    assert guarantee.ratio_held
    assert guarantee.holds
    assert guarantee.loss >= 0
    with pytest.raises(ParameterError):
        profit_guarantee(run("fcfs", lengths, 2), 1, 1)


def test_frame_needs_one_workload_and_finite_money():
    lengths = [4, 3, 2]
    frame = cost_frame({"ljf": run("ljf", lengths, 2), "isjl": run("isjl", lengths, 2, 1)}, 0.1, 0.01, 1)
    assert frame.loc[0, "gain_over_ljf"] == 0
    assert frame["intrinsic"].nunique() == 1
    with pytest.raises(ParameterError, match="other lengths"):
        cost_frame({"a": run("ljf", lengths, 2), "b": run("ljf", [4, 3], 2)}, 0.1, 0.01, 1)
    for money in (-1, float("nan"), float("inf"), "1"):
        with pytest.raises(ParameterError):
            cl.cost_breakdown(run("ljf", lengths, 2), money, 0, 0)


def test_acceptance_model():
    probability = acceptance_probability([1, 100, 101, 300, 1000], 1 / 500)
    assert probability == pytest.approx([0.99, 0.0, 1 - 101 / 300, 1 - 300 / 500, 1 - 1000 / 1900])
    # with a fixed reference, a higher price drives requests away
    assert acceptance_probability([250], 2 / 500, reference_price=1 / 500)[0] == 0.0
    accepted = table1_workload(7)
    assert np.array_equal(accepted, table1_workload(7))
    assert 150 < accepted.size < 260
    sizes = [accept_by_length(np.full(500, 50), 0.01, seed).size for seed in range(20)]
    assert np.mean(sizes) == pytest.approx(250, abs=15)
    with pytest.raises(ParameterError):
        acceptance_probability([3], 0)


def test_demand_that_minds_the_wait():
    rng = np.random.default_rng(1)
    lengths, values = rng.integers(1, 600, 400), rng.uniform(0, 3, 400)
    policy = cl.batch_policy("slack", alpha=100)
    patient = accept_with_delay(lengths, values, 1 / 500, 0.0, policy, 32)
    hurried = accept_with_delay(lengths, values, 1 / 500, 0.001, policy, 32)
    assert patient.settled
    assert patient.accepted.sum() == (values >= lengths / 500).sum()
    assert hurried.accepted.sum() < patient.accepted.sum()
    assert hurried.run is not None
    assert hurried.settled == (hurried.largest_error_steps <= 1)
    nobody = accept_with_delay(lengths, 0.0, 1.0, 0.0, policy, 32)
    assert nobody.run is None
    assert nobody.summary()["accepted"] == 0
    with pytest.raises(ParameterError) as caught:
        accept_with_delay([1, 2], [1.0, -2.0], 1.0, 0.0, policy, 2)
    assert caught.value.field == "values[1]"


def test_price_lists(tmp_path):
    csv = tmp_path / "prices.csv"
    csv.write_text(
        "model,input_per_million,output_per_million,cached_input_per_million\nm1,2,8,0.5\nm2,1,1,\n"
    )
    prices = PriceList.read(csv)
    assert list(prices) == ["m1", "m2"]
    assert prices["m1"].token_price(300, 100) == pytest.approx(3.5e-6)
    assert prices["m1"].token_price(300, 100, cached_tokens=300) == pytest.approx((150 + 800) / 400 / 1e6)
    assert prices["m2"].token_price(10, 0, cached_tokens=10) == pytest.approx(1e-6)
    js = tmp_path / "prices.json"
    js.write_text(json.dumps({"models": prices.to_frame().iloc[:1].to_dict(orient="records")}))
    assert PriceList.read(js)["m1"] == prices["m1"]
    toml = tmp_path / "prices.toml"
    toml.write_text('[[models]]\nmodel = "m3"\ninput_per_million = 3\noutput_per_million = 9\n')
    assert PriceList.read(toml)["m3"] == ModelPrice("m3", 3, 9)
    with pytest.raises(ParameterError, match="Did you mean 'm1'"):
        prices["m11"]
    csv.write_text("model,input_per_million,output_per_million\nm1,2,cheap\n")
    with pytest.raises(DataError, match="row 0, column 'output_per_million'"):
        PriceList.read(csv)
    with pytest.raises(DataError, match=r"\.csv, \.json or \.toml"):
        PriceList.read(__file__)
    with pytest.raises(ParameterError):
        prices["m1"].token_price(0, 0)
