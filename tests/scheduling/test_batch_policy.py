"""Batch policies as values: what is accepted, what is refused, and how they compare."""

from __future__ import annotations

import pickle

import pytest

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
        cl.batch_policy("isjl", alpha=1, effort=0)


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
