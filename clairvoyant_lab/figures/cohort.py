"""Figures of the policy `cohort`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.figures import theme

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from clairvoyant_lab.scheduling.cohort_frontier import CohortFrontier

__all__ = ["frontier_chart"]

BOUND_COLOUR = "#6b7280"


def frontier_chart(frontier: CohortFrontier, *, title: str | None = None) -> Figure:
    """Makespan over mean externality: cohort's frontier, the simple rules, and the bound as a line.

    Parameters
    ----------
    frontier : CohortFrontier
    title : str, optional
    """
    figure = theme.new_figure(
        title=title
        or f"What a step costs in externality, alpha = {frontier.alpha:,}, B = {frontier.batch_size}",
        x_title="externality per token, E / O (tokens)",
        y_title="makespan (steps)",
    )
    colour = theme.policy_colour("cohort")
    figure.add_scatter(
        x=frontier.externality / frontier.tokens,
        y=frontier.makespan_steps,
        mode="lines+markers",
        name=theme.policy_label("cohort"),
        line={"color": colour, "shape": "vh"},
        marker={"color": colour, "size": 8},
        customdata=list(frontier.method),
        hovertemplate="%{y:,} steps, E / O = %{x:.1f} tokens<br>by %{customdata}<extra></extra>",
    )
    symbols = {"ljf": "square", "slack": "diamond", "isjl": "x"}
    for name, (makespan, externality) in frontier.simple.items():
        figure.add_scatter(
            x=[externality / frontier.tokens],
            y=[makespan],
            mode="markers",
            name=theme.policy_label(name),
            marker={"color": theme.policy_colour(name), "size": 12, "symbol": symbols[name]},
            hovertemplate="%{y:,} steps, E / O = %{x:.1f} tokens<extra></extra>",
        )
    figure.add_hline(
        y=frontier.lower_bound_steps,
        line={"color": BOUND_COLOUR, "dash": "dot"},
        annotation_text="no fair schedule is shorter",
        annotation_position="bottom right",
    )
    figure.update_xaxes(rangemode="tozero")
    return figure
