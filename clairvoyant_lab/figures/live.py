"""A running proxy: the line over time, waits by class, throughput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clairvoyant_lab.figures import theme
from clairvoyant_lab.lengths import LengthClass

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["proxy_view"]


def proxy_view(samples: Sequence[Mapping[str, Any]], changes: Sequence[tuple[float, str]] = ()) -> Figure:
    """Draw what was seen of a proxy.

    Parameters
    ----------
    samples : sequence of mapping
        In order of time: `t_s` (seconds since the first look), `waiting`, `running`, `requests_per_s`, and
        `by_class` as in `ProxyState`.
    changes : sequence of (seconds, text)
        Changes of the policy, drawn as lines.

    Returns
    -------
    Figure
        The same five traces whatever was seen.
    """
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=2,
        cols=2,
        specs=[[{"colspan": 2}, None], [{}, {}]],
        subplot_titles=["Requests in the line", "Wait by class: median, hatched P95", "Throughput"],
        vertical_spacing=0.24,
        horizontal_spacing=0.13,
        row_heights=[0.52, 0.48],
    )
    times = [sample["t_s"] for sample in samples]
    for name, colour, fill in (
        ("waiting", theme.policy_colour("sjf"), "tozeroy"),
        ("running", theme.policy_colour("fcfs"), None),
    ):
        figure.add_scatter(
            x=times,
            y=[sample[name] for sample in samples],
            name=name,
            mode="lines",
            fill=fill,
            line={"color": colour, "width": 2, "shape": "hv"},
            row=1,
            col=1,
        )
    by_class = samples[-1]["by_class"] if samples else {}
    labels = [c.label for c in LengthClass]
    for name, key, pattern in (("median", "wait_p50_s", ""), ("P95", "wait_p95_s", "/")):
        figure.add_bar(
            x=labels,
            y=[by_class.get(label, {}).get(key) or 0.0 for label in labels],
            name=name,
            marker={"color": [theme.class_colour(label) for label in labels], "pattern": {"shape": pattern}},
            showlegend=False,
            hovertemplate=f"%{{x}}: {name} %{{y:.2f}} s<extra></extra>",
            row=2,
            col=1,
        )
    figure.add_scatter(
        x=times,
        y=[sample["requests_per_s"] for sample in samples],
        name="requests a second",
        mode="lines",
        line={"color": theme.policy_colour("cohort"), "width": 2},
        showlegend=False,
        row=2,
        col=2,
    )
    for at, text in changes:
        figure.add_vline(
            x=at,
            line={"color": "#7b1e3a", "width": 1, "dash": "dot"},
            annotation={"text": text, "textangle": -90, "font": {"size": 11, "color": "#7b1e3a"}},
            row=1,
            col=1,
        )
    figure.update_layout(
        template=theme.template(),
        height=520,
        margin={"t": 44, "b": 50},
        barmode="group",
        legend={"orientation": "h", "x": 0.0, "y": 1.03, "yanchor": "bottom"},
    )
    figure.update_xaxes(title_text="time (s)", row=1, col=1)
    figure.update_xaxes(title_text="time (s)", row=2, col=2)
    figure.update_yaxes(title_text="requests", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="wait (s)", rangemode="tozero", row=2, col=1)
    figure.update_yaxes(title_text="requests a second", rangemode="tozero", row=2, col=2)
    return figure
