"""Commands that benchmark serial policies: bench burst, bench poisson, bench replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from clairvoyant_lab.cli.frame import JsonOption, command_errors, print_frame
from clairvoyant_lab.cli.groups import subcommands
from clairvoyant_lab.cli.serial import (
    AccuracyOption,
    PoliciesArgument,
    ProfileOption,
    Promotion,
    PromotionOption,
    RhoOption,
    SeedOption,
    SlotsOption,
    TauOption,
    TraceArgument,
    make_policy,
)

if TYPE_CHECKING:
    from clairvoyant_lab.bench.report import BenchReport
    from clairvoyant_lab.scheduling.serial import SerialPolicy

__all__ = ["register"]

RunsOption = Annotated[int, typer.Option("--runs", help="Repetitions.")]
BackendOption = Annotated[
    str | None,
    typer.Option("--backend", help="URL of a proxy or backend: measure it instead of simulating."),
]
ModelOption = Annotated[str, typer.Option("--model", help="Model name sent to the backend.")]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", envvar="CLAIRVOYANT_TOKEN", help="Token of the proxy's control routes.", show_envvar=True
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    group = subcommands(app, "bench", "Benchmark policies: burst, Poisson, trace replay.")
    group.command("burst")(burst)
    group.command("poisson")(poisson)
    group.command("replay")(replay)


@command_errors
def burst(
    policies: PoliciesArgument = None,
    profile: ProfileOption = "rtx4090-gemma",
    short: Annotated[int, typer.Option("--short", help="Short requests.")] = 50,
    long: Annotated[int, typer.Option("--long", help="Long requests.")] = 50,
    medium: Annotated[int, typer.Option("--medium", help="Medium requests (simulation).")] = 0,
    accuracy: AccuracyOption = 1.0,
    tau: TauOption = None,
    promotion: PromotionOption = Promotion.oldest,
    runs: RunsOption = 5,
    slots: SlotsOption = 1,
    seed: SeedOption = 0,
    backend: BackendOption = None,
    model: ModelOption = "default",
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """All requests at once (sections 5.3 and 5.4)."""
    if backend is not None:
        from clairvoyant_lab.bench.live import bench_live_burst

        names = policies or ["fcfs", "sjf"]
        _print(
            bench_live_burst(
                backend, short, long, [make_policy(name, tau, promotion) for name in names], runs=runs,
                model=model, seed=seed, token=token,
            ),
            as_json,
        )  # fmt: skip
        return
    from clairvoyant_lab.bench.simulated import bench_burst

    chosen = _policies(policies, tau, promotion)
    report = bench_burst(
        profile, short, long, medium, chosen, runs=runs, accuracy=accuracy, seed=seed, slots=slots
    )
    _print(report, as_json)


@command_errors
def poisson(
    policies: PoliciesArgument = None,
    profile: ProfileOption = "l4",
    rho: RhoOption = 0.74,
    n: Annotated[
        int | None, typer.Option("-n", help="Requests; 2000 simulated or 30 live by default.")
    ] = None,
    accuracy: AccuracyOption = 0.95,
    tau: TauOption = None,
    promotion: PromotionOption = Promotion.oldest,
    runs: RunsOption = 5,
    slots: SlotsOption = 1,
    seed: SeedOption = 0,
    backend: BackendOption = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Arrivals a second at --backend, instead of a load.")
    ] = None,
    model: ModelOption = "default",
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Steady traffic at a load (sections 5.5 and 5.6)."""
    from clairvoyant_lab.errors import ParameterError

    chosen = _policies(policies, tau, promotion)
    if (backend is None) != (rate is None):
        raise ParameterError("rate", rate, "give --rate and --backend together: a live run has no known load")
    if backend is not None and rate is not None:
        from clairvoyant_lab.bench.live import bench_live_poisson

        live = bench_live_poisson(
            backend,
            rate,
            30 if n is None else n,
            chosen,
            runs=runs,
            model=model,
            seed=seed,
            token=token,
        )
        _print(live, as_json)
        return
    from clairvoyant_lab.bench.simulated import bench_poisson

    size = 2000 if n is None else n
    _print(
        bench_poisson(profile, rho, size, chosen, runs=runs, accuracy=accuracy, seed=seed, slots=slots),
        as_json,
    )


@command_errors
def replay(
    trace: TraceArgument,
    policies: PoliciesArgument = None,
    profile: ProfileOption = "l4",
    rho: Annotated[float | None, typer.Option("--rho", help="Scale arrivals to this load.")] = None,
    accuracy: Annotated[
        float | None, typer.Option("--accuracy", help="Draw a score of this ranking accuracy.")
    ] = None,
    tau: TauOption = None,
    promotion: PromotionOption = Promotion.oldest,
    runs: RunsOption = 1,
    slots: SlotsOption = 1,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """A trace under several policies on a profile's token pace."""
    from clairvoyant_lab.bench.simulated import bench_replay
    from clairvoyant_lab.simulation.trace import Trace

    requests = Trace.read(trace, pace=profile)
    chosen = _policies(policies, tau, promotion)
    report = bench_replay(requests, chosen, rho=rho, accuracy=accuracy, runs=runs, seed=seed, slots=slots)
    _print(report, as_json)


def _policies(names: list[str] | None, tau: float | None, promotion: Promotion) -> list[SerialPolicy]:
    return [make_policy(name, tau, promotion) for name in (names or ["fcfs", "sjf"])]


def _print(report: BenchReport, as_json: bool) -> None:
    print_frame(report.to_frame().round(4), as_json)
    typer.echo(f"{report.kind}, {report.mode}, {report.profile}: {report.parameters}", err=True)
