"""Figures that follow a setting: the same traces whatever the setting is, so that a panel can move them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.figures import theme
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.simulation.replicates import Percentiles, mean_interval

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["tau_effect"]


def tau_effect(fcfs: Percentiles, guarded: Percentiles, unguarded: Percentiles) -> Figure:
    """What τ does to short and to long requests: percentiles between FCFS and the policy without a limit.

    Parameters
    ----------
    fcfs, guarded, unguarded : Percentiles
        FCFS, the policy with its starvation timeout, and the same policy without one, on the same traces.

    Returns
    -------
    Figure
        Two panels, short and long requests; bars are means over replicates, whiskers 95 % intervals.
    """
    from plotly.subplots import make_subplots

    name = theme.policy_label(guarded.policy.name)
    colour = theme.policy_colour(guarded.policy.name)
    rows = (
        (fcfs, "FCFS", {"color": theme.policy_colour("fcfs")}),
        (guarded, f"{name} with τ", {"color": colour}),
        (
            unguarded,
            f"{name}, no limit",
            {"color": "white", "line": {"color": colour, "width": 1.5}, "pattern": _hatch(colour)},
        ),
    )
    titles = [f"{c.label} requests" for c in (LengthClass.SHORT, LengthClass.LONG)]
    figure = make_subplots(rows=1, cols=2, subplot_titles=titles, horizontal_spacing=0.11)
    traces, columns = [], []
    for column, length_class in enumerate((LengthClass.SHORT, LengthClass.LONG), start=1):
        for result, label, marker in rows:
            intervals = [mean_interval(result.of(length_class, q)) for q in result.q]
            traces.append(
                {
                    "type": "bar",
                    "x": [f"P{q:g}" for q in result.q],
                    "y": [mean for mean, _, _ in intervals],
                    "error_y": {
                        "type": "data",
                        "array": [high - mean for mean, _, high in intervals],
                        "thickness": 1.2,
                        "color": "#1f2937",
                    },
                    "name": label,
                    "marker": marker,
                    "legendgroup": label,
                    "showlegend": column == 1,
                    "hovertemplate": f"{label}<br>%{{x}}: %{{y:.1f}} s<extra></extra>",
                }
            )
            columns.append(column)
    figure.add_traces(traces, rows=[1] * len(traces), cols=columns)
    figure.update_layout(
        template=theme.template(),
        barmode="group",
        height=400,
        title_text="Time from arrival to last token",
        legend={"orientation": "h", "y": -0.12},
        margin={"t": 84, "b": 40},
    )
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title_text="time in system (s)", col=1)
    return figure


def _hatch(colour: str) -> dict[str, object]:
    return {"shape": "/", "fgcolor": colour, "bgcolor": "white", "size": 6, "solidity": 0.25}
