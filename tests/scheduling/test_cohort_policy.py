"""`cohort`: fair whatever it finds, never behind its fall-backs, the same for a seed, near the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clairvoyant_lab import batch_policy, simulate_batch
from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.scheduling.cohort_pack import next_start, pack, work_space
from clairvoyant_lab.scheduling.cohort_pairs import pair_starts
from clairvoyant_lab.scheduling.measure import measure_schedule
from clairvoyant_lab.scheduling.optimum import exhaustive_optimum

lengths_lists = st.lists(st.integers(1, 40), min_size=1, max_size=30)
batch_sizes = st.integers(1, 7)
alphas = st.integers(0, 45)


def is_fair_by_hand(starts: list[int], lengths: list[int], batch_size: int, alpha: int) -> bool:
    """Step by step, from the definition."""
    for step in range(max(s + o for s, o in zip(starts, lengths, strict=True))):
        progress = [step - s for s, o in zip(starts, lengths, strict=True) if s <= step < s + o]
        if len(progress) > batch_size or (progress and max(progress) - min(progress) > alpha):
            return False
    return True


def table_1_lengths(seed: int) -> np.ndarray:
    """Section 5.2: 400 uniform lengths, accepted with a probability that falls within each hundred."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 1001, 400)
    bucket = (lengths - 1) // 100 + 1
    return lengths[rng.random(400) < 1 - lengths / ((2 * bucket - 1) * 100)]


@given(lengths_lists, batch_sizes, alphas)
@settings(max_examples=120, deadline=None)
def test_cohort_is_fair_by_the_definition_and_never_behind_ljf_or_slack(lengths, batch_size, alpha):
    run = simulate_batch(lengths, batch_policy("cohort", alpha, effort=0), batch_size)
    assert is_fair_by_hand(run.start_steps.tolist(), lengths, batch_size, alpha)
    assert run.fair
    assert run.lower_bound_steps <= run.makespan_steps
    for simple in ("ljf", "slack"):
        assert (
            run.makespan_steps
            <= simulate_batch(lengths, batch_policy(simple, alpha), batch_size).makespan_steps
        )


@given(lengths_lists, batch_sizes, alphas, st.integers(0, 2**32), st.booleans(), st.booleans())
@settings(max_examples=120, deadline=None)
def test_cohort_is_fair_with_releases_and_upper_bounds(lengths, batch_size, alpha, seed, released, bounded):
    rng = np.random.default_rng(seed)
    release = rng.integers(0, 60, len(lengths)) if released else None
    upper = np.asarray(lengths) + rng.integers(0, 20, len(lengths)) if bounded else None
    run = simulate_batch(
        lengths,
        batch_policy("cohort", alpha, effort=0),
        batch_size,
        release_steps=release,
        upper_bounds=upper,
    )
    assert is_fair_by_hand(run.start_steps.tolist(), lengths, batch_size, alpha)
    if release is not None:
        assert (run.start_steps >= release).all()
    assert run.lower_bound_steps <= run.makespan_steps


