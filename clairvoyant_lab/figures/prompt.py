"""One prompt: how long its answer will likely be, and where that puts it among others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from clairvoyant_lab.figures import theme
from clairvoyant_lab.lengths import LengthClass

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from clairvoyant_lab.predictor.runtime import Prediction

__all__ = ["prompt_rank"]

_SHOWN = 400


def prompt_rank(prediction: Prediction, others_p_long: ArrayLike, others: str = "ShareGPT prompts") -> Figure:
    """Class probabilities of one prompt, and its P(Long) among those of other prompts.

    Parameters
    ----------
    prediction : Prediction
        From `LengthPredictor.predict`.
    others_p_long : array_like of float, shape (n,)
        P(Long) of the prompts to rank it among, by the same model.
    others : str
        What they are, for the axis.
    """
    from plotly.subplots import make_subplots

    ranked = np.sort(np.asarray(others_p_long, dtype=np.float64))
    ahead = float(np.searchsorted(ranked, prediction.p_long, side="right")) / ranked.size
    cuts = np.linspace(0.0, 1.0, _SHOWN)
    figure = make_subplots(
        rows=1,
        cols=2,
        column_widths=[0.36, 0.64],
        horizontal_spacing=0.13,
        subplot_titles=["Class of the answer", "Place in the queue under SJF"],
    )
    figure.add_bar(
        x=[c.label for c in LengthClass],
        y=[float(p) for p in prediction.probabilities],
        marker_color=[theme.class_colour(c) for c in LengthClass],
        text=[f"{p:.0%}" for p in prediction.probabilities],
        textposition="outside",
        cliponaxis=False,
        showlegend=False,
        hovertemplate="%{x}: %{y:.3f}<extra></extra>",
        row=1,
        col=1,
    )
    figure.add_scatter(
        x=np.quantile(ranked, cuts),
        y=100.0 * cuts,
        mode="lines",
        line={"color": theme.policy_colour("fcfs"), "width": 2},
        name=others,
        hovertemplate="P(Long) %{x:.3f}<br>%{y:.0f} % go first<extra></extra>",
        row=1,
        col=2,
    )
    figure.add_scatter(
        x=[prediction.p_long],
        y=[100.0 * ahead],
        mode="markers",
        marker={"size": 15, "color": theme.policy_colour("sjf"), "line": {"width": 2, "color": "white"}},
        name="this prompt",
        hovertemplate="P(Long) %{x:.3f}: %{y:.0f} % go first<extra></extra>",
        row=1,
        col=2,
    )
    figure.update_layout(
        template=theme.template(),
        height=340,
        margin={"t": 48, "b": 56},
        legend={"x": 0.98, "xanchor": "right", "y": 0.06, "yanchor": "bottom"},
    )
    figure.update_yaxes(title_text="probability", range=[0, 1.12], tickvals=[0, 0.5, 1], row=1, col=1)
    figure.update_yaxes(title_text=f"{others} that go first (%)", range=[0, 102], row=1, col=2)
    figure.update_xaxes(title_text="P(Long): the key, lower goes first", rangemode="tozero", row=1, col=2)
    return figure
