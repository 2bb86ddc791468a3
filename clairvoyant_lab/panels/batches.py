"""Panels of the batch world: a schedule under α, money under α and costs, policies under B and α."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.figures import theme
from clairvoyant_lab.panels.controls import Choice, Control, LogSlider, Slider
from clairvoyant_lab.panels.panel import Panel, View
from clairvoyant_lab.results import counted

if TYPE_CHECKING:
    from clairvoyant_lab.simulation.batch import BatchRun

__all__ = ["batch_panel", "gantt_panel", "profit_panel"]

_GANTT = ("fcfs", "sjf", "ljf", "isjl_literal", "isjl", "slack", "cohort")
# those that a panel gives α to, with what else they are made with. cohort at effort 0 takes some tens of
# milliseconds for 2,000 jobs, so it keeps up with a slider; effort 1 takes about a second.
_FAIR: dict[str, dict[str, Any]] = {"isjl": {}, "slack": {}, "cohort": {"effort": 0}}
_COHORT_NOTE = "To keep up with the slider, cohort plans at effort 0 here; in code, effort=1 may find more."
_STEP_COSTS = (1e-5, 0.1)
_FOOTPRINTS = (1e-8, 1e-4)


def gantt_panel(
    lengths: ArrayLike, *, alpha: int = 5, batch_size: int = 6, policy: str = "isjl", most_alpha: int = 100
) -> Panel:
    """Make the panel of one schedule: α, slots and policy move the bars (ISJL, Figures 1 to 3).

    Parameters
    ----------
    lengths : array_like of int
        Tokens of each job.
    alpha, batch_size, policy
        Where the controls start.
    most_alpha : int
        End of α's slider.
    """
    jobs = _jobs(lengths)

    def draw(alpha: int, batch_size: int, policy: str) -> View:
        return _gantt(jobs, alpha, batch_size, policy)

    def code(alpha: int, batch_size: int, policy: str) -> str:
        return f"""\
import clairvoyant_lab as cl
from clairvoyant_lab.figures.batch import schedule_chart
from clairvoyant_lab.figures.show import show

run = cl.simulate_batch({jobs}, {_made(policy, alpha)}, {batch_size})
figure = schedule_chart(run)
show(figure)
"""

    controls: list[Control] = [
        Slider("alpha", "α (tokens)", alpha, 0, max(most_alpha, alpha), 1),
        Slider("batch_size", "slots B", batch_size, 2, max(12, batch_size), 1),
        Choice("policy", "policy", policy, {theme.policy_label(name): name for name in _GANTT}),
    ]
    return Panel("A schedule under α", controls, draw, code)


def profit_panel(
    lengths: ArrayLike,
    *,
    batch_size: int = 50,
    alpha: int = 150,
    step_cost: float = 0.0005,
    footprint_cost: float = 0.000001,
    token_price: float = 0.002,
    lengths_code: str = "",
) -> Panel:
    """Make the panel of costs: α, the cost of a step and of the footprint move the bars (ISJL, section 5).

    Parameters
    ----------
    lengths : array_like of int
        The accepted workload.
    batch_size : int
        Slots.
    alpha, step_cost, footprint_cost
        Where the controls start; a cost beyond its slider's ends starts at the nearer end.
    token_price : float
        Price of a token.
    lengths_code : str
        Python lines that bind the same lengths to `lengths`, for "copy as code"; the numbers by default.
    """
    jobs = _jobs(lengths)

    def draw(alpha: int, step_cost: float, footprint_cost: float) -> View:
        return _profit(jobs, batch_size, alpha, step_cost, footprint_cost, token_price)

    def code(alpha: int, step_cost: float, footprint_cost: float) -> str:
        return f"""\
import clairvoyant_lab as cl
from clairvoyant_lab.economics import cost_frame
from clairvoyant_lab.figures.batch import cost_bars
from clairvoyant_lab.figures.show import show

