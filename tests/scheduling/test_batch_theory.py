"""The ISJL paper's theory: formulas at known points, claims on instances, violations found again."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clairvoyant_lab as cl
from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.scheduling.measure import measure_schedule
from clairvoyant_lab.scheduling.rules import rule_starts
from clairvoyant_lab.scheduling.theory import instances, ratios
from clairvoyant_lab.scheduling.theory.bounds import (
    cell_bound,
    idle_bound,
    ljf_makespan,
    makespan_bound,
    matching_bound,
)
from clairvoyant_lab.scheduling.theory.claims import CLAIMS, check_claim
from clairvoyant_lab.scheduling.theory.residual import packed_residual
from clairvoyant_lab.scheduling.theory.search import find_violation

SMALL = st.tuples(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(2, 3), st.integers(0, 6))


def test_formulas_at_the_papers_points():
    assert ratios.ljf_ratio(2) == pytest.approx(2 / 3)
    assert pytest.approx((25 + sqrt(17)) / 38) == ratios.isjl_b2_ratio()
    assert ratios.isjl_b2_over(1.0) == pytest.approx(0.75)
    assert ratios.isjl_b2_under(1.0) == pytest.approx(0.8)
    assert ratios.isjl_b2_over(2.0) == pytest.approx(2 / 3)
    assert ratios.cr_envelope(0.5) == pytest.approx(0.75)
    assert ratios.cr_under(1 / 3) == pytest.approx(0.8)
    assert ratios.cr_envelope([1e-9, 1 - 1e-9]) == pytest.approx([1, 1])
    gamma = np.linspace(0.001, 0.999, 999)
    assert (ratios.cr_envelope(gamma) == ratios.cr_over(gamma)).all()  # over-inserting dominates everywhere
    assert ratios.robust_ratio(0.0, 8) == 0.75
    assert ratios.robust_ratio(0.5, 2) == pytest.approx(0.375)
    assert ratios.robust_ratio_packed(0, 10) == 0.75
    assert pytest.approx(0.618, abs=1e-3) == ratios.ONLINE_RATIO_LIMIT
    with pytest.raises(ParameterError):
        ratios.cr_over(1.5)


@pytest.mark.parametrize(
    "name",
    [
        "theorem_3_3",
        "theorem_3_9",
        "theorem_3_19_b2",
        "our_reading_is_fair",
        "proposition_3_16",
        "theorem_5_1",
        "proposition_5_3",
        "equations_13_14",
        "corollary_5_5",
        "proposition_5_6",
        "slack_not_slower",
        "lower_bound",
    ],
)
@given(instance=SMALL)
@settings(max_examples=40, deadline=None)
def test_claims_that_hold(name, instance):
    lengths, batch_size, alpha = instance
    size = 2 if CLAIMS[name].batch_sizes else batch_size
    check = check_claim(name, lengths, size, alpha)
    assert check.holds, check


@pytest.mark.parametrize(
    ("name", "lengths", "batch_size", "alpha", "bounds"),
    [
        ("theorem_3_19", [6, 6, 3, 3], 3, 3, None),
        ("theorem_4_3_b2", [5, 5, 1, 1, 1, 1], 2, 4, None),
        ("isjl_not_slower", [3, 3, 3, 1], 2, 1, None),
        ("theorem_5_2", [2, 2, 1, 1], 3, 1, None),
        ("theorem_3_22", [2, 2, 1, 1], 3, 1, [2, 2, 1, 1]),
        ("isjl_monotone", [4, 3, 3, 3], 2, 1, None),
        ("section_3_3_fairness", [5, 5, 3, 1], 3, 2, None),
        ("theorem_3_22_step_3", [2, 6, 3], 2, 1, [3, 6, 3]),
    ],
)
def test_claims_that_fail_where_they_are_known_to(name, lengths, batch_size, alpha, bounds):
    assert not check_claim(name, lengths, batch_size, alpha, bounds).holds


def test_the_search_finds_smaller_ones_and_proves_small_sizes_clean():
    found = find_violation("theorem_3_19", most_tokens=8)
    assert found.violation is not None
    assert found.violation.lengths == (2, 2, 1, 1)
    assert found.violation.batch_size == 3
    assert found.complete_tokens == 5
    clean = find_violation("theorem_3_19_b2", most_tokens=10, random_instances=200, seed=1)
    assert clean.violation is None
    assert clean.complete_tokens == 10
    assert clean.worst is not None
    assert "3/4" in clean._repr_html_()
    stopped = find_violation("theorem_3_3", most_tokens=40, time_limit_s=0.2)
    assert stopped.complete_tokens < 40
    with pytest.raises(ParameterError, match="Did you mean"):
        find_violation("theorem_3_18")


def test_ljf_bound_is_tight():
    """Theorem 3.3's family: the ratio falls towards B / (2B - 1) from above."""
    for batch_size in (2, 3, 5):
        gaps = []
        for scale in (2, 8, 64):
            lengths = instances.ljf_tight(batch_size, scale)
            optimum = int(lengths.max())
            assert cl.simulate_batch(lengths, cl.batch_policy("fcfs"), batch_size).makespan_steps == optimum
            gaps.append(optimum / ljf_makespan(lengths, batch_size) - ratios.ljf_ratio(batch_size))
        assert gaps[0] >= gaps[1] >= gaps[2] > -1e-12
        assert gaps[2] < 0.01