@given(lengths_lists, batch_sizes, alphas, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_plan_under_upper_bounds_reads_no_length_before_the_job_has_ended(lengths, batch_size, alpha, seed):
    # lengths differ only after `change`: what starts up to then must be the same
    rng = np.random.default_rng(seed)
    upper = np.asarray(lengths) + rng.integers(0, 20, len(lengths))
    policy = batch_policy("cohort", alpha, effort=0)
    one = simulate_batch(lengths, policy, batch_size, upper_bounds=upper)
    job = int(rng.integers(len(lengths)))
    other_lengths = np.asarray(lengths).copy()
    other_lengths[job] = rng.integers(1, upper[job] + 1)
    two = simulate_batch(other_lengths, policy, batch_size, upper_bounds=upper)
    change = one.start_steps[job] + min(lengths[job], other_lengths[job])
    before = one.start_steps < change
    assert (one.start_steps[before] == two.start_steps[before]).all()


@given(lengths_lists, batch_sizes, alphas, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_plan_with_releases_does_not_look_ahead(lengths, batch_size, alpha, seed):
    rng = np.random.default_rng(seed)
    release = rng.integers(0, 60, len(lengths))
    policy = batch_policy("cohort", alpha, effort=0)
    one = simulate_batch(lengths, policy, batch_size, release_steps=release)
    job = int(np.argmax(release))
    other_lengths = np.asarray(lengths).copy()
    other_lengths[job] = rng.integers(1, 41)
    two = simulate_batch(other_lengths, policy, batch_size, release_steps=release)
    before = one.start_steps < release[job]
    assert (one.start_steps[before] == two.start_steps[before]).all()


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 30)), min_size=1, max_size=5),
    lengths_lists,
    batch_sizes,
    alphas,
)
@settings(max_examples=150, deadline=None)
def test_whatever_the_windows_packing_is_fair(cycles, lengths, batch_size, alpha):
    opens = np.zeros(12, dtype=np.int64)
    closes = np.zeros(12, dtype=np.int64)
    t = 0
    for k, (width, gap) in enumerate(cycles):
        opens[k] = t
        closes[k] = t + width
        t += width + gap
    opens[len(cycles)] = t
    ordered = np.sort(np.asarray(lengths, dtype=np.int64))[::-1].copy()
    starts = np.empty_like(ordered)
    free, places = work_space(ordered.size, batch_size, 10)
    pack(
        ordered,
        np.ones(ordered.size),
        batch_size,
        alpha,
        opens,
        closes,
        len(cycles),
        np.array([4.0, 1.0, 0.01, 0.0]),
        1e9,
        starts,
        free,
        places,
    )
    placed = starts >= 0
    if placed.any():
        assert is_fair_by_hand(starts[placed].tolist(), ordered[placed].tolist(), batch_size, alpha)
        assert (starts[placed] + ordered[placed]).max() <= t
        assert all(next_start(opens, closes, len(cycles), s) == s for s in starts[placed])


@given(lengths_lists, batch_sizes, alphas, st.sampled_from([0.0, 1.0, 4.0]), st.booleans())
@settings(max_examples=100, deadline=None)
def test_pairs_are_fair_and_complete(lengths, batch_size, alpha, price, large_first):
    ordered = np.sort(np.asarray(lengths, dtype=np.int64))[::-1].copy()
    starts = pair_starts(ordered, batch_size, alpha, price, large_first)
    assert (starts >= 0).all()
    assert is_fair_by_hand(starts.tolist(), ordered.tolist(), batch_size, alpha)


def test_the_same_seed_gives_the_same_plan_and_the_order_of_jobs_does_not_matter():
    lengths = table_1_lengths(1)
    policy = batch_policy("cohort", 250, effort=0, seed=3)
    one = simulate_batch(lengths, policy, 50)
    again = simulate_batch(lengths, policy, 50)
    assert (one.start_steps == again.start_steps).all()
    shuffled = simulate_batch(np.random.default_rng(0).permutation(lengths), policy, 50)
    assert shuffled.makespan_steps == one.makespan_steps


def test_effort_shortens_table_1_well_below_slack():
    lengths = table_1_lengths(1000)
    slack = simulate_batch(lengths, batch_policy("slack", 400), 50)
    quick = simulate_batch(lengths, batch_policy("cohort", 400, effort=0), 50)
    long = simulate_batch(lengths, batch_policy("cohort", 400, effort=0.3), 50)
    assert quick.makespan_steps < slack.makespan_steps
    assert long.makespan_steps < 0.95 * slack.makespan_steps
    assert long.fair
    assert long.method == "template"


def test_a_weight_on_externality_trades_steps_for_it():
    lengths = table_1_lengths(2)
    runs = [
        simulate_batch(lengths, batch_policy("cohort", 400, effort=0.1, externality_weight=weight), 50)
        for weight in (0.0, 1e-4, 10.0)
    ]
    ljf = simulate_batch(lengths, batch_policy("ljf", 400), 50)
    assert runs[0].makespan_steps < runs[1].makespan_steps <= ljf.makespan_steps
    assert runs[0].externality > runs[1].externality
    assert runs[2].externality == 0  # a step is worth nothing: LJF's cost can't be beaten
    assert runs[2].makespan_steps <= ljf.makespan_steps