{lengths_code or f"lengths = {jobs}"}
policies = {{"FCFS": cl.batch_policy("fcfs"), "LJF": cl.batch_policy("ljf")}}
policies["ISJL"] = {_made("isjl", alpha)}
policies["slack"] = {_made("slack", alpha)}
policies["cohort"] = {_made("cohort", alpha)}
runs = {{label: cl.simulate_batch(lengths, policy, {batch_size}) for label, policy in policies.items()}}
frame = cost_frame(runs, {step_cost!r}, {footprint_cost!r}, {token_price!r})
figure = cost_bars(frame, title="Cost by policy, α = {alpha}")
show(figure)
"""

    controls: list[Control] = [
        Slider("alpha", "α (tokens)", alpha, 0, max(1_000, alpha), 5),
        LogSlider("step_cost", "cost of a step c", _within(step_cost, *_STEP_COSTS), *_STEP_COSTS),
        LogSlider("footprint_cost", "footprint cost τ", _within(footprint_cost, *_FOOTPRINTS), *_FOOTPRINTS),
    ]
    return Panel("Profit under α, c and τ", controls, draw, code)


def batch_panel(
    lengths: ArrayLike, *, batch_size: int = 16, alpha: int = 50, lengths_code: str = ""
) -> Panel:
    """Make the panel of policies in the plane of throughput and latency (ISJL, section 6).

    Parameters
    ----------
    lengths : array_like of int
        Tokens of each job.
    batch_size, alpha : int
        Where the controls start.
    lengths_code : str
        As for `profit_panel`.
    """
    jobs = _jobs(lengths)

    def draw(batch_size: int, alpha: int) -> View:
        return _plane(jobs, batch_size, alpha)

    def code(batch_size: int, alpha: int) -> str:
        return f"""\
import clairvoyant_lab as cl
from clairvoyant_lab.figures.settings import policy_plane
from clairvoyant_lab.figures.show import show

