"""Figures of batch schedules: where jobs run, what they cost, and how far the theory reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.figures import theme
from clairvoyant_lab.results import counted

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from clairvoyant_lab.advice.alpha import AlphaAdvice
    from clairvoyant_lab.simulation.batch import BatchRun

__all__ = [
    "alpha_sweep",
    "calibration_chart",
    "cost_bars",
    "gain_chart",
    "gap_chart",
    "length_histogram",
    "profit_frontier",
    "profit_over_step_cost",
    "schedule_chart",
]

LIMIT_COLOUR = "#b91c1c"
_LABEL_ROOM = 0.035  # share of each axis that a point's label takes
_MOST_NUMBERED = 60  # jobs: with more, numbers in the bars would be dust


def schedule_chart(run: BatchRun, *, most_jobs: int = 400, title: str | None = None) -> Figure:
    """Draw a schedule as bars in slots; colour is the job's length, a line marks the first unfair step.

    A number in a bar is the job's, counted from 0.

    Parameters
    ----------
    run : BatchRun
    most_jobs : int
        Draw only the jobs that start first.
    title : str, optional
    """
    import plotly.graph_objects as go

    order = np.argsort(run.start_steps, kind="stable")[:most_jobs]
    free = np.zeros(run.batch_size, dtype=np.int64)
    slots = np.empty(order.size, dtype=np.int64)
    for k, job in enumerate(order):
        slot = int(np.flatnonzero(free <= run.start_steps[job])[0])
        free[slot] = run.finish_steps[job]
        slots[k] = slot + 1
    shown = "" if order.size == run.lengths.size else f", first {order.size:,} of {run.lengths.size:,} jobs"
    fairness = {True: "fair", False: "NOT fair", None: "no limit"}[run.fair]
    figure = theme.new_figure(
        title=title
        or f"{theme.policy_label(run.policy.name)}: {counted(run.makespan_steps, 'step')}, "
        f"largest gap {counted(run.max_gap, 'token')} ({fairness}){shown}",
        x_title="time (steps)",
        y_title="slot",
        height=int(min(160 + 26 * run.batch_size, 640)),
        bargap=0.12,
        uniformtext={"minsize": 9, "mode": "hide"},  # a bar too short for its number goes without
    )
    figure.add_trace(
        go.Bar(
            orientation="h",
            y=slots,
            base=run.start_steps[order],
            x=run.lengths[order],
            marker={
                "color": run.lengths[order],
                "colorscale": theme.SEQUENTIAL,
                "colorbar": {"title": {"text": "length<br>(tokens)"}, "thickness": 12, "nticks": 5},
                "showscale": run.batch_size >= 4,  # a scale needs some height
                "line": {"width": 0.5, "color": "white"},
            },
            text=order if order.size <= _MOST_NUMBERED else None,
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            customdata=np.stack([order, run.start_steps[order], run.finish_steps[order]], axis=1),
            hovertemplate="job %{customdata[0]}: %{x} tokens, steps %{customdata[1]} to %{customdata[2]}"
            "<extra></extra>",
            showlegend=False,
        )
    )
    figure.update_yaxes(autorange="reversed", dtick=1 if run.batch_size <= 16 else None)
    figure.update_xaxes(rangemode="tozero")
    if run.first_unfair_step is not None:
        behind, ahead = run.first_unfair_jobs or (-1, -1)
        figure.add_vline(
            x=run.first_unfair_step,
            line={"color": LIMIT_COLOUR, "dash": "dash"},
            annotation={
                "text": f"step {run.first_unfair_step}: job {ahead} is too far ahead of job {behind}",
                "font": {"color": LIMIT_COLOUR},
                "yshift": 18,
                "xanchor": "left",
            },
        )
    return figure


def gap_chart(runs: Mapping[str, BatchRun], alpha: int | None = None) -> Figure:
    """Draw the progress gap at each step, one line a run, and the limit.

    Parameters
    ----------
    runs : mapping of str to BatchRun
        Label -> run.
    alpha : int, optional
        Limit to draw.
    """
    figure = theme.new_figure(
        title="Progress gap among running jobs", x_title="time (steps)", y_title="largest gap (tokens)"
    )
    for label, run in runs.items():
        times, gaps = _gap_steps(run)
        figure.add_scatter(
            x=times,
            y=gaps,
            name=theme.run_label(label),
            mode="lines",
            line={**theme.policy_line(run.policy.name, width=1.8), "shape": "hv"},
            hovertemplate=f"{label}: gap %{{y}} at step %{{x}}<extra></extra>",
        )
    if alpha is not None:
        figure.add_hline(
            y=alpha,
            line={"color": LIMIT_COLOUR, "dash": "dash"},
            annotation={"text": f"α = {alpha}", "font": {"color": LIMIT_COLOUR}, "xanchor": "right"},
        )
    figure.update_yaxes(rangemode="tozero")
    return figure


def _gap_steps(run: BatchRun) -> tuple[list[int], list[int]]:
    """Times at which the gap changes, and the gap from then on."""
    events = np.unique(np.concatenate([run.start_steps, run.finish_steps]))
    if events.size > 4_000:  # more points than pixels: a grid keeps the page small
        events = events[np.linspace(0, events.size - 1, 4_000).astype(int)]
    times, gaps = [], []
    order = np.argsort(run.start_steps, kind="stable")
    starts, ends = run.start_steps[order], run.finish_steps[order]
    for t in events:
        running = starts[: np.searchsorted(starts, t, side="right")]
        active = running[ends[: running.size] > t]
        times.append(int(t))
        gaps.append(int(active[-1] - active[0]) if active.size else 0)
    return times, gaps


def cost_bars(frame: pd.DataFrame, *, title: str = "Cost by policy") -> Figure:
    """Stack the three parts of the cost, one bar a policy (left half of Figure 5).

    Parameters
    ----------
    frame : DataFrame
        From `economics.cost_frame`, or its means: columns policy, intrinsic, time, externality.
    """
    figure = theme.new_figure(title=title, x_title="policy", y_title="cost (money)", barmode="stack")
    parts = {"intrinsic": "intrinsic τQ", "time": "time cT", "externality": "externality τE"}
    for column, label in parts.items():
        figure.add_bar(
            x=[theme.run_label(str(policy)) for policy in frame["policy"]],
            y=frame[column],
            name=label,
            marker_color=theme.COST_COLOURS[column],
            hovertemplate=f"%{{x}}: {label} %{{y:.2f}}<extra></extra>",
        )
    figure.update_yaxes(rangemode="tozero")
    return figure


def profit_frontier(frame: pd.DataFrame) -> Figure:
    """Profit over throughput, one line a policy through its alphas (right half of Figure 5).

    Parameters
    ----------
    frame : DataFrame
        Columns policy (name), alpha (missing for those without), throughput, profit.
    """
    figure = theme.new_figure(
        title="Profit and throughput (numbers: α in tokens)",
        x_title="throughput (tokens a step)",
        y_title="profit (money)",
    )
    places = frame[["throughput", "profit"]].to_numpy(dtype=np.float64)
    spans = np.maximum(np.ptp(places, axis=0), 1e-12)
    labelled: list[NDArray[np.float64]] = []
    for name, rows in frame.groupby("policy", sort=False):
        policy = str(name)
        many = len(rows) > 1
        texts = []
        for alpha, *place in rows[["alpha", "throughput", "profit"]].itertuples(index=False):
            # of points that lie close together only the first gets its number; hovering gives all
            there = np.asarray(place, dtype=np.float64) / spans
            free = all(np.any(np.abs(there - other) > _LABEL_ROOM) for other in labelled)
            texts.append(f"{alpha:.0f}" if free else "")
            if free:
                labelled.append(there)
        figure.add_scatter(
            x=rows["throughput"],
            y=rows["profit"],
            mode="lines+markers+text" if many else "markers",
            name=theme.policy_label(policy),
            line=theme.policy_line(policy),
            marker={"size": 9 if many else 13, "symbol": "circle" if many else "diamond"},
            text=texts if many else None,
            textposition="top center",
            textfont={"size": 10},
            customdata=[f"α = {alpha:.0f}, " if many else "" for alpha in rows["alpha"]],
            hovertemplate="%{customdata}throughput %{x:.2f}, profit %{y:.2f}<extra>"
            + theme.policy_label(policy)
            + "</extra>",
        )
    return figure


def profit_over_step_cost(
    runs: Mapping[str, BatchRun],
    baseline: BatchRun,
    footprint_cost: float,
    step_costs: ArrayLike,
    marked: float | None = None,
) -> Figure:
    """Profit difference to a baseline as the cost of a step grows (Figure 6).

    Parameters
    ----------
    runs : mapping of str to BatchRun
    baseline : BatchRun
    footprint_cost : float
    step_costs : array_like of float
        Where to draw.
    marked : float, optional
        A step cost to mark, as the paper marks 0.0005.
    """
    from plotly.colors import sample_colorscale

    figure = theme.new_figure(
        title=f"Profit against {theme.policy_label(baseline.policy.name)} as a step costs more",
        x_title="cost of a step c (money)",
        y_title="profit difference (money)",
    )
    costs = np.asarray(step_costs, dtype=np.float64)
    colours = sample_colorscale("Viridis", list(np.linspace(0, 0.85, max(len(runs), 2))))
    for k, (label, run) in enumerate(runs.items()):
        saved = baseline.makespan_steps - run.makespan_steps
        difference = costs * saved - footprint_cost * (run.externality - baseline.externality)
        figure.add_scatter(
            x=costs,
            y=difference,
            name=theme.run_label(label),
            mode="lines",
            line={
                "color": colours[k],
                "dash": ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")[k % 6],
                "width": 2,
            },
        )
    figure.add_hline(y=0, line={"color": "#111111", "width": 1})
    if marked is not None:
        figure.add_vline(
            x=marked,
            line={"color": LIMIT_COLOUR, "dash": "dash"},
            annotation={
                "text": f"c = {marked:g}",
                "xshift": 4,
            },
        )
    return figure


def alpha_sweep(
    frame: pd.DataFrame,
    column: str,
    *,
    y_title: str,
    title: str,
    references: Mapping[str, float] | None = None,
) -> Figure:
    """One measure over alpha, one line a policy, with policies that take no alpha as level lines.

    Parameters
    ----------
    frame : DataFrame
        Columns policy (name), alpha, and `column`; averaged over what else there is.
    column : str
    y_title, title : str
    references : mapping of str to float, optional
        Policy name -> level.
    """
    if column not in frame:
        raise ParameterError("column", column, f"not in the frame; it has {', '.join(map(str, frame))}")
    figure = theme.new_figure(title=title, x_title="α (tokens)", y_title=y_title)
    for name, rows in frame.groupby("policy", sort=False):
        means = rows.groupby("alpha")[column].mean()
        figure.add_scatter(
            x=means.index,
            y=means,
            mode="lines+markers",
            name=theme.policy_label(str(name)),
            line=theme.policy_line(str(name)),
        )
    alphas = [frame["alpha"].min(), frame["alpha"].max()]
    for name, level in (references or {}).items():
        figure.add_scatter(
            x=alphas,
            y=[level, level],
            mode="lines",
            name=theme.policy_label(name),
            line=theme.policy_line(name, width=1.8),
        )
    return figure


def gain_chart(frame: pd.DataFrame, published: Mapping[int, float] | None = None) -> Figure:
    """Throughput gain over LJF by alpha: policies, the most any fair schedule can gain, the printed values.

    Parameters
    ----------
    frame : DataFrame
        Columns policy, alpha, gain (share); the policy `bound` is the lower bound's gain.
    published : mapping of int to float, optional
        alpha -> printed gain (share).
    """
    figure = theme.new_figure(
        title="Throughput gain over LJF", x_title="α (tokens)", y_title="gain (%)", hovermode="x unified"
    )
    for name, rows in frame.groupby("policy", sort=False):
        means = rows.groupby("alpha")["gain"].mean()
        bound = name == "bound"
        figure.add_scatter(
            x=means.index,
            y=100 * means,
            mode="lines" if bound else "lines+markers",
            name="no fair schedule can exceed" if bound else theme.policy_label(str(name)),
            line={"color": "#9ca3af", "width": 2} if bound else theme.policy_line(str(name)),
            fill="tozeroy" if bound else None,
            fillcolor="rgba(156,163,175,0.15)" if bound else None,
        )
    if published:
        figure.add_scatter(
            x=list(published),
            y=[100 * value for value in published.values()],
            mode="markers",
            name="ISJL as published",
            marker={"symbol": "x", "size": 11, "color": LIMIT_COLOUR},
        )
    figure.add_hline(y=0, line={"color": "#111111", "width": 1})
    return figure


def length_histogram(lengths: ArrayLike, *, bins: int = 40, title: str = "Lengths of the workload") -> Figure:
    """Histogram of lengths with mean and median marked (Figure 7)."""
    own = np.asarray(lengths)
    counts, edges = np.histogram(own, bins=bins)
    figure = theme.new_figure(title=title, x_title="length (tokens)", y_title="requests", bargap=0.02)
    figure.add_bar(x=(edges[:-1] + edges[1:]) / 2, y=counts, marker_color="#61b6e9", showlegend=False)
    mean, median = float(own.mean()), float(np.median(own))
    # each label on the side away from the other line
    for value, text, side in (
        (mean, "mean", "left" if mean >= median else "right"),
        (median, "median", "right" if mean >= median else "left"),
    ):
        figure.add_vline(x=value, line={"color": "#1f2937", "dash": "dash"})
        figure.add_annotation(
            x=value, y=1.0, yref="paper", yanchor="bottom", xanchor=side, showarrow=False,
            text=f"{text} {value:.0f}",
        )  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    return figure


def calibration_chart(advice: AlphaAdvice) -> Figure:
    """Schedule-dependent cost over alpha, what meets the targets, and the choice."""
    table = advice.table
    figure = theme.new_figure(
        title=f"Calibrating α for {theme.policy_label(advice.policy)} (pale: a target is missed)",
        x_title="α (tokens)",
        y_title="cost that depends on the schedule (money)",
        barmode="stack",
    )
    for column, label in (("time_cost", "time cT"), ("externality_cost", "externality τE")):
        figure.add_bar(
            x=[f"{alpha:,}" for alpha in table["alpha"]],
            y=table[column],
            name=label,
            marker={
                "color": theme.COST_COLOURS[column.removesuffix("_cost")],
                "opacity": [1.0 if good else 0.35 for good in table["meets_targets"]],
            },
        )
    if advice.alpha is not None:
        at = int(np.flatnonzero(table["alpha"].to_numpy() == advice.alpha)[0])
        figure.add_annotation(  # on a category axis a number means the position
            x=at, y=table["schedule_cost"].iloc[at], text=f"α = {advice.alpha}", showarrow=True
        )
    figure.update_xaxes(type="category")
    figure.update_yaxes(rangemode="tozero")
    return figure
