"""Policies as values, and the waiting queue that a live server drives."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clairvoyant_lab as cl
from clairvoyant_lab.scheduling.selection import WaitingQueue
from clairvoyant_lab.scheduling.serial import POLICY_NAMES, RequestColumns


def test_a_policy_is_a_value() -> None:
    one = cl.serial_policy("sjf", 10, promotion="shortest")
    assert one == cl.serial_policy("sjf", 10.0, promotion="shortest")
    assert hash(one) == hash(pickle.loads(pickle.dumps(one)))
    assert repr(one) == "serial_policy('sjf', starvation_timeout_s=10.0, promotion='shortest')"
    assert repr(cl.serial_policy("fcfs")) == "serial_policy('fcfs')"
    assert one.with_timeout(None).starvation_timeout_s is None
    assert one.with_timeout(0).starvation_timeout_s == 0.0
    with pytest.raises(AttributeError):
        one.promotion = "oldest"  # type: ignore[misc]


@pytest.mark.parametrize("tau", [-1, float("nan"), float("inf"), "6", True])
def test_a_bad_timeout_is_refused_with_field_value_and_remedy(tau: object) -> None:
    with pytest.raises(cl.ParameterError, match="None means no limit") as refused:
        cl.serial_policy("sjf", tau)  # type: ignore[arg-type]
    assert refused.value.field == "starvation_timeout_s"
    assert refused.value.value is tau


@pytest.mark.parametrize(
    ("arguments", "params", "message"),
    [
        (("sjff",), {}, r"name = 'sjff'.*Did you mean 'sjf'"),
        (("sjf", 5, "odlest"), {}, r"promotion = 'odlest'.*oldest"),
        (("sjf",), {"rate": 1.0}, r"parameter of 'sjf' = 'rate'"),
        (("aging",), {}, r"rate = None"),
        (("aging",), {"rate": -1.0}, r"rate = -1.0.*0 or more"),
        (("srpt", 5.0), {}, r"starvation_timeout_s = 5.0.*no timeout"),
    ],
)
def test_bad_policies_are_refused(
    arguments: tuple[object, ...], params: dict[str, object], message: str
) -> None:
    with pytest.raises(cl.ParameterError, match=message):
        cl.serial_policy(*arguments, **params)  # type: ignore[arg-type]


def test_keys_are_the_columns_that_design_names() -> None:
    columns = RequestColumns(
        [1.0, 2.0],
        score=[0.3, 0.2],
        predicted_tokens=[50, 10],
        expected_service_s=[4.0, 3.0],
        service_s=[7.0, 8.0],
    )
    expected = {
        "fcfs": [1.0, 2.0], "sjf": [0.3, 0.2], "sjf_tokens": [50.0, 10.0], "sjf_service": [4.0, 3.0],
        "oracle": [7.0, 8.0], "srpt": [7.0, 8.0],
    }  # fmt: skip
    for name, keys in expected.items():
        assert cl.serial_policy(name).key(columns).tolist() == keys
    assert cl.serial_policy("aging", rate=0.5).key(columns).tolist() == [0.8, 1.2]
    assert cl.serial_policy("hrrn").key(columns, 5.0).tolist() == [-2.0, -2.0]
    assert set(expected) | {"aging", "hrrn"} == set(POLICY_NAMES)
    with pytest.raises(cl.ParameterError, match="dynamic"):
        cl.serial_policy("hrrn").key(columns)


def test_a_missing_column_and_a_bad_key_are_named() -> None:
    with pytest.raises(cl.DataError, match=r"column 'predicted_tokens': policy 'sjf_tokens' needs it"):
        cl.serial_policy("sjf_tokens").key(RequestColumns([0.0]))
    assert cl.serial_policy("sjf", 5.0, promotion="long_only").needs == ("score",)
    assert cl.serial_policy("fcfs", 5.0, promotion="long_only").needs == ("score",)
    with pytest.raises(cl.DataError, match=r"row 1.*not a number"):
        cl.serial_policy(lambda requests: np.asarray([0.0, np.nan])).key(RequestColumns([0.0, 1.0]))
    with pytest.raises(cl.DataError, match="shape"):
        cl.serial_policy(lambda requests: 1.0).key(RequestColumns([0.0, 1.0]))


def test_the_long_bound_is_a_parameter() -> None:
    columns = RequestColumns([0.0, 0.0, 0.0], score=[0.4, 0.5, 0.6])
    assert cl.serial_policy("sjf", 1, promotion="long_only").is_long(columns).tolist() == [False, True, True]
    own = cl.serial_policy("sjf", 1, promotion="long_only", long_from_score=0.6)
    assert own.is_long(columns).tolist() == [False, False, True]
    assert not cl.serial_policy("sjf", 1).is_long(columns).any()


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 3), st.booleans()),
            st.tuples(st.just("take"), st.integers(0, 4), st.just(False)),
            st.tuples(st.just("leave"), st.integers(0, 30), st.just(False)),
        ),
        max_size=80,
    ),
    promotion=st.sampled_from(["oldest", "shortest", "long_only"]),
    tau=st.one_of(st.none(), st.integers(0, 6)),
)
def test_a_live_queue_with_leavers_chooses_as_a_naive_scan_does(
    steps: list[tuple[str, int, bool]], promotion: str, tau: int | None
) -> None:
    queue = WaitingQueue(cl.serial_policy("sjf", tau, promotion=promotion))
    waiting: dict[int, tuple[float, float, bool]] = {}
    now, ticket = 0.0, 0
    for what, number, long in steps:
        if what == "add":
            now += 0.5
            queue.add(ticket, now, float(number), long)
            waiting[ticket] = (float(number), now, long)
            ticket += 1
        elif what == "leave":
            assert queue.discard(number) == (waiting.pop(number, None) is not None)
        elif waiting:
            now += number
            late = [t for t in waiting if tau is not None and now - waiting[t][1] > tau]
            if promotion == "long_only":
                late = [t for t in late if waiting[t][2]]
            if late and promotion == "shortest":
                expected = min(late, key=lambda t: (waiting[t][0], waiting[t][1], t))
            elif late:
                expected = min(late, key=lambda t: (waiting[t][1], t))
            else:
                expected = min(waiting, key=lambda t: (waiting[t][0], waiting[t][1], t))
            assert queue.order_at(now)[0] == expected
            assert queue.take(now) == (expected, bool(late))
            del waiting[expected]
        assert len(queue) == len(waiting)
        assert sorted(queue.order_at(now)) == sorted(waiting)


def test_a_queue_that_many_leave_keeps_no_ghosts() -> None:
    queue = WaitingQueue(cl.serial_policy("sjf", 1e9))
    queue.add(-1, 0.0, 1e9)
    for ticket in range(20_000):
        queue.add(ticket, float(ticket), float(-ticket))
        assert queue.take(float(ticket)) == (ticket, False)
    assert len(queue) == 1
    assert len(queue._by_arrival) < 200
    assert len(queue._by_key) < 200


def test_misuse_of_the_queue_is_refused() -> None:
    with pytest.raises(cl.ParameterError, match="preemptive"):
        WaitingQueue(cl.serial_policy("srpt"))
    with pytest.raises(cl.ParameterError, match="dynamic"):
        WaitingQueue(cl.serial_policy("hrrn"))
    queue = WaitingQueue(cl.serial_policy("sjf"))
    queue.add(1, 0.0, 0.0)
    with pytest.raises(cl.ParameterError, match="already waits"):
        queue.add(1, 0.0, 0.0)
    queue.take(0.0)
    with pytest.raises(IndexError):
        queue.take(0.0)
