"""The batch engine: goldens, compiled against plain, measures against counting, errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clairvoyant_lab as cl
from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.scheduling.batch import BatchPlan
from clairvoyant_lab.scheduling.measure import measure_schedule
from clairvoyant_lab.scheduling.rules import RULES, rule_starts
from clairvoyant_lab.simulation.batch_reference import reference_measure, reference_starts

FAIR_RULES = ("ljf", "isjl", "isjl_b2", "slack", "robust", "online")

# A few facts of the goldens, so that the engine is pinned without them:
# policy, lengths, batch size, alpha, keywords, starts, (makespan, externality, largest gap)
FACTS = [
    ("fcfs", [5, 1, 1, 1, 1, 1], 2, 5, {}, [0, 0, 1, 2, 3, 4], (5, 10, 4)),
    ("ljf", [5, 1, 1, 1, 1, 1], 2, 5, {}, [0, 0, 5, 5, 6, 6], (7, 0, 0)),
    ("isjl", [6, 6, 3, 3], 3, 3, {}, [0, 3, 0, 0], (9, None, 3)),
    ("isjl", [12, 10, 6, 5, 4, 2, 2], 2, 5, {}, [1, 6, 0, 16, 16, 20, 21], (23, None, 5)),
    ("isjl_b2", [12, 10, 6, 5, 4, 2, 2], 2, 5, {}, [0, 5, 15, 0, 15, 19, 21], (23, None, 5)),
    ("isjl_literal", [5, 5, 3, 1], 3, 2, {}, [2, 0, 0, 3], (7, None, 3)),
    ("isjl_unguarded", [6, 4, 4, 4, 3, 1], 3, 2, {}, [2, 4, 4, 0, 0, 3], (8, 23, 3)),
    ("slack", [8] * 7 + [2] * 5, 4, 4, {}, [0, 0, 0, 0, 8, 8, 8, 8, 10, 12, 16, 16], (18, None, 4)),
    (
        "robust",
        [6, 3, 9, 2, 7, 4],
        2,
        3,
        {"upper_bounds": [8, 3, 10, 6, 7, 5]},
        [4, 11, 2, 14, 11, 0],
        (18, 22, 3),
    ),
    ("online", [20, 20], 2, 5, {"release_steps": [0, 6]}, [0, 20], (40, 0, 0)),
]


@pytest.mark.parametrize("engine", ["compiled", "python"])
@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact[0])
def test_known_schedules(fact, engine):
    name, lengths, batch_size, alpha, keywords, starts, (makespan, externality, gap) = fact
    run = cl.simulate_batch(
        lengths, cl.batch_policy(name, alpha=alpha), batch_size, engine=engine, **keywords
    )
    assert run.start_steps.tolist() == starts
    assert run.makespan_steps == makespan
    assert externality is None or run.externality == externality
    assert run.max_gap == gap
    assert run.fair is (gap <= alpha)


@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_goldens(shared_dir: Path, engine):
    cases = json.loads((shared_dir / "golden" / "batch.json").read_text())["instances"]
    assert len(cases) > 90
    for case in cases:
        run = cl.simulate_batch(
            case["lengths"],
            cl.batch_policy(case["policy"], alpha=case["alpha"]),
            case["batch_size"],
            release_steps=case.get("release_steps"),
            upper_bounds=case.get("upper_bounds"),
            engine=engine,
        )
        for name, value in case["expect"].items():
            if name == "optimal_fair_makespan_steps":
                continue
            ours = getattr(run, name)
            ours = ours.tolist() if isinstance(ours, np.ndarray) else ours
            assert ours == value, (case["name"], case["policy"], name)


@st.composite
def instances(draw):
    longest = draw(st.sampled_from([2, 5, 12, 60]))
    lengths = draw(st.lists(st.integers(1, longest), min_size=1, max_size=25))
    n = len(lengths)
    release = draw(st.none() | st.lists(st.integers(0, 2 * longest), min_size=n, max_size=n))
    slack = draw(st.lists(st.integers(0, longest), min_size=n, max_size=n))
    return (
        lengths,
        draw(st.integers(1, 7)),
        draw(st.integers(0, longest + 2)),
        release,
        [a + b for a, b in zip(lengths, slack, strict=True)],
    )


@given(instances())
@settings(max_examples=400, deadline=None)
def test_compiled_equals_plain_and_keeps_every_promise(instance):
    lengths, batch_size, alpha, release, upper_bounds = instance
    for name in RULES:
        slots = 2 if name == "isjl_b2" else batch_size
        bounds = upper_bounds if name == "robust" else None
        plain = reference_starts(name, lengths, slots, alpha, release, bounds)
        compiled = rule_starts(
            name,
            np.array(lengths),
            slots,
            alpha,
            None if release is None else np.array(release),
            None if bounds is None else np.array(bounds),
        )
        assert compiled.tolist() == plain, name
        measure = measure_schedule(compiled, lengths, slots, alpha)
        assert measure == reference_measure(plain, lengths, slots, alpha)
        assert measure.over_capacity_step is None
        assert release is None or all(s >= r for s, r in zip(plain, release, strict=True))
        if name in FAIR_RULES:
            assert measure.unfair_steps == 0, name


def test_a_thousand_odd_instances_agree():
    """Larger and stranger than hypothesis draws: many ties, one long job among ones, B beyond n."""
    rng = np.random.default_rng(20)
    unfair = dict.fromkeys(RULES, 0)
    for _ in range(1_000):
        n, batch_size = int(rng.integers(1, 60)), int(rng.choice([1, 2, 3, 5, 8, 70]))
        longest = int(rng.choice([1, 3, 20, 300]))
        alpha = int(rng.integers(0, longest + 1))
        lengths = rng.integers(1, longest + 1, n)
        if rng.random() < 0.2:
            lengths[:] = 1
            lengths[0] = longest
        bounds = lengths + rng.integers(0, longest + 1, n)
        release = rng.integers(0, 3 * longest, n) if rng.random() < 0.3 else None
        for name in RULES:
            slots = 2 if name == "isjl_b2" else batch_size
            upper = bounds if name == "robust" else None
            starts = rule_starts(name, lengths, slots, alpha, release, upper)
            plain = reference_starts(
                name,
                lengths.tolist(),
                slots,
                alpha,
                None if release is None else release.tolist(),
                None if upper is None else upper.tolist(),
            )
            assert starts.tolist() == plain
            unfair[name] += measure_schedule(starts, lengths, slots, alpha).unfair_steps > 0
    assert not any(unfair[name] for name in FAIR_RULES)
    # the exhibits do break the limit, and the engine sees it
    assert unfair["isjl_literal"] > 0
    assert unfair["fcfs"] > 0


def test_the_engine_says_where_fairness_broke():
    run = cl.simulate_batch([5, 5, 3, 1], cl.batch_policy("isjl_literal", alpha=2), 3)
    assert run.fair is False
    assert run.first_unfair_step == 3
    assert run.first_unfair_jobs == (3, 1)  # job 3 starts when job 1 is 3 tokens ahead
    assert run.unfair_steps == 1


def test_long_pool_uses_every_level_of_the_bit_set():
    """Positions beyond 64 * 4096 reach the third level of the pool."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 300_000)
    run = cl.simulate_batch(lengths, cl.batch_policy("isjl", alpha=3), 64)
    assert run.fair is True
    assert (np.sort(run.start_steps) >= 0).all()
    assert run.tokens == lengths.sum()
    assert run.idle_slot_steps == 64 * run.makespan_steps - run.tokens


