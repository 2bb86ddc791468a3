"""Commands of the serial world: simulate serial, sweep, calibrate tau, replay, gate."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clairvoyant_lab.cli.frame import JsonOption, command_errors, print_frame, print_json, refuse
from clairvoyant_lab.cli.groups import subcommands
from clairvoyant_lab.errors import ParameterError

if TYPE_CHECKING:
    from clairvoyant_lab.scheduling.serial import SerialPolicy
    from clairvoyant_lab.simulation.trace import Trace

__all__ = ["register"]


class Promotion(StrEnum):
    """Who is promoted among those that waited longer than the starvation timeout."""

    oldest = "oldest"
    shortest = "shortest"
    long_only = "long_only"


class Service(StrEnum):
    """Service times of a sweep."""

    paper_mix = "paper_mix"
    gamma = "gamma"
    lognormal = "lognormal"


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    subcommands(app, "simulate", "Run policies on traces and workloads.").command("serial")(simulate_serial)
    subcommands(app, "calibrate", "Find what to set.").command("tau")(calibrate_tau)
    app.command("sweep")(sweep)
    app.command("replay")(replay)
    app.command("gate")(gate)


TraceArgument = Annotated[
    Path, typer.Argument(help="Trace: parquet, CSV, JSONL, Azure, BurstGPT, Mooncake, or a journal.")
]
TraceOption = Annotated[Path | None, typer.Option("--trace", help="A trace instead of made traffic.")]
PoliciesArgument = Annotated[
    list[str] | None, typer.Argument(help="Policies, as fcfs sjf sjf_tokens oracle hrrn srpt.")
]
TauOption = Annotated[
    float | None, typer.Option("--tau", help="Starvation timeout of all but fcfs and srpt, s; else no limit.")
]
PromotionOption = Annotated[Promotion, typer.Option("--promotion", help="Who is promoted after tau.")]
ProfileOption = Annotated[
    str, typer.Option("--profile", help="m1, rtx4090-gemma, rtx4090-llama, l4, or a TOML file.")
]
RhoOption = Annotated[float, typer.Option("--rho", help="Load.")]
SizeOption = Annotated[int, typer.Option("-n", help="Requests.")]
AccuracyOption = Annotated[float, typer.Option("--accuracy", help="Ranking accuracy of the score, 0 to 1.")]
SlotsOption = Annotated[int, typer.Option("--slots", help="Requests served at once.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed.")]


@command_errors
def simulate_serial(
    policies: PoliciesArgument = None,
    trace: TraceOption = None,
    profile: ProfileOption = "l4",
    rho: RhoOption = 0.74,
    n: SizeOption = 2000,
    accuracy: AccuracyOption = 0.95,
    tau: TauOption = None,
    promotion: PromotionOption = Promotion.oldest,
    slots: SlotsOption = 1,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Run one trace under several policies: percentiles by class."""
    from clairvoyant_lab.advice.replay import what_if
    from clairvoyant_lab.simulation.profiles import hardware_profile
    from clairvoyant_lab.simulation.trace import Trace as Requests

    if trace is not None:
        requests = _scored(Requests.read(trace, pace=profile), accuracy, seed)
    else:
        model = hardware_profile(profile).service_model()
        requests = Requests.from_poisson(n, model, rho=rho, seed=seed, accuracy=accuracy)
    chosen = [make_policy(name, tau, promotion) for name in (policies or ["fcfs", "sjf"])]
    print_frame(what_if(requests, chosen, slots).to_frame().round(4), as_json)