def test_small_instances_come_near_the_optimum():
    rng = np.random.default_rng(2024)
    ratios = []
    for _ in range(30):
        lengths = rng.integers(1, 13, int(rng.integers(4, 8)))
        alpha = int(rng.integers(1, 13))
        size = int(rng.integers(2, 4))
        best = exhaustive_optimum(lengths, size, alpha).makespan_steps
        run = simulate_batch(lengths, batch_policy("cohort", alpha, effort=0.02), size)
        assert run.lower_bound_steps <= best <= run.makespan_steps
        ratios.append(run.makespan_steps / best)
    assert np.mean(ratios) <= 1.005


def test_the_instances_on_which_isjl_misses_its_ratio_are_solved():
    for lengths, size, alpha, best in (([6, 6, 3, 3], 3, 3, 6), ([5, 5, 1, 1, 1, 1], 2, 4, 7)):
        run = simulate_batch(lengths, batch_policy("cohort", alpha, effort=0), size)
        assert run.makespan_steps == best


def test_a_large_backlog_is_within_one_percent_of_the_bound():
    from clairvoyant_lab.simulation.batch_workloads import lmsys_like_lengths

    lengths = lmsys_like_lengths()
    for size, alpha in ((16, 50), (16, 150), (32, 100), (32, 150)):
        run = simulate_batch(lengths, batch_policy("cohort", alpha, effort=0), size)
        assert run.fair
        assert run.makespan_steps <= 1.01 * run.lower_bound_steps


def test_upper_bounds_that_are_exact_cost_nothing():
    lengths = table_1_lengths(5)
    known = simulate_batch(lengths, batch_policy("cohort", 300, effort=0), 50)
    bounded = simulate_batch(lengths, batch_policy("cohort", 300, effort=0), 50, upper_bounds=lengths)
    assert bounded.makespan_steps <= known.makespan_steps * 1.05


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"effort": -1}, "effort"),
        ({"effort": float("nan")}, "effort"),
        ({"seed": -1}, "seed"),
        ({"seed": 0.5}, "seed"),
        ({"externality_weight": -0.1}, "externality_weight"),
        ({"externality_weight": float("inf")}, "externality_weight"),
    ],
)
def test_bad_options_are_named(options, field):
    with pytest.raises(ParameterError, match=field):
        simulate_batch([3, 2, 1], batch_policy("cohort", 2, **options), 2)


def test_the_schedule_is_measured_like_any_other():
    lengths = table_1_lengths(7)
    run = simulate_batch(lengths, batch_policy("cohort", 150, effort=0), 50)
    measured = measure_schedule(run.start_steps, lengths, 50, 150)
    assert measured.unfair_steps == 0
    assert measured.over_capacity_step is None
    assert measured.makespan_steps == run.makespan_steps


def test_a_frontier_has_no_beaten_point_and_draws():
    from clairvoyant_lab.figures.cohort import frontier_chart
    from clairvoyant_lab.scheduling.cohort_frontier import cohort_frontier

    frontier = cohort_frontier(table_1_lengths(3), 50, 300, effort=0.02)
    assert (np.diff(frontier.makespan_steps) > 0).all()
    assert (np.diff(frontier.externality) < 0).all()
    assert frontier.makespan_steps[0] >= frontier.lower_bound_steps
    assert frontier.externality[-1] == 0  # LJF's point, or a faster one without externality
    assert frontier.makespan_steps[-1] <= frontier.simple["ljf"][0]
    assert len(frontier.to_frame()) == frontier.makespan_steps.size + len(frontier.simple)
    figure = frontier_chart(frontier)
    assert list(figure.data[0].y) == frontier.makespan_steps.tolist()
    with pytest.raises(ParameterError, match=r"externality_weights\[1\]"):
        cohort_frontier([3, 2], 2, 1, externality_weights=[0, -1])
