"""The compiled engine equals the plain one, exactly, over thousands of random instances full of ties."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import clairvoyant_lab as cl
from clairvoyant_lab.simulation.serial import SerialRun, simulate_serial

COLUMNS = ("start_s", "finish_s", "wait_s", "sojourn_s", "promoted", "order", "state", "slot")


def tied_trace(rng: np.random.Generator, n: int) -> cl.Trace:
    """Small integers everywhere, so arrivals, keys, completions and waits of exactly τ collide."""
    grid = int(rng.integers(1, 6))
    arrival = np.sort(rng.integers(0, max(1, n * grid // 2), n)) / 4.0
    return cl.Trace.from_arrays(
        arrival,
        rng.integers(0, 4 * grid, n) / 4.0,
        rng.integers(0, 5, n) / 4.0,
        predicted_tokens=rng.integers(0, 4, n),
        expected_service_s=rng.integers(0, 4, n) / 4.0,
    )


def random_policy(rng: np.random.Generator) -> cl.SerialPolicy:
    name = str(rng.choice(["fcfs", "sjf", "sjf_tokens", "sjf_service", "oracle", "aging"]))
    tau = None if rng.random() < 0.25 else float(rng.integers(0, 24)) / 4.0
    params = {"rate": float(rng.integers(0, 3)) / 8.0} if name == "aging" else {}
    promotion = str(rng.choice(["oldest", "shortest", "long_only"]))
    return cl.serial_policy(name, tau, promotion=promotion, **params)


def assert_same(one: SerialRun, other: SerialRun, what: object) -> None:
    for column in COLUMNS:
        np.testing.assert_array_equal(
            getattr(one, column), getattr(other, column), err_msg=f"{what} {column}"
        )


def test_both_engines_agree_on_four_thousand_tied_instances() -> None:
    rng = np.random.default_rng(20240)
    promoted = dropped = censored = 0
    for case in range(4000):
        trace = tied_trace(rng, int(rng.integers(1, 40)))
        policy = random_policy(rng)
        slots = int(rng.choice([1, 1, 2, 3]))
        limit = None if rng.random() < 0.6 else int(rng.integers(1, 6))
        until = None if rng.random() < 0.6 else float(rng.integers(0, 60)) / 4.0
        runs = [
            simulate_serial(trace, policy, slots, queue_limit=limit, until_s=until, engine=engine)
            for engine in ("plain", "compiled")
        ]
        assert_same(*runs, what=(case, policy, slots, limit, until))
        counts = runs[0].counts()
        parts = ("completed", "queued", "running", "dropped")
        assert counts["injected"] == sum(counts[part] for part in parts)
        promoted += int(runs[0].promoted.sum())
        dropped += counts["dropped"]
        censored += runs[0].censored
    # the instances do reach the corners they are meant for
    assert promoted > 5000
    assert dropped > 1000
    assert censored > 1000


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 6), st.sampled_from([0.0, 0.25, 0.5, 0.75])),
        min_size=1,
        max_size=25,
    ),
    tau=st.one_of(st.none(), st.integers(0, 8)),
    promotion=st.sampled_from(["oldest", "shortest", "long_only"]),
    slots=st.integers(1, 3),
)
def test_engines_agree_and_lose_nothing(
    rows: list[tuple[int, int, float]], tau: int | None, promotion: str, slots: int
) -> None:
    rows.sort(key=lambda row: row[0])
    arrival, service, score = (list(column) for column in zip(*rows, strict=True))
    trace = cl.Trace.from_arrays(arrival, service, score)
    policy = cl.serial_policy("sjf", tau, promotion=promotion)
    plain = simulate_serial(trace, policy, slots, engine="plain")
    assert_same(plain, simulate_serial(trace, policy, slots, engine="compiled"), policy)
    assert sorted(plain.order.tolist()) == list(range(len(rows)))
    assert (plain.wait_s >= 0).all()
    assert plain.finish_s.tolist() == (plain.start_s + trace.service_s).tolist()


def best_now(trace: cl.Trace, waiting: list[int], now: float, policy: cl.SerialPolicy) -> tuple[int, bool]:
    """Section 3.4 and its variants written out naively: look at everybody, each time."""
    key = policy.key(trace)
    tau = policy.starvation_timeout_s
    expired = [] if tau is None else [i for i in waiting if now - trace.arrival_s[i] > tau]
    if policy.promotion == "long_only":
        expired = [i for i in expired if trace.score is not None and trace.score[i] >= 0.5]
    if expired and policy.promotion == "shortest":
        return min(expired, key=lambda i: (key[i], i)), True
    if expired:
        return min(expired), True
    return min(waiting, key=lambda i: (key[i], i)), False


def test_the_engine_equals_a_naive_reading_of_section_3_4() -> None:
    rng = np.random.default_rng(7)
    for _ in range(500):
        trace = tied_trace(rng, int(rng.integers(1, 25)))
        policy = random_policy(rng)
        run = simulate_serial(trace, policy)
        waiting: list[int] = []
        came, now = 0, 0.0
        for position, expected in enumerate(run.order.tolist()):
            if not waiting and came < len(trace):
                now = max(now, float(trace.arrival_s[came]))
            while came < len(trace) and trace.arrival_s[came] <= now:
                waiting.append(came)
                came += 1
            chosen, promoted = best_now(trace, waiting, now, policy)
            assert (chosen, promoted) == (expected, bool(run.promoted[expected])), (policy, position)
            assert run.start_s[chosen] == now
            waiting.remove(chosen)
            now += float(trace.service_s[chosen])


def test_wait_is_bounded_by_fcfs_plus_tau_plus_the_longest_service() -> None:
    """W_i <= W_i(FCFS) + τ + S_max under `oldest` on one slot; nothing like W_i <= τ holds."""
    rng = np.random.default_rng(3)
    beyond_tau = 0
    for _ in range(3000):
        n = int(rng.integers(1, 60))
        trace = cl.Trace.from_arrays(
            np.cumsum(rng.exponential(rng.uniform(0.2, 2.0), n)), rng.gamma(0.5, 2.0, n), rng.random(n)
        )
        tau = float(rng.uniform(0.0, 10.0))
        fcfs = simulate_serial(trace, "fcfs").wait_s
        wait = simulate_serial(trace, cl.serial_policy("sjf", tau)).wait_s
        assert (wait <= fcfs + tau + trace.service_s.max() + 1e-9).all()
        beyond_tau += int((wait > tau + trace.service_s.max()).any())
    assert beyond_tau > 100


def test_a_users_function_runs_in_both_engines_and_equals_the_built_in() -> None:
    rng = np.random.default_rng(5)
    trace = tied_trace(rng, 200)

    def by_score(requests: cl.Trace) -> NDArray[np.float64]:
        assert requests.score is not None
        return requests.score

    own = cl.serial_policy(by_score, 2.0)
    for engine in ("plain", "compiled"):
        assert_same(
            simulate_serial(trace, own, engine=engine),
            simulate_serial(trace, cl.serial_policy("sjf", 2.0)),
            engine,
        )


def test_a_dynamic_function_sees_only_who_waits_and_the_time() -> None:
    seen: list[tuple[int, float]] = []

    def longest_wait(requests: cl.Trace, now_s: float) -> NDArray[np.float64]:
        seen.append((len(requests), now_s))
        return requests.arrival_s - now_s

    trace = cl.Trace.from_arrays([0, 1, 2, 9], [4, 3, 2, 1])
    run = simulate_serial(trace, cl.serial_policy(longest_wait, dynamic=True))
    assert run.order.tolist() == [0, 1, 2, 3]
    assert run.engine == "plain"
    assert seen == [(1, 0.0), (2, 4.0), (1, 7.0), (1, 9.0)]


def test_hrrn_weighs_waiting_against_service() -> None:
    # at t=10: ratios (9+9)/9 = 2, (8+1)/1 = 9, (1+2)/2 = 1.5
    trace = cl.Trace.from_arrays([0, 1, 2, 9], [10, 9, 1, 2])
    assert simulate_serial(trace, "hrrn").order.tolist() == [0, 2, 1, 3]


def test_aging_lets_an_old_long_request_pass_a_new_short_one() -> None:
    trace = cl.Trace.from_arrays([0, 1, 9], [10, 5, 1], [0.1, 0.9, 0.1])
    assert simulate_serial(trace, cl.serial_policy("aging", rate=0.0)).order.tolist() == [0, 2, 1]
    assert simulate_serial(trace, cl.serial_policy("aging", rate=0.2)).order.tolist() == [0, 1, 2]


def test_srpt_interrupts_for_less_remaining_work_and_is_never_beaten() -> None:
    trace = cl.Trace.from_arrays([0, 1, 2], [10, 3, 3])
    run = simulate_serial(trace, "srpt")
    assert run.finish_s.tolist() == [16.0, 4.0, 7.0]
    assert run.start_s.tolist() == [0.0, 1.0, 4.0]
    rng = np.random.default_rng(11)
    for _ in range(200):
        some = tied_trace(rng, 30)
        bound = simulate_serial(some, "srpt").sojourn_s.mean()
        for name in ("fcfs", "sjf", "oracle"):
            assert bound <= simulate_serial(some, name).sojourn_s.mean() + 1e-12


def test_a_stopped_clock_says_what_it_censored_and_warm_up_is_left_out() -> None:
    trace = cl.Trace.from_arrays([0, 1, 2, 3, 20], [4, 4, 4, 4, 1])
    run = simulate_serial(trace, "fcfs", until_s=9.0, warmup_s=1.0)
    assert run.counts() == {"injected": 4, "completed": 2, "queued": 1, "running": 1, "dropped": 0}
    assert run.censored == 2
    assert run.summary()["note"] == "percentiles are of completed requests only"
    assert run.percentile(50) == 7.0
    srpt = simulate_serial(trace, "srpt", until_s=9.0)
    assert srpt.counts() == {"injected": 4, "completed": 2, "queued": 1, "running": 1, "dropped": 0}


def test_a_run_of_nothing_has_no_figures() -> None:
    summary = simulate_serial(cl.Trace.from_arrays([], []), "fcfs").summary()
    assert summary["all p50_sojourn_s"] is None
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"slots": 0}, "slots"),
        ({"slots": 1.5}, "slots"),
        ({"queue_limit": 0}, "queue_limit"),
        ({"until_s": float("inf")}, "until_s"),
        ({"until_s": "9"}, "until_s"),
        ({"warmup_s": "9"}, "warmup_s"),
        ({"engine": "fast"}, "engine"),
    ],
)
def test_bad_settings_are_named(arguments: dict[str, object], field: str) -> None:
    trace = cl.Trace.from_arrays([0, 1], [1, 1])
    with pytest.raises(cl.ParameterError) as refused:
        simulate_serial(trace, "fcfs", **arguments)  # type: ignore[arg-type]
    assert refused.value.field == field
