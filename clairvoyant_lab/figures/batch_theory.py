"""Figures of the batch theory: claimed ratios, distance to the optimum, pooling, latencies in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from clairvoyant_lab.figures import theme

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from clairvoyant_lab.scheduling.theory.instances import KvMemory
    from clairvoyant_lab.simulation.batch_time import TimedRun

__all__ = ["kv_chart", "latency_curve", "matching_chart", "optimum_chart", "ratio_curve"]


def ratio_curve(points: pd.DataFrame | None = None) -> Figure:
    """CR(γ) of section 4 as lines, and measured worst ratios as points (Figure 4, and what refutes it).

    Parameters
    ----------
    points : DataFrame, optional
        Columns gamma, ratio (optimum over ISJL), batch_size, instance (text).
    """
    from clairvoyant_lab.scheduling.theory.ratios import cr_envelope, cr_under

    gamma = np.linspace(0.002, 0.998, 499)
    figure = theme.new_figure(
        title="Competitive ratio of ISJL: claimed curve and measured instances",
        x_title="γ = α / longest length (no unit)",
        y_title="optimal makespan / ISJL's (no unit)",
    )
    figure.add_scatter(
        x=gamma, y=cr_envelope(gamma), name="CR(γ), Theorem 4.3", mode="lines", line=theme.policy_line("isjl")
    )
    figure.add_scatter(
        x=gamma,
        y=cr_under(gamma),
        name="under-inserting, Lemma 4.2",
        mode="lines",
        line={"color": theme.policy_colour("fcfs"), "dash": "dot", "width": 2},
    )
    figure.add_hline(y=0.75, line={"color": "#9ca3af", "dash": "dash"}, annotation={"text": "3/4"})
    if points is not None:
        symbols = {2: "circle", 3: "square", 4: "diamond"}
        colours = {2: "#0072b2", 3: "#d55e00", 4: "#327b05"}
        for size, rows in points.groupby("batch_size"):
            key = int(str(size))
            figure.add_scatter(
                x=rows["gamma"],
                y=rows["ratio"],
                mode="markers",
                name=f"worst found, B = {key}",
                marker={"symbol": symbols.get(key, "x"), "size": 9, "color": colours.get(key, "#111111")},
                text=rows["instance"],
                hovertemplate="%{text}<br>γ %{x:.3f}, ratio %{y:.3f}<extra></extra>",
            )
    figure.update_yaxes(range=[0.45, 1.02])
    return figure


def optimum_chart(frame: pd.DataFrame) -> Figure:
    """Share of instances within a distance of the optimum, one line a policy.

    Parameters
    ----------
    frame : DataFrame
        From `theory.optimum_ratios`.
    """
    figure = theme.new_figure(
        title="How close to the exact optimum",
        x_title="makespan over the optimum, at most (%)",
        y_title="share of instances (%)",
    )
    for name, rows in frame.groupby("policy", sort=False):
        ratio = np.sort(rows["ratio"].to_numpy())
        share = 100 * np.arange(1, ratio.size + 1) / ratio.size
        figure.add_scatter(
            x=100 * (ratio - 1),
            y=share,
            mode="lines",
            name=theme.policy_label(str(name)),
            line={**theme.policy_line(str(name)), "shape": "hv"},
        )
    # a policy that is always optimal stands on the axis: leave room, so that it is seen
    farthest = 100 * float(frame["ratio"].max() - 1)
    figure.update_yaxes(range=[0, 103])
    figure.update_xaxes(range=[-0.02 * max(farthest, 1.0), 1.03 * max(farthest, 1.0)])
    return figure


def matching_chart(frame: pd.DataFrame) -> Figure:
    """Share of waiting jobs outside full batches of like length, measured and bounded (section 7).

    Parameters
    ----------
    frame : DataFrame
        Columns pending, unmatched (share), bound (share).
    """
    figure = theme.new_figure(
        title="The larger the pool, the fewer jobs are left over",
        x_title="waiting jobs N",
        y_title="jobs outside full batches (%)",
        xaxis={"type": "log", **theme.log_ticks(frame["pending"].min(), frame["pending"].max())},
    )
    figure.add_scatter(
        x=frame["pending"],
        y=100 * frame["bound"],
        name="bound K(B-1)/N",
        mode="lines",
        line={"color": "#9ca3af", "width": 2},
    )
    figure.add_scatter(
        x=frame["pending"],
        y=100 * frame["unmatched"],
        name="measured",
        mode="lines+markers",
        line=theme.policy_line("cohort"),
    )
    figure.update_yaxes(rangemode="tozero")
    return figure


def latency_curve(runs: Mapping[str, TimedRun]) -> Figure:
    """Share of requests finished within a latency in seconds, one line a run.

    Parameters
    ----------
    runs : mapping of str to TimedRun
    """
    figure = theme.new_figure(
        title="End-to-end latency", x_title="latency (s)", y_title="share of requests (%)"
    )
    for label, timed in runs.items():
        quantiles = np.linspace(0, 1, 201)
        figure.add_scatter(
            x=np.quantile(timed.latency_s, quantiles),
            y=100 * quantiles,
            mode="lines",
            name=theme.run_label(label),
            line=theme.policy_line(timed.run.policy.name),
        )
    figure.update_yaxes(range=[0, 101])
    figure.update_xaxes(rangemode="tozero")
    return figure


def kv_chart(models: Mapping[str, KvMemory], slots: Sequence[int], context_tokens: int) -> Figure:
    """Memory over slots, one line a model, each slot with its own cache (Clairvoyant, section 2.3).

    Parameters
    ----------
    models : mapping of str to KvMemory
    slots : sequence of int
    context_tokens : int
    """
    figure = theme.new_figure(
        title=f"Memory with one cache of {context_tokens:,} tokens a slot",
        x_title="slots",
        y_title="memory (GB)",
    )
    for k, (label, model) in enumerate(models.items()):
        figure.add_scatter(
            x=list(slots),
            y=[model.needed_bytes(count, context_tokens) / 1e9 for count in slots],
            mode="lines+markers",
            name=label,
            line={"dash": ("solid", "dash", "dot")[k % 3]},
        )
    figure.add_hline(y=8, line={"color": "#b91c1c", "dash": "dash"}, annotation={"text": "8 GB"})
    figure.update_yaxes(rangemode="tozero")
    return figure
