"""Figures that follow a setting: the same traces whatever the setting is, so that a panel can move them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from clairvoyant_lab.figures import theme
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.simulation.replicates import Percentiles

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from clairvoyant_lab.simulation.batch import BatchRun

__all__ = ["policy_plane", "tau_effect"]


def tau_effect(fcfs: Percentiles, guarded: Percentiles, unguarded: Percentiles) -> Figure:
    """What τ does to short and to long requests: percentiles between FCFS and the policy without a limit.

    Parameters
    ----------
    fcfs, guarded, unguarded : Percentiles
        FCFS, the policy with its starvation timeout, and the same policy without one, on the same traces.

    Returns
    -------
    Figure
        One row a class and percentile, one mark a policy on a logarithmic time axis: the mean over
        replicates; whiskers from the smallest to the largest replicate.
    """
    name = theme.policy_label(guarded.policy.name)
    colour = theme.policy_colour(guarded.policy.name)
    marks = (
        (fcfs, "FCFS", 0.22, {"symbol": "square", "color": theme.policy_colour("fcfs"), "size": 9}),
        (guarded, f"{name} with τ", 0.0, {"symbol": "diamond", "color": colour, "size": 13}),
        (
            unguarded,
            f"{name}, no limit",
            -0.22,
            {"symbol": "circle", "color": "white", "size": 9, "line": {"color": colour, "width": 2}},
        ),
    )
    rows = [(c, q) for c in (LengthClass.SHORT, LengthClass.LONG) for q in guarded.q]
    figure = theme.new_figure(
        title="Time from arrival to last token",
        x_title="time in system (s)",
        # fixed, so that a panel's ticks don't change while it is dragged
        xaxis={"type": "log", **theme.log_ticks(1e-2, 1e5)},
        height=400,
    )
    traces = []
    for result, label, offset, marker in marks:
        values = [result.of(c, q) for c, q in rows]
        means = [float(own.mean()) for own in values]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": means,
                "y": [len(rows) - 1 - index + offset for index in range(len(rows))],
                "error_x": {
                    "type": "data",
                    "array": [float(own.max()) - mean for own, mean in zip(values, means, strict=True)],
                    "arrayminus": [mean - float(own.min()) for own, mean in zip(values, means, strict=True)],
                    "thickness": 1.2,
                    "width": 3,
                    "color": marker["line"]["color"] if "line" in marker else marker["color"],  # type: ignore[index]
                },
                "name": label,
                "marker": marker,
                "text": [f"{c.label} P{q:g}" for c, q in rows],
                "hovertemplate": f"{label}<br>%{{text}}: %{{x:.1f}} s<extra></extra>",
            }
        )
    figure.add_traces(traces)
    figure.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0.0})
    figure.update_layout(margin={"t": 84}, title={"y": 0.97, "yanchor": "top"})
    figure.update_yaxes(
        tickvals=[len(rows) - 1 - index for index in range(len(rows))],
        ticktext=[f"{c.label} P{q:g}" for c, q in rows],
        range=[-0.6, len(rows) - 0.4],
        showgrid=False,
    )
    figure.add_hline(y=len(rows) / 2 - 0.5, line={"color": "#9ca3af", "width": 1})
    return figure


def policy_plane(runs: Mapping[str, BatchRun]) -> Figure:
    """Throughput against mean completion, one mark a policy: up and to the left is better (section 6).

    Parameters
    ----------
    runs : mapping of str to BatchRun
        Label -> run on the same lengths and slots.
    """
    symbols = ("square", "circle", "diamond", "triangle-up", "star", "cross", "triangle-down", "x")
    figure = theme.new_figure(
        title="Throughput and latency of each policy",
        x_title="mean completion (steps)",
        y_title="throughput (tokens a step)",
        height=400,
    )
    for index, (label, run) in enumerate(runs.items()):
        figure.add_scatter(
            x=[run.mean_completion_steps],
            y=[run.throughput],
            mode="markers",
            name=label,
            marker={
                "size": 14,
                "symbol": symbols[index % len(symbols)],
                "color": theme.policy_colour(run.policy.name),
                "line": {"width": 1, "color": "white"},
            },
            hovertemplate=f"{label}<br>%{{y:.2f}} tokens a step<br>%{{x:,.0f}} steps<extra></extra>",
        )
    return figure
