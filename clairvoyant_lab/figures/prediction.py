"""Figures of length predictors: calibration, ranking, ablation, cross matrix, coverage, why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from clairvoyant_lab.figures import theme
from clairvoyant_lab.lengths import LengthClass, classify_lengths
from clairvoyant_lab.predictor.evaluation import Study
from clairvoyant_lab.predictor.explain import Explanation
from clairvoyant_lab.predictor.intervals import Coverage
from clairvoyant_lab.predictor.metrics import Calibration
from clairvoyant_lab.predictor.ranking import RankingEstimate
from clairvoyant_lab.results import counted

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "ablation_bars",
    "calibration_curve",
    "class_separation",
    "contribution_bars",
    "coverage_by_class",
    "cross_heatmap",
    "ranking_intervals",
    "retraining_line",
]

_LONG, _SHORT = theme.CLASS_COLOURS["Long"], theme.CLASS_COLOURS["Short"]
_OURS = "#1f6f8b"
_PAPER = "#6b7280"
_BINS = 20


def ranking_intervals(
    estimates: Mapping[str, RankingEstimate],
    published: Mapping[str, float] | None = None,
    title: str = "Ranking accuracy with 95 % intervals",
) -> Figure:
    """Ranking accuracies side by side, each with its interval; a diamond marks what a paper published.

    Parameters
    ----------
    estimates : mapping of str to RankingEstimate
        Label -> estimate.
    published : mapping of str to float, optional
        Label -> published ranking accuracy, between 0 and 1.
    title : str
        Title.
    """
    import plotly.graph_objects as go

    names = list(estimates)
    value = np.array([100 * estimates[name].value for name in names])
    low = np.array([100 * estimates[name].low for name in names])
    high = np.array([100 * estimates[name].high for name in names])
    figure = theme.new_figure(
        title=title, x_title="ranking accuracy (% of Short-Long pairs)", height=150 + 34 * len(names)
    )
    figure.add_trace(
        go.Scatter(
            x=value,
            y=names,
            mode="markers+text",
            marker={"size": 10, "color": _OURS},
            error_x={"type": "data", "array": high - value, "arrayminus": value - low, "thickness": 2},
            text=[f"{number:.1f}" for number in value],
            textposition="top center",
            cliponaxis=False,
            name="ours, 95 % interval",
            hovertemplate="%{y}: %{x:.2f} %<extra></extra>",
        )
    )
    if published:
        shown = [name for name in names if name in published]
        figure.add_trace(
            go.Scatter(
                x=[100 * published[name] for name in shown],
                y=shown,
                mode="markers",
                marker={"size": 11, "symbol": "diamond-open", "color": _PAPER, "line": {"width": 2}},
                name="published",
                hovertemplate="%{y}: %{x:.2f} % published<extra></extra>",
            )
        )
    figure.add_vline(x=50, line={"dash": "dot", "color": _PAPER}, annotation_text="chance")
    figure.update_yaxes(range=[len(names) - 0.5, -0.8], title=None, automargin=True)
    figure.update_xaxes(range=[min(45.0, float(low.min()) - 3), 100])
    return figure


def calibration_curve(curves: Mapping[str, Calibration], title: str = "Is P(Long) what it says?") -> Figure:
    """Observed share of Long answers against the predicted one, by bin; larger marks hold more rows."""
    import plotly.graph_objects as go

    figure = theme.new_figure(
        title=title, x_title="predicted P(Long)", y_title="observed share of Long answers", height=420
    )
    figure.add_trace(
        go.Scatter(
            x=[0, 1],
            y=[0, 1],
            mode="lines",
            line={"dash": "dot", "color": _PAPER},
            name="as it says",
            hoverinfo="skip",
        )
    )
    colours = (_OURS, "#b5651d", _LONG, "#5e35b1")
    for (name, curve), colour in zip(curves.items(), colours, strict=False):
        filled = curve.count > 0
        figure.add_trace(
            go.Scatter(
                x=curve.predicted[filled],
                y=curve.observed[filled],
                mode="lines+markers",
                line={"color": colour},
                marker={"size": 6 + 2.5 * np.log10(curve.count[filled]), "color": colour},
                customdata=curve.count[filled],
                name=f"{name} (mean error {curve.error:.3f})",
                hovertemplate="predicted %{x:.2f}, observed %{y:.2f}, %{customdata} rows<extra></extra>",
            )
        )
    figure.update_xaxes(range=[0, 1])
    figure.update_yaxes(range=[0, 1])
    return figure


def class_separation(
    p_long: ArrayLike, response_tokens: ArrayLike, title: str = "P(Long) by true length class"
) -> Figure:
    """Distribution of the score in each true class: the less Short and Long overlap, the better it ranks."""
    import plotly.graph_objects as go

    scores = np.asarray(p_long, dtype=np.float64)
    classes = classify_lengths(response_tokens)
    figure = theme.new_figure(
        title=title, x_title="P(Long)", y_title="share of the class's rows (%)", height=380
    )
    edges = np.linspace(0.0, max(1.0 / _BINS, float(scores.max())), _BINS + 1)
    for length_class in LengthClass:
        rows = scores[classes == length_class]
        if not rows.size:
            continue
        share = 100 * np.histogram(rows, edges)[0] / rows.size
        # outlines: three filled histograms on top of each other mix their colours
        figure.add_trace(
            go.Scatter(
                x=edges,
                y=np.append(share, share[-1]),
                mode="lines",
                line={"color": theme.class_colour(length_class), "width": 2.5, "shape": "hv"},
                name=f"{length_class.label} ({counted(rows.size, 'row')})",
                hovertemplate="P(Long) from %{x:.2f}: %{y:.1f} %<extra></extra>",
            )
        )
    figure.update_yaxes(rangemode="tozero")
    return figure


def ablation_bars(studies: Sequence[Study], title: str = "What removing a feature costs") -> Figure:
    """Change of ranking accuracy when a group of features is removed, mean over seeds with its range."""
    import plotly.graph_objects as go

    figure = theme.new_figure(
        title=title, x_title="change of ranking accuracy (percentage points)", height=440
    )
    for study, colour in zip(studies, (_OURS, "#b5651d", _LONG), strict=False):
        frame = study.frame[study.frame["removed"] != "nothing"]
        grouped = frame.groupby("removed", sort=False)["delta_pp"]
        mean, low, high = grouped.mean(), grouped.min(), grouped.max()
        figure.add_trace(
            go.Bar(
                x=mean.to_numpy(),
                y=[str(name).replace("_", " ") for name in mean.index],
                orientation="h",
                marker={"color": colour},
                error_x={
                    "type": "data",
                    "array": (high - mean).to_numpy(),
                    "arrayminus": (mean - low).to_numpy(),
                    "color": _PAPER,
                    "visible": bool((high > low).any()),
                },
                name=study.title.split(":")[0],
                hovertemplate="%{y}: %{x:+.2f} pp<extra></extra>",
            )
        )
    figure.update_yaxes(autorange="reversed", title=None, automargin=True)
    return figure


def cross_heatmap(study: Study, title: str = "Trained on one corpus, ranking another") -> Figure:
    """The cross-distribution matrix (Table 7); cells in italics rank the rows they were trained on."""
    import plotly.graph_objects as go

    table = study.frame.pivot_table(
        index="trained_on", columns="tested_on", values="ranking_accuracy", sort=False
    )
    own = study.frame.pivot_table(index="trained_on", columns="tested_on", values="in_sample", sort=False)
    values = 100 * table.to_numpy()
    text = [
        [f"<i>{value:.1f}</i>" if same else f"<b>{value:.1f}</b>" for value, same in zip(*pair, strict=True)]
        for pair in zip(values, own.to_numpy(dtype=bool), strict=True)
    ]
    figure = theme.new_figure(
        title=title, x_title="ranked", y_title="trained on", height=160 + 60 * len(table.index)
    )
    figure.add_trace(
        go.Heatmap(
            z=values,
            x=[str(name) for name in table.columns],
            y=[str(name) for name in table.index],
            text=text,
            texttemplate="%{text}",
            colorscale=theme.SEQUENTIAL,
            zmin=50,
            zmax=100,
            colorbar={"title": {"text": "%"}},
            hovertemplate="%{y} → %{x}: %{z:.2f} %<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed")
    return figure


def coverage_by_class(coverage: Coverage, title: str = "How often the interval holds") -> Figure:
    """Coverage over all rows and by true class, beside the nominal level."""
    import plotly.graph_objects as go

    names = [
        f"{name}<br>{counted(count, 'row')}" for name, count in zip(coverage.groups, coverage.n, strict=True)
    ]
    figure = theme.new_figure(title=title, y_title="share of rows (%)", height=400)
    for label, values, colour in (
        ("inside the interval", coverage.both, _OURS),
        ("not above the upper bound", coverage.below_upper, _LONG),
        ("not below the lower bound", coverage.above_lower, _SHORT),
    ):
        figure.add_trace(
            go.Bar(
                x=names,
                y=100 * values,
                name=label,
                marker={"color": colour},
                hovertemplate="%{y:.1f} %<extra></extra>",
            )
        )
    figure.add_hline(
        y=100 * coverage.level,
        line={"dash": "dot", "color": "#111111", "width": 2},
        name=f"nominal {100 * coverage.level:.0f} %",
        showlegend=True,
    )
    figure.update_yaxes(range=[0, 105])
    figure.update_layout(barmode="group")
    return figure


def retraining_line(
    curves: Mapping[str, Study],
    published: Mapping[int, tuple[float, float]] | None = None,
    title: str = "Ranking accuracy after training on few rows",
) -> Figure:
    """Mean over seeds with its standard deviation, against the number of rows (section 5.1).

    Parameters
    ----------
    curves : mapping of str to Study
        Label -> `retraining_curve`.
    published : mapping of int to (mean, standard deviation), optional
        What a paper gives, in per cent.
    title : str
        Title.
    """
    import plotly.graph_objects as go

    figure = theme.new_figure(
        title=title, x_title="rows of the target domain", y_title="ranking accuracy (%)", height=420
    )
    for (name, study), colour in zip(curves.items(), (_OURS, "#b5651d", _LONG, "#5e35b1"), strict=False):
        grouped = 100 * study.frame.set_index("n_train")["ranking_accuracy"]
        mean = grouped.groupby(level=0).mean()
        spread = grouped.groupby(level=0).std().fillna(0)
        _add_line(figure, go, list(mean.index), mean.to_numpy(), spread.to_numpy(), name, colour, "solid")
    if published:
        sizes = list(published)
        mean_values = np.array([published[size][0] for size in sizes])
        spread_values = np.array([published[size][1] for size in sizes])
        _add_line(figure, go, sizes, mean_values, spread_values, "published", _PAPER, "dot")
    return figure


def contribution_bars(explanation: Explanation, top: int = 12, title: str = "Why") -> Figure:
    """The strongest pushes towards Long (right) and Short (left), in log-odds."""
    import plotly.graph_objects as go

    shown = explanation.contributions[:top]
    names = [item.name if item.value is None else f"{item.name} = {item.value:g}" for item in shown]
    pushes = [item.push for item in shown]
    figure = theme.new_figure(
        title=title,
        x_title="push of log P(Long)/P(Short), against a typical prompt",
        height=150 + 26 * len(shown),
    )
    figure.add_trace(
        go.Bar(
            x=pushes,
            y=names,
            orientation="h",
            marker={"color": [_LONG if push > 0 else _SHORT for push in pushes]},
            hovertemplate="%{y}: %{x:+.3f}<extra></extra>",
            showlegend=False,
        )
    )
    figure.update_yaxes(autorange="reversed", title=None, automargin=True)
    return figure


def _add_line(
    figure: Figure, go: Any, x: list[int], y: Any, spread: Any, name: str, colour: str, dash: str
) -> None:
    figure.add_trace(
        go.Scatter(
            x=x,
            y=y,
            mode="lines+markers",
            line={"color": colour, "dash": dash},
            error_y={"type": "data", "array": spread, "color": colour},
            name=name,
            hovertemplate="%{x} rows: %{y:.1f} %<extra></extra>",
        )
    )