def test_jigsaw_family():
    """Graham's worst case: list scheduling needs 4B - 1, the optimum 3B, when no limit binds."""
    for batch_size in (2, 3, 4):
        lengths = instances.jigsaw(batch_size)
        assert lengths.size == 2 * batch_size + 1
        limit = int(lengths.max())
        assert lengths.sum() == 3 * batch_size * batch_size
        run = cl.simulate_batch(lengths, cl.batch_policy("isjl", alpha=limit), batch_size)
        assert run.makespan_steps == 4 * batch_size - 1
        assert ratios.graham_ratio(batch_size) == pytest.approx(3 * batch_size / run.makespan_steps)
        if batch_size < 4:
            check = check_claim("theorem_3_3", lengths.tolist(), batch_size, limit)
            assert "optimum " + str(3 * batch_size) in check.detail


def test_unfair_examples_and_proposition_5_4():
    lengths, batch_size = instances.unfair_fcfs()
    fcfs = cl.simulate_batch(lengths, cl.batch_policy("fcfs", alpha=20), batch_size)
    assert fcfs.fair is False
    assert fcfs.first_unfair_jobs == (2, 0)  # the tiny one runs in the long one's tail
    lengths, batch_size = instances.unfair_sjf()
    sjf = cl.simulate_batch(lengths, cl.batch_policy("sjf"), batch_size)
    ljf = cl.simulate_batch(lengths, cl.batch_policy("ljf"), batch_size)
    assert sjf.externality > ljf.externality == 0
    for long in (1, 5, 30):
        lengths, batch_size = instances.long_and_ones(long)
        fcfs = cl.simulate_batch(lengths, cl.batch_policy("fcfs"), batch_size)
        assert (fcfs.makespan_steps, fcfs.externality) == (long, long * (long - 1) // 2)
        ljf = cl.simulate_batch(lengths, cl.batch_policy("ljf"), batch_size)
        assert (ljf.makespan_steps, ljf.externality) == (long + long // 2, 0)  # L + ceil((L - 1) / 2)


def test_online_adversary_holds_every_causal_policy_below_its_limit():
    for name in ("online", "slack", "ljf"):
        play = instances.online_adversary(cl.batch_policy(name, alpha=5), 5, 10_000)
        assert play.first_start == 0
        assert play.alone == 1.0
        assert play.ratio == pytest.approx(0.5, abs=1e-3)

    def waiting(lengths, batch_size, alpha, release_steps=None):
        """Wait the golden share of the length first: the best a deterministic policy can do."""
        delay = int(lengths[0] * ratios.ONLINE_RATIO_LIMIT)
        first = int(release_steps[0]) + delay
        together = release_steps[1] <= first + alpha
        return [first, max(first, int(release_steps[1])) if together else first + int(lengths[0])]

    best = instances.online_adversary(cl.batch_policy(waiting, alpha=5), 5, 100_000)
    assert best.ratio == pytest.approx(ratios.ONLINE_RATIO_LIMIT, abs=1e-3)
    assert best.ratio <= ratios.ONLINE_RATIO_LIMIT + 1e-3


def test_adversarial_families_reach_the_curve_from_above_for_two_slots():
    for alpha, longest in ((200, 1000), (400, 1000), (500, 1000)):
        lengths = instances.over_inserting(alpha, longest)
        run = cl.simulate_batch(lengths, cl.batch_policy("isjl", alpha=alpha), 2)
        best = ljf_makespan(lengths, 2)  # the two long ones together, then the two short ones
        assert best / run.makespan_steps == pytest.approx(ratios.cr_over(alpha / longest), abs=2e-3)
    lengths = instances.under_inserting(200, 1000)
    assert lengths[2] > lengths[0] - lengths[1] + 200


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 5)), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(0, 9),
)
@settings(max_examples=80, deadline=None)
def test_packed_residual_against_all_partitions(pairs, batch_size, alpha):
    lengths = [o for o, _ in pairs]
    excess = [e for _, e in pairs]

    def best(left: list[int]) -> int:
        if not left:
            return 0
        lead, rest = left[0], left[1:]
        answer = 10**9
        for mask in range(1 << len(rest)):
            group = [lead] + [job for k, job in enumerate(rest) if mask >> k & 1]
            sizes = [lengths[job] for job in group]
            if len(group) <= batch_size and max(sizes) - min(sizes) <= alpha:
                remaining = [job for job in rest if job not in group]
                answer = min(answer, max(excess[job] for job in group) + best(remaining))
        return answer

    bounds = [o + e for o, e in pairs]
    found = packed_residual(lengths, bounds, batch_size, alpha)
    assert found.exact
    assert found.upper == best(list(range(len(pairs))))
    assert found.total == sum(excess)


