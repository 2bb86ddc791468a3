"""Commands of the batch world: simulate batch, calibrate alpha."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clairvoyant_lab.cli.frame import JsonOption, command_errors, print_frame, print_json, refuse
from clairvoyant_lab.cli.groups import subcommands
from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.results import MISSING, counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["register"]


class Workload(StrEnum):
    """Lengths that need no file."""

    table1 = "table1"
    lmsys_like = "lmsys-like"


class Choice(StrEnum):
    """Which of the alphas that meet the targets to take."""

    cheapest = "cheapest"
    smallest = "smallest"


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    subcommands(app, "simulate", "Run policies on traces and workloads.").command("batch")(simulate_batch)
    subcommands(app, "calibrate", "Find what to set.").command("alpha")(calibrate_alpha)


LengthsOption = Annotated[
    Path | None,
    typer.Option(
        "--lengths",
        help="CSV with ContextTokens and GeneratedTokens (or prompt_tokens and response_tokens), or a text "
        "file with one length a line.",
    ),
]
WorkloadOption = Annotated[Workload, typer.Option("--workload", help="Lengths to make if no file is given.")]
SizeOption = Annotated[int, typer.Option("--batch-size", "-B", help="Slots.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the workload.")]
LimitOption = Annotated[int | None, typer.Option("--first", help="Only the file's first so many requests.")]
StepCostOption = Annotated[float, typer.Option("--step-cost", help="c, cost of a step.")]
FootprintCostOption = Annotated[
    float, typer.Option("--footprint-cost", help="τ, cost a step, running job and token of the largest.")
]
PriceOption = Annotated[float, typer.Option("--token-price", help="p_0, price of a token.")]


@command_errors
def simulate_batch(
    policies: Annotated[
        list[str] | None, typer.Argument(help="Policies, as fcfs ljf isjl slack cohort; these by default.")
    ] = None,
    alpha: Annotated[list[int] | None, typer.Option("--alpha", "-a", help="May be repeated.")] = None,
    batch_size: SizeOption = 50,
    lengths: LengthsOption = None,
    workload: WorkloadOption = Workload.table1,
    first: LimitOption = None,
    seed: SeedOption = 0,
    step_cost: StepCostOption = 0.0005,
    footprint_cost: FootprintCostOption = 1e-6,
    token_price: PriceOption = 0.002,
    reorder: Annotated[
        bool,
        typer.Option("--reorder", help="Put the stages of ljf, isjl, slack, cohort in order of latency."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Serve one workload in batches, several ways.

    Several policies and alphas: makespan, throughput, fairness, profit.
    """
    import pandas as pd

    from clairvoyant_lab.economics.costs import cost_breakdown
    from clairvoyant_lab.scheduling.batch import batch_policy
    from clairvoyant_lab.scheduling.theory.bounds import makespan_bound
    from clairvoyant_lab.simulation.batch import simulate_batch as simulate

    own = _lengths(lengths, workload, first, seed)
    alphas = alpha or [100]
    rows = []
    for name in policies or ["fcfs", "ljf", "isjl", "slack", "cohort"]:
        for limit in [None] if name in ("fcfs", "sjf", "ljf") else alphas:
            extra = {"reorder": True} if reorder and name in ("ljf", "isjl", "slack", "cohort") else {}
            run = simulate(own, batch_policy(name, alpha=limit, **extra), batch_size)
            money = cost_breakdown(run, step_cost, footprint_cost, token_price)
            rows.append(
                {
                    "policy": name,
                    "alpha": limit,
                    "makespan_steps": run.makespan_steps,
                    "fair_bound_steps": None if limit is None else makespan_bound(own, batch_size, limit),
                    "throughput": run.throughput,
                    "mean_latency_steps": run.mean_latency_steps,
                    "max_gap": run.max_gap,
                    "fair": run.fair,
                    "time_cost": money.time,
                    "externality_cost": money.externality,
                    "profit": money.profit,
                }
            )
    if as_json:
        print_json(rows)
    else:
        typer.echo(
            f"{counted(own.size, 'job')}, {counted(int(own.sum()), 'token')}, "
            f"longest {int(own.max()):,}, B = {batch_size}"
        )
        frame = pd.DataFrame(rows)
        for column in ("alpha", "fair_bound_steps", "fair"):  # a policy without a limit has none of these
            frame[column] = [MISSING if value is None else value for value in frame[column].astype(object)]
        print_frame(frame)