def test_measures_without_alpha_and_with_release():
    run = cl.simulate_batch([4, 2], cl.batch_policy("fcfs"), 1, release_steps=[3, 0])
    assert run.fair is None
    assert run.start_steps.tolist() == [3, 0]
    assert run.finish_steps.tolist() == [7, 2]
    assert run.sum_completion_steps == 9
    assert run.mean_completion_steps == 4.5
    assert run.mean_latency_steps == 3.0
    assert run.latency_quantile_steps(1.0) == 4.0
    frame = run.to_frame()
    assert frame["latency_steps"].tolist() == [4, 2]
    assert "makespan_steps" in run._repr_html_()


@pytest.mark.parametrize(
    ("keywords", "word"),
    [
        ({"lengths": [3, 0, 2]}, "lengths[1]"),
        ({"lengths": [3, 2.5]}, "lengths[1]"),
        ({"lengths": [3, "a"]}, "lengths[1]"),
        ({"lengths": [3, float("nan")]}, "lengths[1]"),
        ({"lengths": [True, 2]}, "lengths[0]"),
        ({"lengths": []}, "lengths"),
        ({"lengths": [[1, 2]]}, "lengths"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"release_steps": [0, -1]}, "release_steps[1]"),
        ({"release_steps": [0]}, "release_steps"),
        ({"upper_bounds": [4, 1], "policy": cl.batch_policy("robust", alpha=1)}, "upper_bounds[1]"),
        ({"upper_bounds": [4, 4]}, "upper_bounds"),
        ({"policy": cl.batch_policy("robust", alpha=1)}, "upper_bounds"),
        ({"policy": "isjl"}, "policy"),
        ({"policy": cl.batch_policy("isjl_b2", alpha=1), "batch_size": 3}, "batch_size"),
        ({"engine": "gpu"}, "engine"),
        ({"lengths": [2**40] * 4}, "lengths"),
    ],
)
def test_bad_input_names_the_field_and_index(keywords, word):
    arguments = {
        "lengths": [3, 2],
        "policy": cl.batch_policy("isjl", alpha=1),
        "batch_size": 2,
        **keywords,
    }
    with pytest.raises(ParameterError) as caught:
        cl.simulate_batch(**arguments)
    assert caught.value.field == word


def test_results_and_policies_are_frozen():
    run = cl.simulate_batch([3, 2], cl.batch_policy("isjl", alpha=1), 2)
    for thing in (run, run.policy, cl.cost_breakdown(run, 1, 1, 1)):
        for name in ("policy", "fair", "anything"):
            with pytest.raises(AttributeError):
                setattr(thing, name, True)


def test_a_users_planner_runs_and_is_not_trusted():
    def sequential(lengths, batch_size, alpha):
        return np.concatenate([[0], np.cumsum(lengths)[:-1]])

    run = cl.simulate_batch([3, 2, 4], cl.batch_policy(sequential, alpha=0), 2)
    assert run.policy.name == "sequential"
    assert run.makespan_steps == 9
    assert run.fair is True

    def all_at_once(lengths, batch_size, alpha):
        return BatchPlan(np.zeros(len(lengths), dtype=np.int64), method="burst", details={"note": 7})

    assert cl.simulate_batch([3, 2], cl.batch_policy(all_at_once), 2).summary()["method"] == "burst"
    with pytest.raises(ParameterError, match="more than 2 jobs at step 0"):
        cl.simulate_batch([3, 2, 4], cl.batch_policy(all_at_once), 2)

    def early(lengths, batch_size, alpha, release_steps=None):
        return [0, 0]

    with pytest.raises(ParameterError, match="before its release"):
        cl.simulate_batch([3, 2], cl.batch_policy(early), 2, release_steps=[0, 5])

    def short(lengths, batch_size, alpha):
        return [0]

    with pytest.raises(ParameterError, match="start_steps"):
        cl.simulate_batch([3, 2], cl.batch_policy(short), 2)
