"""Batch policies as values: what is accepted, what is refused, and how they compare."""

from __future__ import annotations

import pickle
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clairvoyant_lab as cl
from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.scheduling.batch import BATCH_POLICIES


def test_policies_are_values():
    one, two = cl.batch_policy("isjl", alpha=100), cl.batch_policy("isjl", alpha=100.0)
    assert one == two
    assert hash(one) == hash(two)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.label == "isjl(100)"
    assert cl.batch_policy("fcfs").label == "fcfs"


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40), st.integers(1, 6), st.integers(0, 40))
@settings(max_examples=100, deadline=None)
def test_reordered_stages_complete_sooner_and_change_nothing_else(lengths, batch_size, alpha):
    for name in ("ljf", "isjl", "slack"):
        plain = cl.simulate_batch(lengths, cl.batch_policy(name, alpha=alpha), batch_size)
        moved = cl.simulate_batch(lengths, cl.batch_policy(name, alpha=alpha, reorder=True), batch_size)
        assert moved.sum_completion_steps <= plain.sum_completion_steps
        assert moved.fair
        for measure in ("makespan_steps", "externality", "max_gap", "sum_extent", "sum_max_progress"):
            assert getattr(moved, measure) == getattr(plain, measure)


def test_reordering_is_best_among_all_orders_of_stages():
    lengths = [9, 8, 7, 3, 3, 1]
    moved = cl.simulate_batch(lengths, cl.batch_policy("ljf", reorder=True), 2)
    assert moved.policy.label == "ljf, reordered"
    stages = [(9, 2), (7, 2), (3, 2)]  # length and jobs of LJF's stages; (3, 1) is the last
    best = min(
        sum(count * sum(length for length, _ in order[:k]) for k, (_, count) in enumerate(order))
        for order in permutations(stages)
    )
    within = 9 + 8 + 7 + 3 + 3 + 1
    assert moved.sum_completion_steps == best + within
    with pytest.raises(ParameterError, match="backlog"):
        cl.simulate_batch(lengths, cl.batch_policy("ljf", reorder=True), 2, release_steps=[0] * 6)


def test_promises():
    assert cl.batch_policy("ljf", alpha=0).promises_fairness
    assert cl.batch_policy("slack", alpha=3).promises_fairness
    assert not cl.batch_policy("ljf").promises_fairness
    assert not cl.batch_policy("isjl_literal", alpha=3).promises_fairness


def test_cohort_takes_its_options_and_others_take_none():
    assert dict(cl.batch_policy("cohort", alpha=1, effort=0).options)["effort"] == 0
    with pytest.raises(ParameterError, match="effrt"):
        cl.batch_policy("cohort", alpha=1, effrt=0)
    with pytest.raises(ParameterError, match="takes no options"):
        cl.batch_policy("fcfs", alpha=1, effort=0)
    with pytest.raises(ParameterError, match="True or False"):
        cl.batch_policy("ljf", reorder="no")


@pytest.mark.parametrize("name", [name for name in BATCH_POLICIES if name not in ("fcfs", "sjf", "ljf")])
def test_staged_policies_need_alpha(name):
    with pytest.raises(ParameterError) as caught:
        cl.batch_policy(name)
    assert caught.value.field == "alpha"


@pytest.mark.parametrize("alpha", [-1, 2.5, float("nan"), float("inf"), True, "5", 2**41])
def test_alpha_must_be_whole_and_not_negative(alpha):
    with pytest.raises(ParameterError) as caught:
        cl.batch_policy("fcfs", alpha=alpha)
    assert caught.value.field == "alpha"


def test_unknown_name_offers_the_nearest():
    with pytest.raises(ParameterError, match="Did you mean 'isjl'"):
        cl.batch_policy("isjll", alpha=1)