{lengths_code or f"lengths = {jobs}"}
policies = {{"FCFS": cl.batch_policy("fcfs"), "SJF": cl.batch_policy("sjf"), "LJF": cl.batch_policy("ljf")}}
policies["ISJL"] = {_made("isjl", alpha)}
policies["slack"] = {_made("slack", alpha)}
policies["cohort"] = {_made("cohort", alpha)}
figure = policy_plane(
    {{label: cl.simulate_batch(lengths, policy, {batch_size}) for label, policy in policies.items()}}
)
show(figure)
"""

    controls: list[Control] = [
        Slider("batch_size", "slots B", batch_size, 2, max(128, batch_size), 1),
        Slider("alpha", "α (tokens)", alpha, 0, max(1_000, alpha), 5),
    ]
    return Panel("Policies under B and α", controls, draw, code)


def _gantt(jobs: Sequence[int], alpha: int, batch_size: int, policy: str) -> View:
    from clairvoyant_lab.figures.batch import schedule_chart
    from clairvoyant_lab.scheduling.batch import batch_policy
    from clairvoyant_lab.simulation.batch import simulate_batch

    run = simulate_batch(jobs, batch_policy(policy, alpha=alpha, **_FAIR.get(policy, {})), batch_size)
    ljf = simulate_batch(jobs, batch_policy("ljf"), batch_size)
    numbers = [
        ("", theme.policy_label(policy), "LJF"),
        ("makespan (steps)", run.makespan_steps, ljf.makespan_steps),
        ("tokens a step", f"{run.throughput:.2f}", f"{ljf.throughput:.2f}"),
        ("largest gap (tokens)", run.max_gap, ljf.max_gap),
        ("idle slot-steps", run.idle_slot_steps, ljf.idle_slot_steps),
        ("externality E (token-steps)", run.externality, ljf.externality),
    ]
    saved = 1 - run.makespan_steps / ljf.makespan_steps
    pace = "as fast as" if saved == 0 else f"{abs(saved):.0%} {'faster' if saved > 0 else 'slower'} than"
    kept = (
        f"no two running jobs are more than {counted(alpha, 'token')} apart"
        if run.fair
        else f"the limit of {alpha} is broken at step {run.first_unfair_step}, up to {run.max_gap} apart"
    )
    note = f" {_COHORT_NOTE}" if policy == "cohort" else ""
    return View(schedule_chart(run), f"{theme.policy_label(policy)}: {kept}; {pace} LJF.{note}", numbers)


def _made(policy: str, alpha: int) -> str:
    """The call that makes a policy as the panel makes it."""
    more = "".join(f", {name}={value!r}" for name, value in _FAIR.get(policy, {}).items())
    return f"cl.batch_policy({policy!r}, alpha={alpha}{more})"


def _runs(jobs: Sequence[int], batch_size: int, alpha: int, names: Sequence[str]) -> dict[str, BatchRun]:
    from clairvoyant_lab.scheduling.batch import batch_policy
    from clairvoyant_lab.simulation.batch import simulate_batch

    return {
        theme.policy_label(name): simulate_batch(
            jobs,
            batch_policy(name, alpha=alpha if name in _FAIR else None, **_FAIR.get(name, {})),
            batch_size,
        )
        for name in names
    }


def _profit(
    jobs: Sequence[int],
    batch_size: int,
    alpha: int,
    step_cost: float,
    footprint_cost: float,
    token_price: float,
) -> View:
    from clairvoyant_lab.economics import break_even_step_cost, cost_frame
    from clairvoyant_lab.figures.batch import cost_bars

    runs = _runs(jobs, batch_size, alpha, ("fcfs", "ljf", *_FAIR))
    frame = cost_frame(runs, step_cost, footprint_cost, token_price)
    profits = dict(zip(frame["policy"], frame["profit"], strict=True))
    numbers: list[tuple[object, ...]] = [("policy", "profit (money)", "makespan (steps)", "E (token-steps)")]
    for label, run in runs.items():
        numbers.append(
            (label, f"{profits[label]:,.2f}", run.makespan_steps, f"{run.externality / 1e6:.1f} M")
        )
    best = max(profits, key=lambda label: profits[label])
    faster = {}
    for name in _FAIR:
        label = theme.policy_label(name)
        worth = break_even_step_cost(runs[label], runs["LJF"], footprint_cost)
        if worth is not None:
            faster[label] = worth
    first = min(faster, key=lambda label: faster[label], default="")
    when = (
        f"{first} earns more than LJF once a step costs more than {faster[first]:.3g}"
        if first
        else "none of the fair policies is faster than LJF here, so no step cost makes one pay"
    )
    sentence = (
        f"{best} earns most at α = {alpha}, c = {step_cost:.3g}, τ = {footprint_cost:.3g}; {when}. "
        f"{_COHORT_NOTE}"
    )
    return View(cost_bars(frame, title=f"Cost by policy, α = {alpha}"), sentence, numbers)


def _plane(jobs: Sequence[int], batch_size: int, alpha: int) -> View:
    from clairvoyant_lab.figures.settings import policy_plane

    runs = _runs(jobs, batch_size, alpha, ("fcfs", "sjf", "ljf", *_FAIR))
    numbers: list[tuple[object, ...]] = [
        ("policy", "tokens a step", "mean completion (steps)", "largest gap (tokens)")
    ]
    for label, run in runs.items():
        numbers.append((label, f"{run.throughput:.2f}", f"{run.mean_completion_steps:,.0f}", run.max_gap))
    fair = {label: run for label, run in runs.items() if run.max_gap <= alpha}
    best = max(fair, key=lambda label: fair[label].throughput)
    gain = fair[best].throughput / runs["LJF"].throughput - 1
    most = f"{gain:.1%} more than LJF" if gain > 0 else "what LJF gives"
    sentence = (
        f"With {batch_size} slots and at most {counted(alpha, 'token')} between running jobs, {best} gives "
        f"the most throughput of the fair policies: {most}. {_COHORT_NOTE}"
    )
    return View(policy_plane(runs), sentence, numbers)


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _jobs(lengths: ArrayLike) -> list[int]:
    jobs: list[Any] = np.asarray(lengths).tolist()
    if not jobs:
        raise ParameterError("lengths", jobs, "give at least one job")
    return jobs
