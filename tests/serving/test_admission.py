"""The live line against the simulator under a fake clock; cancelled grants; drains."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clairvoyant_lab.errors import ParameterError, QueueFullError
from clairvoyant_lab.scheduling.serial import SerialPolicy, serial_policy
from clairvoyant_lab.serving.admission import Admission, DrainingError, Line, Waiter
from clairvoyant_lab.serving.forecast import EMBEDDING, Forecast
from clairvoyant_lab.simulation.serial import simulate_serial
from clairvoyant_lab.simulation.trace import Trace

EIGHTHS = st.integers(0, 64).map(lambda k: k / 8)


def waiter(line: Line, arrival_s: float, p_long: float = 0.5, tokens: float = 100.0, **more: Any) -> Waiter:
    forecast = more.pop("forecast", Forecast((1 - p_long, 0.0, p_long), tokens, "model"))
    ticket = line.ticket()
    return Waiter(ticket, f"r{ticket}", arrival_s, forecast, more.pop("expected_service_s", 1.0), **more)


def run_live(trace: Trace, policy: SerialPolicy, slots: int) -> list[int]:
    """Drive the live line in virtual time; an arrival at a time comes before the dispatch at it."""
    line = Line(policy, slots)
    order: list[int] = []
    rows: dict[int, int] = {}
    ends: list[tuple[float, int, Waiter]] = []
    n, nxt = len(trace), 0
    score, tokens, expected = trace.score, trace.predicted_tokens, trace.expected_service_s
    assert score is not None
    assert tokens is not None
    assert expected is not None
    while nxt < n or ends:
        times = [end[0] for end in ends] + ([float(trace.arrival_s[nxt])] if nxt < n else [])
        now = min(times)
        for end in [e for e in ends if e[0] == now]:
            ends.remove(end)
            line.finish(end[2])
        while nxt < n and float(trace.arrival_s[nxt]) == now:
            forecast = Forecast((1 - score[nxt], 0.0, float(score[nxt])), float(tokens[nxt]), "model")
            item = Waiter(line.ticket(), str(nxt), now, forecast, float(expected[nxt]))
            rows[item.ticket] = nxt
            line.join(item)
            nxt += 1
        while (got := line.next(now)) is not None:
            row = rows[got.ticket]
            order.append(row)
            ends.append((now + float(trace.service_s[row]), row, got))
    return order


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    n = draw(st.integers(1, 30))
    gaps = draw(st.lists(EIGHTHS, min_size=n, max_size=n))
    service = draw(st.lists(st.integers(1, 80).map(lambda k: k / 8), min_size=n, max_size=n))
    score = draw(st.lists(st.integers(0, 8).map(lambda k: k / 8), min_size=n, max_size=n))
    tokens = draw(st.lists(st.integers(1, 40), min_size=n, max_size=n))
    expected = draw(st.lists(st.integers(1, 40).map(lambda k: k / 4), min_size=n, max_size=n))
    return Trace.from_arrays(
        np.cumsum(gaps),
        service,
        score,
        predicted_tokens=np.array(tokens, float),
        expected_service_s=np.array(expected),
    )


@settings(max_examples=120, deadline=None)
@given(
    trace=traces(),
    name=st.sampled_from(["fcfs", "sjf", "sjf_tokens", "sjf_service", "aging", "hrrn"]),
    timeout=st.one_of(st.none(), EIGHTHS),
    promotion=st.sampled_from(["oldest", "shortest", "long_only"]),
    slots=st.integers(1, 3),
)
def test_live_order_is_the_simulators_order(
    trace: Trace, name: str, timeout: float | None, promotion: str, slots: int
) -> None:
    extra = {"rate": 0.125} if name == "aging" else {}
    policy = serial_policy(name, starvation_timeout_s=timeout, promotion=promotion, **extra)
    assert run_live(trace, policy, slots) == list(simulate_serial(trace, policy, slots=slots).order)


@settings(max_examples=60, deadline=None)
@given(trace=traces(), dynamic=st.booleans())
def test_a_users_own_policy_runs_live_as_in_the_simulator(trace: Trace, dynamic: bool) -> None:
    def largest_first(requests: Any) -> Any:
        return -np.asarray(requests.predicted_tokens)

    def patience(requests: Any, now_s: float) -> Any:
        return np.asarray(requests.predicted_tokens) - 2.0 * (now_s - np.asarray(requests.arrival_s))

    policy = serial_policy(patience, dynamic=True) if dynamic else serial_policy(largest_first)
    assert run_live(trace, policy, 1) == list(simulate_serial(trace, policy).order)


def test_embeddings_first_background_last_and_tau_over_both() -> None:
    line = Line(serial_policy("sjf_tokens", starvation_timeout_s=10.0))
    line.join(waiter(line, 0.0, background=True, tokens=1.0))
    line.join(waiter(line, 1.0, tokens=0.0, p_long=0.0))
    line.join(waiter(line, 2.0, forecast=EMBEDDING))
    assert [w.request_id for w in line.order(3.0)] == ["r2", "r1", "r0"]
    first = line.next(10.5)
    assert first is not None
    assert (first.request_id, first.promoted) == ("r0", True)


def test_fcfs_lets_nothing_jump() -> None:
    line = Line(serial_policy("fcfs"))
    line.join(waiter(line, 0.0, background=True))
    line.join(waiter(line, 1.0, forecast=EMBEDDING))
    assert [w.request_id for w in line.order(2.0)] == ["r0", "r1"]


def test_a_change_of_policy_reorders_those_who_wait_and_keeps_their_arrivals() -> None:
    line = Line(serial_policy("fcfs"))
    for k, tokens in enumerate((300.0, 20.0, 100.0)):
        line.join(waiter(line, float(k), tokens=tokens))
    line.set_policy(serial_policy("sjf_tokens"))
    assert [w.request_id for w in line.order(3.0)] == ["r1", "r2", "r0"]
    line.set_policy(serial_policy("sjf_tokens", starvation_timeout_s=2.5))
    first = line.next(3.0)
    assert first is not None
    assert (first.request_id, first.promoted, first.wait_s(3.0)) == ("r0", True, 3.0)


def test_a_users_policy_that_fails_loses_no_request() -> None:
    def broken(requests: Any) -> Any:
        raise ValueError("no")

    line = Line(serial_policy(broken))
    line.join(waiter(line, 0.0))
    line.join(waiter(line, 1.0))
    assert [line.next(2.0).request_id, line.key_failures > 0] == ["r0", True]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["srpt", "oracle"])
def test_policies_that_cannot_run_live_are_refused(name: str) -> None:
    with pytest.raises(ParameterError, match="cannot run live"):
        Line(serial_policy(name))


async def test_a_storm_of_cancels_at_the_moment_of_the_grant_leaks_no_slot() -> None:
    line = Line(serial_policy("fcfs"))
    gate = Admission(line, asyncio.get_running_loop().time, max_queue=1000)

    async def pass_through(hold_s: float) -> str:
        mine = waiter(line, gate.clock())
        gate.enter(mine)
        await gate.granted(mine)
        try:
            await asyncio.sleep(hold_s)
        finally:
            gate.release(mine)
        return "done"

    holder = waiter(line, 0.0)
    gate.enter(holder)
    gate.pump()
    tasks = [asyncio.create_task(pass_through(0.0)) for _ in range(200)]
    await asyncio.sleep(0)
    # each is granted by the release of the one before, in the same step in which it is cancelled
    gate.release(holder)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not line.running
    assert not line.waiting
    assert await asyncio.wait_for(pass_through(0.0), 1.0) == "done"


async def test_a_full_line_refuses_and_a_draining_one_answers_those_who_wait() -> None:
    line = Line(serial_policy("fcfs"))
    gate = Admission(line, asyncio.get_running_loop().time, max_queue=1)
    running, waiting = waiter(line, 0.0), waiter(line, 0.0)
    gate.enter(running)
    gate.pump()
    gate.enter(waiting)
    with pytest.raises(QueueFullError):
        gate.enter(waiter(line, 0.0))
    task = asyncio.create_task(gate.granted(waiting))
    await asyncio.sleep(0)
    gate.drain()
    with pytest.raises(DrainingError):
        await task
    with pytest.raises(DrainingError):
        gate.enter(waiter(line, 0.0))
    gate.release(running)
    assert not line.running


def test_dispatch_of_a_thousand_waiting_costs_little() -> None:
    line = Line(serial_policy("sjf_tokens", starvation_timeout_s=1e6))
    tokens = np.random.default_rng(3).permutation(1000)
    for k in range(1000):
        line.join(waiter(line, float(k), tokens=float(tokens[k])))
    got = []
    while (item := line.next(2000.0)) is not None:
        got.append(item.forecast.predicted_tokens)
        line.finish(item)
    assert got == sorted(got)


OPS = st.lists(
    st.tuples(st.sampled_from(["join", "next", "finish", "leave", "order", "policy"]), st.integers(0, 8)),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(OPS, st.sampled_from([None, 0.0, 2.0]), st.sampled_from(["oldest", "shortest", "long_only"]))
def test_a_request_that_came_to_an_idle_line_is_treated_like_any_other(
    ops: list[tuple[str, int]], timeout_s: float | None, promotion: str
) -> None:
    """The line makes no key for a request that goes at once; one that always makes it decides the same."""

    class Eager(Line):
        def join(self, waiter: Waiter) -> None:
            super().join(waiter)
            self._settle()

    lines = [
        kind(serial_policy("sjf", starvation_timeout_s=timeout_s, promotion=promotion), 2)
        for kind in (Line, Eager)
    ]
    seen: list[list[Any]] = [[], []]
    for said, line in zip(seen, lines, strict=True):
        for now, (op, number) in enumerate(ops):
            if op == "join":
                item = waiter(line, float(now - number % 3), number / 8)
                line.join(item)
                said.append(item.position)
            elif op == "next":
                got = line.next(float(now))
                said.append(None if got is None else (got.request_id, got.promoted))
            elif op == "finish" and line.running:
                line.finish(next(iter(line.running.values())))
            elif op == "leave" and line.waiting:
                line.leave(list(line.waiting.values())[number % len(line.waiting)])
            elif op == "order":
                said.append([item.request_id for item in line.order(float(now))])
            elif op == "policy":
                name = ("sjf", "fcfs", "sjf_tokens", "hrrn")[number % 4]
                line.set_policy(serial_policy(name, starvation_timeout_s=timeout_s, promotion=promotion))
        said.append((line.dispatched, line.promoted, sorted(line.waiting)))
    assert seen[0] == seen[1]
