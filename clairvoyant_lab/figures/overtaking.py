"""A measured burst: who waited, who ran, in what order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clairvoyant_lab.bench.report import BenchReport
from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.figures import theme
from clairvoyant_lab.lengths import LengthClass

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["burst_timeline"]


def burst_timeline(report: BenchReport, run: int = 0, title: str | None = None) -> Figure:
    """Every request of one run, one panel a policy: a thin line while it waits, a bar while it is served.

    Parameters
    ----------
    report : BenchReport
        Of `bench.overtaking.bench_overtaking`, say.
    run : int
        Which repetition.
    title : str, optional

    Returns
    -------
    Figure
        Requests from top to bottom in the order in which they were served; time from the burst's arrival.
    """
    from plotly.subplots import make_subplots

    samples = {s.policy: s for s in report.samples if s.run == run}
    if not samples:
        raise ParameterError("run", run, f"the report has runs 0 to {max(s.run for s in report.samples)}")
    names = list(samples)
    figure = make_subplots(
        rows=1,
        cols=len(names),
        shared_yaxes=True,
        horizontal_spacing=0.03,
        subplot_titles=[theme.policy_label(name) for name in names],
    )
    shown: set[str] = set()
    for column, name in enumerate(names, start=1):
        sample = samples[name]
        order = np.argsort(sample.wait_s, kind="stable")
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(1, order.size + 1)
        waits_x: list[float | None] = []
        waits_y: list[float | None] = []
        for wait, at in zip(sample.wait_s, place, strict=True):
            waits_x += [0.0, float(wait), None]
            waits_y += [float(at), float(at), None]
        figure.add_scatter(
            x=waits_x,
            y=waits_y,
            mode="lines",
            line={"color": "#9ca3af", "width": 1},
            name="waits",
            legendgroup="waits",
            showlegend=column == 1,
            hoverinfo="skip",
            row=1,
            col=column,
        )
        classes = np.zeros(order.size, dtype=np.int8) if sample.length_class is None else sample.length_class
        for length_class in LengthClass:
            mask = classes == length_class
            if not mask.any():
                continue
            label = length_class.label
            figure.add_bar(
                x=sample.sojourn_s[mask] - sample.wait_s[mask],
                y=place[mask],
                base=sample.wait_s[mask],
                orientation="h",
                width=0.72,
                marker={"color": theme.class_colour(label), "line": {"width": 0}},
                name=label,
                legendgroup=label,
                showlegend=label not in shown,
                customdata=np.stack([sample.wait_s[mask], sample.sojourn_s[mask]], axis=1),
                hovertemplate=f"{label}: waits %{{customdata[0]:.1f}} s, done at %{{customdata[1]:.1f}} s"
                "<extra></extra>",
                row=1,
                col=column,
            )
            shown.add(label)
        figure.update_xaxes(title_text="time since arrival (s)", rangemode="tozero", row=1, col=column)
    figure.update_xaxes(matches="x")
    figure.update_yaxes(autorange="reversed", dtick=max(1, len(samples[names[0]].wait_s) // 12))
    figure.update_yaxes(title_text="place in the order of service", row=1, col=1)
    where = {"emulate": "emulated backend", "live": "real backend"}.get(report.mode, report.mode)
    figure.update_layout(
        template=theme.template(),
        barmode="overlay",
        height=400,
        title_text=title or f"One burst, one server: who is served when ({where})",
        legend={"orientation": "h", "y": -0.2},
        margin={"t": 90},
    )
    return figure
