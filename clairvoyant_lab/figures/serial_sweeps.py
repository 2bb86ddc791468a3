"""Figures of sweeps and benchmarks: the cut against load, τ against spread, the frontier, burst tables."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from clairvoyant_lab.bench.report import BenchReport
from clairvoyant_lab.figures import theme

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

__all__ = ["bench_bars", "cut_against_load", "frontier_chart", "p50_against_tau", "waits_against_load"]

# promotion rules are not policies: three colours of the palette that no serial default uses beside them
_RULES = {
    "oldest": ("oldest first (section 3.4)", "#0072b2", "circle"),
    "shortest": ("smallest key first", "#e29a30", "square"),
    "long_only": ("only predicted long", "#7b1e3a", "diamond"),
}
_SPREADS = ("#61b6e9", "#0072b2", "#001751")


def cut_against_load(
    frame: pd.DataFrame, published: tuple[float, float] | None = None, title: str | None = None
) -> Figure:
    """Cut of the short P50 against load, one line a promotion rule (Figure 3).

    Parameters
    ----------
    frame : DataFrame
        From `papers.serial_experiments.figure3`.
    published : (rho, cut in percent), optional
        A printed point to mark.
    """
    figure = theme.new_figure(
        title=title or "What SJF saves short requests, by load",
        x_title="load ρ",
        y_title="cut of short P50 against FCFS (%)",
    )
    for promotion, part in frame.groupby("promotion", sort=False):
        label, colour, symbol = _RULES[str(promotion)]
        figure.add_scatter(
            x=part["rho"], y=part["cut_pct"], name=label, mode="lines+markers",
            line={"color": colour}, marker={"symbol": symbol, "size": 7},
            error_y={
                "type": "data", "symmetric": False, "array": part["high_pct"] - part["cut_pct"],
                "arrayminus": part["cut_pct"] - part["low_pct"], "thickness": 1,
            },
            hovertemplate=f"{label}<br>ρ = %{{x}}: %{{y:.1f}} %<extra></extra>",
        )  # fmt: skip
    if published is not None:
        figure.add_scatter(
            x=[published[0]], y=[published[1]], mode="markers", name=f"printed: {published[1]:g} %",
            marker={"symbol": "x", "size": 12, "color": "#111", "line": {"width": 1}},
        )  # fmt: skip
    figure.add_hline(y=0, line={"color": "#9ca3af", "width": 1})
    return figure


def p50_against_tau(frame: pd.DataFrame, title: str | None = None) -> Figure:
    """Short P50 by τ and C_s², ours with two standard errors and the printed cells (Table 10, Figure 4).

    Parameters
    ----------
    frame : DataFrame
        From `papers.serial_experiments.table10`; one panel a promotion rule.
    """
    from plotly.subplots import make_subplots

    rules = list(dict.fromkeys(frame["promotion"]))
    names = {"fcfs": "FCFS", "tau_1x": "τ = 1x", "tau_2x": "τ = 2x", "tau_3x": "τ = 3x", "tau_none": "no τ"}
    figure = make_subplots(
        rows=1, cols=len(rules), shared_yaxes=True, horizontal_spacing=0.04,
        subplot_titles=[_RULES[str(rule)][0] for rule in rules],
    )  # fmt: skip
    for column, rule in enumerate(rules, start=1):
        own = frame[frame["promotion"] == rule]
        for index, (cs2, part) in enumerate(own.groupby("cs2")):
            colour = _SPREADS[index % len(_SPREADS)]
            x = [names[str(setting)] for setting in part["setting"]]
            figure.add_scatter(
                x=x, y=part["p50_s"], name=f"C_s² = {cs2:g}, ours ± 2 SE", mode="lines+markers",
                line={"color": colour}, legendgroup=str(cs2), showlegend=column == 1,
                error_y={"type": "data", "array": 2 * part["se5_s"], "thickness": 1.2},
                hovertemplate="%{x}: %{y:.2f} s<extra></extra>", row=1, col=column,
            )  # fmt: skip
            figure.add_scatter(
                x=x, y=part["published_s"], name=f"C_s² = {cs2:g}, printed", mode="markers",
                marker={"symbol": "x", "size": 10, "color": colour}, legendgroup=str(cs2),
                showlegend=column == 1, hovertemplate="printed: %{y:.2f} s<extra></extra>", row=1, col=column,
            )  # fmt: skip
    figure.update_layout(
        template=theme.template(), height=430, margin={"t": 88},
        title_text=title or "Short P50 by timeout, spread and who is promoted",
    )  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title_text="short P50, arrival to last token (s)", col=1)
    return figure


def frontier_chart(frame: pd.DataFrame, budget_pct: float | None = None, title: str | None = None) -> Figure:
    """Short P50 against long P99, both as change from FCFS; each point is a τ.

    Parameters
    ----------
    frame : DataFrame
        From `papers.serial_experiments.frontier`, or a `TauAdvice.to_frame()` (one rule).
    budget_pct : float, optional
        Draw the allowed rise of the long P99.
    """
    figure = theme.new_figure(
        title=title or "What τ trades: each point is a timeout",
        x_title="change of long P99 against FCFS (%)",
        y_title="change of short P50 against FCFS (%)",
    )
    groups: Any = [("oldest", frame)]
    if "promotion" in frame.columns:
        groups = frame.groupby("promotion", sort=False)
    for promotion, part in groups:
        label, colour, symbol = _RULES[str(promotion)]
        text = ["no limit" if np.isnan(tau) else f"τ = {tau:.3g} s" for tau in part["tau_s"]]
        figure.add_scatter(
            x=part["long_p99_change_pct"], y=part["short_p50_change_pct"], text=text, name=label,
            mode="lines+markers", line={"color": colour, "width": 1.5},
            marker={"symbol": symbol, "size": 7},
            hovertemplate="%{text}<br>long P99 %{x:+.1f} %<br>short P50 %{y:+.1f} %<extra></extra>",
        )  # fmt: skip
    if budget_pct is not None:
        figure.add_vline(
            x=budget_pct, line={"color": "#111", "dash": "dot", "width": 1.5},
            annotation_text=f"budget {budget_pct:+g} %", annotation_position="top right",
        )  # fmt: skip
    return figure


def bench_bars(report: BenchReport, q: float = 50.0, title: str | None = None) -> Figure:
    """Bars by class and policy with the standard deviation over runs, as Table 9 prints it."""
    how = {"simulate": "simulated", "emulate": "emulated"}.get(report.mode, report.mode)
    kinds = {"burst": "burst", "poisson": "Poisson arrivals", "replay": "replay"}
    figure = theme.new_figure(
        title=title or _wrapped(f"P{q:g} time to completion, {report.profile}, {kinds[report.kind]} ({how})"),
        y_title="time from arrival to last token (s)",
        barmode="group",
        yaxis_rangemode="tozero",
        height=380,
    )
    spare = [name for name in theme.SERIAL_POLICIES if name not in report.policies]
    for index, policy in enumerate(report.policies):
        name = policy.split(",")[0].split("(")[0]
        plain = name if name == policy else spare[index % len(spare)]
        values = [report.percentile(policy, group, q) for group in report.groups]
        figure.add_bar(
            x=["all" if group is None else group.label for group in report.groups],
            y=[float(v.mean()) for v in values],
            error_y={
                "type": "data", "thickness": 1.2,
                "array": [float(v.std(ddof=1)) if v.size > 1 else 0.0 for v in values],
                "visible": any(v.size > 1 for v in values),
            },
            name=theme.policy_label(name) + policy[len(name):],
            marker_color=theme.policy_colour(plain),
            hovertemplate=f"{policy}<br>%{{x}}: %{{y:.1f}} s<extra></extra>",
        )  # fmt: skip
    return figure


def _wrapped(title: str, most: int = 72) -> str:
    """Break a title that would run under the tool bar; a service model may name itself at length."""
    return "<br>".join(textwrap.wrap(title, most))


def waits_against_load(simulated: pd.DataFrame, theory: pd.DataFrame, title: str | None = None) -> Figure:
    """Mean waits by load: lines from formulas, points with intervals from simulation.

    Parameters
    ----------
    simulated : DataFrame
        Columns policy, rho, mean_wait_s, mean_wait_s_low, mean_wait_s_high (`SweepResult.means`).
    theory : DataFrame
        Columns policy, rho, mean_wait_s.
    """
    figure = theme.new_figure(
        title=title or "Simulation on theory's lines",
        x_title="load ρ",
        y_title="mean wait (s)",
        yaxis_rangemode="tozero",
    )
    for policy, part in theory.groupby("policy", sort=False):
        figure.add_scatter(
            x=part["rho"], y=part["mean_wait_s"], mode="lines", line=theme.policy_line(str(policy)),
            name=f"{theme.policy_label(str(policy))}, formula",
        )  # fmt: skip
    for policy, part in simulated.groupby("policy", sort=False):
        figure.add_scatter(
            x=part["rho"], y=part["mean_wait_s"], mode="markers",
            name=f"{theme.policy_label(str(policy))}, simulated",
            marker={"color": theme.policy_colour(str(policy)), "size": 8},
            error_y={
                "type": "data", "symmetric": False,
                "array": part["mean_wait_s_high"] - part["mean_wait_s"],
                "arrayminus": part["mean_wait_s"] - part["mean_wait_s_low"],
            },
        )  # fmt: skip
    return figure