@command_errors
def replay(
    trace: TraceArgument,
    policies: PoliciesArgument = None,
    tau: TauOption = None,
    promotion: PromotionOption = Promotion.oldest,
    profile: ProfileOption = "m1",
    slots: SlotsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Replay a journal or trace under other policies."""
    from clairvoyant_lab.advice.replay import what_if
    from clairvoyant_lab.simulation.trace import Trace as Requests

    chosen = None if not policies else [make_policy(name, tau, promotion) for name in policies]
    result = what_if(Requests.read(trace, pace=profile), chosen, slots)
    print_frame(result.to_frame().round(4), as_json)
    for name, reason in result.skipped.items():
        typer.echo(f"left out: {name} ({reason})", err=True)


@command_errors
def sweep(
    policies: PoliciesArgument = None,
    taus: Annotated[list[float] | None, typer.Option("--tau", help="Timeout, s; may be repeated.")] = None,
    no_limit: Annotated[bool, typer.Option("--no-limit/--only-taus", help="Also without a timeout.")] = True,
    rhos: Annotated[list[float] | None, typer.Option("--rho", help="Load; may be repeated.")] = None,
    cs2s: Annotated[
        list[float] | None, typer.Option("--cs2", help="Squared coefficient of variation; may be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds.")] = 5,
    seed: SeedOption = 0,
    promotion: PromotionOption = Promotion.oldest,
    service: Annotated[Service, typer.Option("--service", help="Service times.")] = Service.paper_mix,
    n: SizeOption = 2000,
    accuracy: AccuracyOption = 0.95,
    slots: SlotsOption = 1,
    jobs: Annotated[int, typer.Option("--jobs", help="Processes.")] = 1,
    store: Annotated[
        Path | None, typer.Option("--store", help="SQLite file of finished cells; a killed sweep goes on.")
    ] = None,
    column: Annotated[str, typer.Option("--column", help="What to average over seeds.")] = "p50_sojourn_s",
    out: Annotated[Path | None, typer.Option("--out", help="All rows as .csv or .parquet.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate policies over tau, rho, cs2 and seeds.

    All with common random numbers.
    """
    from concurrent.futures import ProcessPoolExecutor
    from contextlib import nullcontext

    from clairvoyant_lab.simulation.sweeps import sweep as run_sweep

    if jobs < 1:
        raise ParameterError("jobs", jobs, "give 1 or more")
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise ParameterError("out", str(out), "end it in .csv or .parquet")
    limits: list[float | None] = [*(taus or [])]
    if no_limit:
        limits.append(None)
    with ProcessPoolExecutor(jobs) if jobs > 1 else nullcontext() as pool:
        result = run_sweep(
            policies or ("fcfs", "sjf"),
            limits,
            rhos or (0.74,),
            cs2s or (1.0,),
            range(seed, seed + seeds),
            promotions=(promotion.value,),
            service=service.value,
            n=n,
            accuracy=accuracy if service is Service.paper_mix else None,
            slots=slots,
            executor=pool,
            store=store,
            progress=not as_json,
        )
    if out is not None:
        frame = result.to_frame()
        if out.suffix == ".csv":
            frame.to_csv(out, index=False)
        else:
            frame.to_parquet(out, index=False)
    print_frame(result.means(column).round(4), as_json)
    typer.echo(f"computed {result.cells_computed}, from the store {result.cells_reused}", err=True)


@command_errors
def calibrate_tau(
    trace: TraceOption = None,
    profile: ProfileOption = "l4",
    rho: RhoOption = 0.74,
    n: SizeOption = 2000,
    accuracy: AccuracyOption = 0.95,
    budget: Annotated[
        float, typer.Option("--budget", help="Allowed rise of the long P99 against FCFS, percent.")
    ] = 5.0,
    policy: Annotated[str, typer.Option("--policy", help="What orders the queue.")] = "sjf",
    promotion: PromotionOption = Promotion.oldest,
    seed: SeedOption = 0,
    frontier: Annotated[bool, typer.Option("--frontier", help="Print every timeout tried.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the best timeout within a budget.

    Best for short requests, within the budget for long ones. Exit 1 if it goes over.
    """
    from clairvoyant_lab.advice.tau import calibrate_tau as calibrate
    from clairvoyant_lab.simulation.trace import Trace as Requests

    workload = profile if trace is None else _scored(Requests.read(trace, pace=profile), accuracy, seed)
    advice = calibrate(
        workload, long_p99_budget_pct=budget, policy=policy, promotion=promotion.value, rho=rho,
        accuracy=accuracy, n=n, seed=seed,
    )  # fmt: skip
    if as_json:
        print_json(advice.summary() | ({"frontier": list(advice.frontier)} if frontier else {}))
    else:
        if frontier:
            print_frame(advice.to_frame().round(3))
        typer.echo(advice.sentence())
    if not advice.holds:
        raise refuse("the budget doesn't hold on other seeds")


@command_errors
def gate(
    trace: TraceArgument,
    min_cut: Annotated[
        float, typer.Option("--min-cut", help="Wanted cut of short requests' mean time, percent.")
    ] = 5.0,
    tau: TauOption = None,
    promotion: PromotionOption = Promotion.oldest,
    profile: ProfileOption = "m1",
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Say if the predictor is good enough to deploy.

    Does it rank this traffic well enough to pay? Exit 1 if not, or if it is too close to call.
    """
    from clairvoyant_lab.advice.gate import deploy_gate
    from clairvoyant_lab.simulation.trace import Trace as Requests

    result = deploy_gate(
        Requests.read(trace, pace=profile), min_cut_pct=min_cut, starvation_timeout_s=tau,
        promotion=promotion.value, seed=seed,
    )  # fmt: skip
    if as_json:
        print_json(result.summary() | {"sentence": result.sentence()})
    else:
        typer.echo(result.sentence())
    if not result.passed:
        raise typer.Exit(1)


def make_policy(name: str, tau: float | None, promotion: Promotion) -> SerialPolicy:
    """A policy by name, with the timeout where it has one."""
    from clairvoyant_lab.scheduling.serial import serial_policy

    limit = None if name in ("fcfs", "srpt") else tau
    return serial_policy(name, limit, promotion=promotion.value)


def _scored(trace: Trace, accuracy: float, seed: int) -> Trace:
    """A trace with a score: its own, else one of the wanted ranking accuracy."""
    if trace.score is not None or trace.length_class is None:
        return trace
    from clairvoyant_lab.simulation.scores import noisy_score

    return trace.with_columns(score=noisy_score(trace.length_class, accuracy, seed))
