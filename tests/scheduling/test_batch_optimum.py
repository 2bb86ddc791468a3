"""The exact optimum: three independent ways agree, no policy beats it, no bound exceeds it."""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clairvoyant_lab.errors import MissingExtraError, ParameterError
from clairvoyant_lab.scheduling.measure import measure_schedule
from clairvoyant_lab.scheduling.optimum import batch_optimum, exhaustive_optimum
from clairvoyant_lab.scheduling.rules import RULES, rule_starts
from clairvoyant_lab.scheduling.theory import claims
from clairvoyant_lab.scheduling.theory.bounds import makespan_bounds

pytest.importorskip("ortools", reason="the extra `exact`")


@st.composite
def small_instances(draw, most=6, longest=7):
    lengths = draw(st.lists(st.integers(1, longest), min_size=1, max_size=most))
    release = draw(
        st.none() | st.lists(st.integers(0, longest), min_size=len(lengths), max_size=len(lengths))
    )
    return lengths, draw(st.integers(1, 4)), draw(st.integers(0, longest)), release


@given(small_instances())
@settings(max_examples=120, deadline=None)
def test_no_policy_beats_the_exhaustive_optimum_and_no_bound_exceeds_it(instance):
    lengths, batch_size, alpha, release = instance
    best = exhaustive_optimum(lengths, batch_size, alpha, release)
    measure = measure_schedule(best.start_steps, lengths, batch_size, alpha)
    assert measure.unfair_steps == 0
    assert measure.over_capacity_step is None
    assert measure.makespan_steps == best.makespan_steps
    for rule in RULES:
        if rule in ("fcfs", "sjf", "isjl_literal", "isjl_unguarded") or (
            rule == "isjl_b2" and batch_size != 2
        ):
            continue
        starts = rule_starts(
            rule, np.array(lengths), batch_size, alpha, None if release is None else np.array(release)
        )
        assert (starts + lengths).max() >= best.makespan_steps, rule
    if release is None:
        bounds = makespan_bounds(lengths, batch_size, alpha)
        assert max(bounds.values()) <= best.makespan_steps, bounds


@given(small_instances())
@settings(max_examples=60, deadline=None)
def test_the_solver_agrees_with_the_search(instance):
    lengths, batch_size, alpha, release = instance
    solved = batch_optimum(lengths, batch_size, alpha, release)
    assert solved.proven
    assert solved.gap == 0
    assert solved.makespan_steps == exhaustive_optimum(lengths, batch_size, alpha, release).makespan_steps


@given(small_instances(most=4, longest=5))
@settings(max_examples=30, deadline=None)
def test_the_papers_time_indexed_programme_agrees(instance):
    lengths, batch_size, alpha, release = instance
    ours = batch_optimum(lengths, batch_size, alpha, release)
    paper = batch_optimum(lengths, batch_size, alpha, release, formulation="appendix8")
    assert paper.proven
    assert ours.makespan_steps == paper.makespan_steps


def test_brute_force_over_all_starts_agrees():
    """Every start vector of three jobs within the horizon, no cleverness at all."""
    for lengths in ([3, 2, 1], [4, 4, 2], [5, 1, 3], [2, 2, 2]):
        for batch_size, alpha in product((1, 2, 3), (0, 1, 2)):
            horizon = sum(lengths)
            best = horizon
            for starts in product(*(range(horizon - o + 1) for o in lengths)):
                makespan = max(s + o for s, o in zip(starts, lengths, strict=True))
                if makespan >= best:
                    continue
                measure = measure_schedule(starts, lengths, batch_size, alpha)
                if measure.unfair_steps == 0 and measure.over_capacity_step is None:
                    best = makespan
            assert exhaustive_optimum(lengths, batch_size, alpha).makespan_steps == best
            assert batch_optimum(lengths, batch_size, alpha).makespan_steps == best


def test_goldens_optima(shared_dir: Path):
    cases = json.loads((shared_dir / "golden" / "batch.json").read_text())["instances"]
    checked = 0
    for case in cases:
        expected = case["expect"].get("optimal_fair_makespan_steps")
        if expected is None or case["policy"] == "isjl_literal":
            continue
        found = batch_optimum(
            case["lengths"], case["batch_size"], case["alpha"], case.get("release_steps"), time_limit_s=30
        )
        assert (found.makespan_steps, found.proven) == (expected, True), case["name"]
        checked += 1
    assert checked > 20


def test_cheapest_schedule_trades_steps_for_externality():
    """Proposition 5.4's instance: dear footprints favour the static schedule, dear steps the other."""
    lengths = [4, 1, 1, 1, 1]
    fast = exhaustive_optimum(lengths, 2, 4, step_cost=100, footprint_cost=1)
    calm = exhaustive_optimum(lengths, 2, 4, step_cost=1, footprint_cost=100)
    assert fast.makespan_steps == 4
    assert calm.makespan_steps == 6
    assert measure_schedule(calm.start_steps, lengths, 2).externality == 0


def test_a_time_limit_leaves_a_bound_and_a_gap():
    rng = np.random.default_rng(5)
    lengths = rng.integers(20, 90, 40)
    found = batch_optimum(lengths, 4, 25, time_limit_s=0.5)
    assert found.bound_steps <= found.makespan_steps
    assert found.gap >= 0
    assert measure_schedule(found.start_steps, lengths, 4, 25).unfair_steps == 0
    assert "gap" in found._repr_html_()


@pytest.mark.parametrize(
    ("keywords", "field"),
    [
        ({"lengths": [1, 0]}, "lengths[1]"),
        ({"batch_size": 0}, "batch_size"),
        ({"alpha": -1}, "alpha"),
        ({"time_limit_s": 0}, "time_limit_s"),
        ({"formulation": "lp"}, "formulation"),
    ],
)
def test_bad_input(keywords, field):
    arguments = {"lengths": [2, 1], "batch_size": 2, "alpha": 1, **keywords}
    with pytest.raises(ParameterError) as caught:
        batch_optimum(**arguments)
    assert caught.value.field == field


def test_exhaustive_search_refuses_what_it_cannot_finish():
    with pytest.raises(ParameterError, match="at most 8"):
        exhaustive_optimum([1] * 9, 2, 1)


def test_the_optimum_of_small_instances_needs_no_solver(monkeypatch):
    rng = np.random.default_rng(8)
    cases = [
        (
            rng.integers(1, 9, int(rng.integers(7, 9))).tolist(),
            int(rng.integers(2, 4)),
            int(rng.integers(0, 9)),
        )
        for _ in range(25)
    ]
    claims._optimal.cache_clear()
    solved = [claims.optimal_makespan(*case) for case in cases]
    claims._optimal.cache_clear()
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)  # as where the extra isn't installed
    assert [claims.optimal_makespan(*case) for case in cases] == solved
    monkeypatch.setattr(claims, "rule_starts", lambda rule, own, *_: np.cumsum(own))  # nothing proved by them
    claims._optimal.cache_clear()
    assert [claims.optimal_makespan(*case) for case in cases[:8]] == solved[:8]
    with pytest.raises(MissingExtraError, match="exact"):
        claims.optimal_makespan([3, 3, 3, 2, 2, 2, 1, 1, 1], 2, 1)
    claims._optimal.cache_clear()
