"""Figures of corpora: how long answers are, which classes are there, and what characters/4 is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from clairvoyant_lab.corpora.fidelity import Fidelity
from clairvoyant_lab.corpora.starvation import VERDICTS, Starvation
from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.figures import theme
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.results import counted

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["class_shares", "fidelity_scatter", "length_histogram", "long_rows", "tokenizer_classes"]

_BINS_PER_DOUBLING = 3
_MOST_POINTS = 3_000


def length_histogram(report: Starvation, title: str | None = None) -> Figure:
    """How long the answers are, on a logarithmic axis, coloured by class (section 4.2).

    Parameters
    ----------
    report : Starvation
        From `starvation_report`.
    title : str, optional

    Returns
    -------
    Figure
        Bars are rows a bin of equal ratio; dotted lines mark the class bounds.
    """
    figure = theme.new_figure(
        title=title
        or f"Answer lengths: {report.name} ({counted(report.n, 'row')}, tokens by {report.tokenizer})",
        x_title="answer length (tokens)",
        y_title="rows",
        barmode="stack",
        bargap=0.02,
        legend={"title": {"text": "class"}, "traceorder": "normal"},
    )
    tokens = np.maximum(report.response_tokens, 1)
    last = np.log2(max(int(tokens.max()), report.bounds[1])) + 0.5
    # the bounds are edges, so that no bar holds two classes
    edges = np.unique(
        np.concatenate([2.0 ** np.arange(0.0, last, 1 / _BINS_PER_DOUBLING), np.array(report.bounds, float)])
    )
    short_below, long_from = report.bounds
    limits = {
        LengthClass.SHORT: (0, short_below),
        LengthClass.MEDIUM: (short_below, long_from),
        LengthClass.LONG: (long_from, np.inf),
    }
    centres = np.sqrt(edges[:-1] * edges[1:])
    for one, (low, high) in limits.items():
        inside = tokens[(tokens >= low) & (tokens < high)]
        rows, _ = np.histogram(inside, edges)
        shown = (edges[:-1] >= low) & (edges[:-1] < high)
        figure.add_bar(
            x=centres[shown],
            y=rows[shown],
            width=np.diff(edges)[shown],
            name=f"{one.label} ({report.counts[one]:,})",
            marker_color=theme.class_colour(one),
            customdata=np.stack([edges[:-1][shown], edges[1:][shown]], axis=1),
            hovertemplate="%{customdata[0]:.0f} to %{customdata[1]:.0f} tokens: %{y:,} rows<extra></extra>",
        )
    for bound in report.bounds:
        figure.add_vline(x=bound, line={"color": "#6b7280", "dash": "dot", "width": 1})
    ticks = [1, 3, 10, 30, 100, *report.bounds, 2_000, 5_000, 20_000]
    figure.update_xaxes(
        type="log",
        tickvals=sorted(set(ticks)),
        ticktext=[f"{tick:,}" for tick in sorted(set(ticks))],
        range=[0, float(np.log10(edges[-1]))],
    )
    figure.update_yaxes(rangemode="tozero", tickformat=",")
    return figure


def class_shares(
    reports: Sequence[Starvation] | Mapping[str, Starvation], title: str | None = None
) -> Figure:
    """Shares of the classes, one row of bars a corpus (Table 3).

    Parameters
    ----------
    reports : sequence or mapping of Starvation
        A mapping names the rows; else the corpora do.
    title : str, optional

    Returns
    -------
    Figure
        Stacked to 100 %; the Long share with its 95 % interval stands beside each row.
    """
    named = _named(reports)
    labels = list(named)
    figure = theme.new_figure(
        title=title or "Length classes by corpus",
        x_title="share of rows (%)",
        barmode="stack",
        height=150 + 42 * len(labels),
        legend={
            "orientation": "h",
            "y": 1.0,
            "yanchor": "bottom",
            "x": 1.0,
            "xanchor": "right",
            "traceorder": "normal",
        },
        margin={"r": 190, "t": 70, "l": 70, "b": 60},
    )
    for one in LengthClass:
        shares = [100 * named[label].shares[one] for label in labels]
        figure.add_bar(
            y=labels,
            x=shares,
            orientation="h",
            name=one.label,
            marker_color=theme.class_colour(one),
            customdata=[int(named[label].counts[one]) for label in labels],
            hovertemplate="%{y}: %{x:.2f} % (%{customdata:,} rows)<extra>" + one.label + "</extra>",
        )
    for label in labels:
        report = named[label]
        low, high = 100 * report.low[LengthClass.LONG], 100 * report.high[LengthClass.LONG]
        figure.add_annotation(
            x=1.01,
            xref="paper",
            xanchor="left",
            y=label,
            text=f"Long {100 * report.shares[LengthClass.LONG]:.1f} % [{low:.1f}, {high:.1f}]",
            showarrow=False,
            font={"size": 12},
        )
    figure.update_xaxes(range=[0, 100])
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure


def long_rows(reports: Sequence[Starvation] | Mapping[str, Starvation], title: str | None = None) -> Figure:
    """Rows of the rarest class against what each verdict needs, on a logarithmic axis.

    Parameters
    ----------
    reports : sequence or mapping of Starvation
        A mapping names the points; else the corpora do.
    title : str, optional
    """
    named = _named(reports)
    figure = theme.new_figure(
        title=title or "Is there enough of the rarest class?",
        x_title="rows of the rarest class (0 is drawn at 0.5)",
        height=150 + 34 * len(named),
        showlegend=False,
    )
    rows = [int(report.counts.min()) for report in named.values()]
    figure.add_scatter(
        x=[max(count, 0.5) for count in rows],
        y=list(named),
        mode="markers+text",
        text=[f"{count:,}" for count in rows],
        # beside the point, on the side where no line crosses it
        textposition=[
            "middle left"
            if any(count < least < 1.7 * count for least, _ in VERDICTS.values())
            else "middle right"
            for count in rows
        ],
        marker={"size": 12, "color": [theme.class_colour(report.rarest) for report in named.values()]},
        customdata=[[report.verdict, report.rarest.label] for report in named.values()],
        hovertemplate="%{y}: %{text} %{customdata[1]} rows, %{customdata[0]}<extra></extra>",
    )
    for name, (least, _) in VERDICTS.items():
        if least:
            figure.add_vline(x=least, line={"color": "#6b7280", "dash": "dot", "width": 1})
            figure.add_annotation(
                x=np.log10(least), y=1.0, yref="paper", yanchor="bottom", text=name, showarrow=False,
                font={"size": 11},
            )  # fmt: skip
    top = float(np.log10(max(*rows, 2_000))) + 0.6
    figure.update_xaxes(type="log", range=[-0.45, top], dtick=1, tickformat=",")
    figure.update_yaxes(autorange="reversed")
    return figure


def tokenizer_classes(report: Starvation, title: str | None = None) -> Figure:
    """The same answers counted by several tokenizers: the one that labels decides the Long class.

    Parameters
    ----------
    report : Starvation
        With `by_tokenizer`, as `starvation_report("sharegpt")` gives it.
    title : str, optional

    Raises
    ------
    ParameterError
        When the report knows one tokenizer only.
    """
    if not report.by_tokenizer:
        raise ParameterError("report", report.name, "only one tokenizer is known; load a corpus by name")
    frame = report.to_frame()
    figure = theme.new_figure(
        title=title or f"Classes by tokenizer: {report.name}",
        x_title="tokenizer",
        y_title="rows",
        barmode="group",
        legend_title_text="class",
    )
    for one in LengthClass:
        rows = frame[frame["length_class"] == one.label]
        figure.add_bar(
            x=rows["tokenizer"],
            y=rows["rows"],
            name=one.label,
            marker_color=theme.class_colour(one),
            text=[f"{count:,}" for count in rows["rows"]],
            textposition="outside",
            cliponaxis=False,
        )
    figure.update_yaxes(rangemode="tozero", tickformat=",")
    return figure


def fidelity_scatter(fidelity: Fidelity, title: str | None = None, seed: int = 0) -> Figure:
    """Characters/4 against a tokenizer's counts (section 3.2).

    Parameters
    ----------
    fidelity : Fidelity
        From `approximation_fidelity`.
    title : str, optional
    seed : int
        Draws the points shown when there are more than 3,000.
    """
    n = fidelity.exact.size
    shown = np.arange(n)
    if n > _MOST_POINTS:
        shown = np.random.default_rng(seed).choice(n, _MOST_POINTS, replace=False)
    exact = np.maximum(fidelity.exact[shown], 1)
    near = np.maximum(fidelity.approximate[shown], 1)
    figure = theme.new_figure(
        title=title
        or f"characters/4 against {fidelity.tokenizer}: r = {fidelity.pearson:.3f}, "
        f"{100 * fidelity.rank_consistency:.1f} % of pairs in order",
        x_title=f"tokens by {fidelity.tokenizer}",
        y_title="characters / 4 (tokens)",
        legend={"x": 0.02, "y": 0.98},
    )
    figure.add_scattergl(
        x=exact,
        y=near,
        mode="markers",
        name=f"{shown.size:,} of {n:,} prompts" if shown.size < n else f"{n:,} prompts",
        marker={"size": 4, "opacity": 0.35, "color": theme.policy_colour("sjf")},
    )
    top = float(max(exact.max(), near.max()))
    figure.add_scatter(
        x=[1, top],
        y=[1, top],
        mode="lines",
        name="equal",
        line={"color": "#6b7280", "dash": "dash", "width": 1},
    )
    figure.update_xaxes(type="log", dtick=1, tickformat=",")
    figure.update_yaxes(type="log", dtick=1, tickformat=",")
    return figure


def _named(reports: Sequence[Starvation] | Mapping[str, Starvation]) -> dict[str, Starvation]:
    named = dict(reports) if isinstance(reports, Mapping) else {report.name: report for report in reports}
    if not named:
        raise ParameterError("reports", reports, "give at least one report")
    return named