@command_errors
def calibrate_alpha(
    policy: Annotated[str, typer.Option("--policy", help="isjl, slack, cohort.")] = "isjl",
    batch_size: SizeOption = 50,
    lengths: LengthsOption = None,
    workload: WorkloadOption = Workload.table1,
    first: LimitOption = None,
    seed: SeedOption = 0,
    step_cost: StepCostOption = 0.0005,
    footprint_cost: FootprintCostOption = 1e-6,
    token_price: PriceOption = 0.002,
    min_throughput: Annotated[
        float | None, typer.Option("--min-throughput", help="Tokens a step; no target if left out.")
    ] = None,
    max_latency: Annotated[
        float | None, typer.Option("--max-latency", help="Steps at the quantile; no target if left out.")
    ] = None,
    latency_quantile: Annotated[float, typer.Option("--quantile", help="Of finish minus release.")] = 0.95,
    choose: Annotated[
        Choice, typer.Option("--choose", help="Least cost, or smallest alpha.")
    ] = Choice.cheapest,
    as_json: JsonOption = False,
) -> None:
    """Find the alpha that meets your targets.

    Replays a log at each alpha of a grid and picks one under the targets. Exit 1 if none meets them.
    A second half of the log is kept back and says whether the choice carries over.
    """
    from clairvoyant_lab.advice.alpha import calibrate_alpha as calibrate

    own = _lengths(lengths, workload, first, seed)
    holdout = None
    if lengths is None:
        holdout = _lengths(None, workload, first, seed + 1)
    elif own.size > 1:
        own, holdout = own[: (own.size + 1) // 2], own[(own.size + 1) // 2 :]
    advice = calibrate(
        own,
        batch_size,
        step_cost=step_cost,
        footprint_cost=footprint_cost,
        token_price=token_price,
        policy=policy,
        min_throughput=min_throughput,
        max_latency=max_latency,
        latency_quantile=latency_quantile,
        choose=choose.value,
        holdout=holdout,
    )
    if as_json:
        print_json({**advice.summary(), "candidates": advice.table.to_dict(orient="records")})
    else:
        print_frame(advice.table)
        carried = {True: "also on the log kept back", False: "but not on the log kept back", None: ""}
        typer.echo(f"alpha = {advice.alpha}: {advice.reason} {carried[advice.holdout_agrees]}".rstrip())
    if advice.alpha is None:
        raise refuse(advice.reason)


def _lengths(path: Path | None, workload: Workload, first: int | None, seed: int) -> NDArray[np.int64]:
    import numpy as np

    from clairvoyant_lab.economics.demand import table1_workload
    from clairvoyant_lab.errors import DataError
    from clairvoyant_lab.scheduling.batch import check_steps
    from clairvoyant_lab.simulation.batch_workloads import lmsys_like_lengths, trace_lengths

    if first is not None and first < 1:
        raise ParameterError("--first", first, "give at least 1")
    if path is None:
        return lmsys_like_lengths(2_000, seed) if workload is Workload.lmsys_like else table1_workload(seed)
    if path.suffix == ".csv":
        return trace_lengths(path, first)
    try:
        lines = [line for line in path.read_text(encoding="utf-8").split() if line][:first]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"can't be read ({error})", source=str(path)) from error
    numbers = []
    for row, line in enumerate(lines):
        try:
            numbers.append(int(line))
        except ValueError:
            raise DataError(f"{line!r} is no whole number", source=str(path), row=row) from None
    return check_steps("lengths", np.asarray(numbers), at_least=1)