def test_packed_residual_of_many_lies_between_its_bounds():
    rng = np.random.default_rng(2)
    lengths = rng.integers(1, 500, 400)
    found = packed_residual(lengths, lengths + rng.integers(0, 100, 400), 16, 50)
    assert 0 < found.lower <= found.upper < found.total
    same = packed_residual(np.full(400, 100), np.full(400, 107), 16, 0)
    assert (same.lower, same.upper) == (175, 175)  # remark 3.25: ceil(n / B) e
    assert same.exact


def test_matching_bound():
    rng = np.random.default_rng(3)
    for n in (100, 1_000, 10_000):
        bound = matching_bound(rng.integers(1, 1001, n), 32, 100)
        assert bound.intervals == 10
        assert bound.matched >= bound.promised
        assert bound.matched % 32 == 0
        assert bound.unmatched_share <= bound.unmatched_share_bound
    assert bound.unmatched_share < 0.031
    with pytest.raises(ParameterError):
        matching_bound([1, 2], 2, 0)


def test_bounds_on_a_known_instance():
    lengths = [10, 9, 4, 3, 1]
    assert ljf_makespan(lengths, 2) == 10 + 4 + 1
    assert cell_bound(lengths, 2, 2) == 10 + (4 - 2)  # one group of jobs above 4, then what alpha can't hide
    assert idle_bound(lengths, 2, 2) == 14
    assert makespan_bound(lengths, 2, 0) == 15
    assert makespan_bound([5], 4, 0) == 5


def test_kv_memory_arithmetic():
    """An 8B model with grouped-query attention, 16 bit, against Clairvoyant 2.3's 0.5-1 GB for 2K tokens."""
    gib = 2**30
    grouped = instances.KvMemory(5e9, layers=32, kv_heads=8, head_dim=128)
    full = instances.KvMemory(5e9, layers=32, kv_heads=32, head_dim=128)
    assert grouped.bytes_a_token == 131_072
    assert grouped.cache_bytes(2048) == 0.25 * gib
    assert full.cache_bytes(2048) == 1.0 * gib
    assert full.slots(8e9, 2048) == 2
    assert grouped.slots(8e9, 2048) == 11
    assert grouped.slots(4e9, 2048) == 0
    assert full.needed_bytes(4, 2048) == 5e9 + 4 * gib


FAIR = ("ljf", "isjl", "isjl_b2", "slack", "robust", "online")


def hammer(name: str, instances: int, seed: int) -> int:
    """Run a policy on random instances; returns how many had an unfair step or beat a bound."""
    rng = np.random.default_rng(seed)
    wrong = 0
    for _ in range(instances):
        n, batch_size = int(rng.integers(1, 25)), int(rng.integers(1, 9))
        longest = int(rng.choice([3, 8, 30, 500]))
        lengths = rng.integers(1, longest + 1, n)
        alpha = int(rng.integers(0, longest + 1))
        slots = 2 if name == "isjl_b2" else batch_size
        upper = lengths + rng.integers(0, longest, n) if name == "robust" else None
        late = rng.integers(0, 2 * longest, n) if name == "online" else None
        starts = rule_starts(name, lengths, slots, alpha, late, upper)
        measure = measure_schedule(starts, lengths, slots, alpha)
        wrong += measure.unfair_steps > 0 or measure.over_capacity_step is not None
        wrong += measure.makespan_steps < makespan_bound(lengths, slots, alpha)
        if name == "slack":
            wrong += measure.makespan_steps > ljf_makespan(lengths, slots)
    return wrong


@pytest.mark.parametrize("name", FAIR)
def test_no_unfair_step_on_random_instances(name):
    """Fair at every step, within capacity, never below the bound; slack never slower than LJF."""
    assert hammer(name, 4_000, seed=99) == 0


@pytest.mark.soak
@pytest.mark.parametrize("name", FAIR)
def test_no_unfair_step_on_a_hundred_thousand_random_instances(name):
    assert hammer(name, 100_000, seed=7) == 0
