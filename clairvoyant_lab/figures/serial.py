"""Figures of serial runs: timelines, waits by class, what τ and load do, the frontier, the bound.

All are pure: results in, a plotly figure out. Those that a slider moves take `Percentiles`, so a panel can
compute new ones and copy the traces' data into its own figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.figures import theme
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.results import counted
from clairvoyant_lab.simulation.replicates import Percentiles, mean_interval
from clairvoyant_lab.simulation.serial import SerialRun

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

__all__ = [
    "class_percentiles",
    "percentiles_by_class",
    "queue_length",
    "sojourn_distribution",
    "timeline",
    "wait_against_bound",
]


# Short, Medium, Long, whichever comes first in time; what else there is stands behind (1000 is the default).
_LEGEND_RANK = {cls.label: rank for rank, cls in enumerate(LengthClass)}


def timeline(
    runs: Sequence[SerialRun] | Mapping[str, SerialRun], first: int = 30, title: str | None = None
) -> Figure:
    """Who ran when, one band a policy, coloured by class (Figure 1 of Clairvoyant, from a simulation).

    Parameters
    ----------
    runs : sequence or mapping of SerialRun
        One band each; a mapping names them, else the policies do.
    first : int
        Show the first so many requests of the trace.
    title : str, optional

    Returns
    -------
    Figure
        Thick bars are service, thin lines waiting; a diamond marks a promoted request.
    """
    named = _named(runs)
    figure = theme.new_figure(
        title=title or f"Who runs when (first {counted(first, 'request')})",
        x_title="time (s); thin lines wait, thick bars run",
        height=130 + 190 * len(named),
    )
    labels: list[str] = []
    positions: list[float] = []
    seen: set[str] = set()
    base = 0.0
    for name, run in reversed(list(named.items())):
        rows = np.arange(min(first, len(run.trace)))
        rows = rows[~np.isnan(run.start_s[rows])]
        classes = _class_names(run, rows)
        lanes = base + 1 + (rows.size - 1 - np.arange(rows.size)) / max(rows.size, 1) * 8.0
        for label in dict.fromkeys(classes):
            own = np.flatnonzero(np.asarray(classes) == label)
            colour = _colour(label)
            show = label not in seen
            seen.add(label)
            x, y = _segments(run.trace.arrival_s[rows[own]], run.start_s[rows[own]], lanes[own])
            figure.add_scatter(
                x=x, y=y, mode="lines", line={"color": colour, "width": 1}, opacity=0.55,
                legendgroup=label, showlegend=False, hoverinfo="skip",
            )  # fmt: skip
            ends = np.where(
                np.isnan(run.finish_s[rows[own]]), run.start_s[rows[own]], run.finish_s[rows[own]]
            )
            x, y = _segments(run.start_s[rows[own]], ends, lanes[own])
            text = [
                f"request {rows[i]}, {label}<br>waited {run.wait_s[rows[i]]:.2f} s, "
                f"ran {run.trace.service_s[rows[i]]:.2f} s{', promoted' if run.promoted[rows[i]] else ''}"
                for i in own
                for _ in range(3)
            ]
            figure.add_scatter(
                x=x, y=y, mode="lines", line={"color": colour, "width": 6}, name=label, legendgroup=label,
                legendrank=_LEGEND_RANK.get(label, 1000), showlegend=show, text=text,
                hovertemplate="%{text}<extra></extra>",
            )  # fmt: skip
        lifted = np.flatnonzero(run.promoted[rows])
        if lifted.size:
            figure.add_scatter(
                x=run.start_s[rows[lifted]], y=lanes[lifted], mode="markers", name="promoted",
                marker={"symbol": "diamond", "size": 8, "color": "white", "line": {"width": 1.5}},
                legendgroup="promoted", showlegend="promoted" not in seen, hoverinfo="skip",
            )  # fmt: skip
            seen.add("promoted")
        labels.append(name)
        positions.append(base + 4.8)
        base += 10.5
    figure.update_yaxes(tickvals=positions, ticktext=labels, showgrid=False, range=[0.2, base])
    return figure


def percentiles_by_class(
    runs: Sequence[SerialRun] | Mapping[str, SerialRun],
    q: Sequence[float] = (50, 95, 99),
    what: str = "sojourn_s",
    title: str | None = None,
) -> Figure:
    """Bars: percentiles of each class, one colour a policy, one panel a class, zero baseline.

    Parameters
    ----------
    runs : sequence or mapping of SerialRun
        Runs of one trace.
    q : sequence of float
    what : {"sojourn_s", "wait_s"}
    """
    from plotly.subplots import make_subplots

    named = _named(runs)
    first = next(iter(named.values()))
    groups: list[LengthClass | None] = [None]
    if first.trace.length_class is not None:
        groups = [c for c in LengthClass if np.any(first.trace.length_class == c)]
    titles = ["all requests" if group is None else group.label for group in groups]
    figure = make_subplots(rows=1, cols=len(groups), subplot_titles=titles, horizontal_spacing=0.07)
    for index, (name, run) in enumerate(named.items()):
        for column, group in enumerate(groups, start=1):
            figure.add_bar(
                x=[f"P{p:g}" for p in q], y=run.percentile(list(q), group, what), name=name,
                marker_color=_shade(run, index, named), legendgroup=name, showlegend=column == 1,
                hovertemplate=f"{name}<br>%{{x}}: %{{y:.2f}} s<extra></extra>", row=1, col=column,
            )  # fmt: skip
    figure.update_layout(
        template=theme.template(), barmode="group", height=380,
        title_text=title or f"{_noun(what)} by class", legend={"orientation": "h", "y": -0.16},
        margin={"t": 84},
    )  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title_text=f"{_noun(what).lower()} (s)", col=1)
    return figure


def class_percentiles(
    results: Mapping[str, Percentiles], q: float = 50.0, title: str | None = None
) -> Figure:
    """Bars with 95 % intervals: one percentile of each class under each policy, over replicates.

    Parameters
    ----------
    results : mapping of str to Percentiles
        Name in the legend -> `Replicates.percentiles(policy)`.
    q : float
    """
    figure = theme.new_figure(
        title=title or f"P{q:g} by class, mean over replicates with 95 % interval",
        y_title="time (s)",
        barmode="group",
        yaxis_rangemode="tozero",
    )
    for index, (name, result) in enumerate(results.items()):
        groups = [group for group in result.groups if group is not None or len(result.groups) == 1]
        intervals = [mean_interval(result.of(group, q)) for group in groups]
        figure.add_bar(
            x=["all" if group is None else group.label for group in groups],
            y=[mean for mean, _, _ in intervals],
            error_y={"type": "data", "array": [high - mean for mean, _, high in intervals], "thickness": 1.2},
            name=name,
            marker_color=_own_colour(result.policy.name, index, [r.policy.name for r in results.values()]),
            hovertemplate=f"{name}<br>%{{x}}: %{{y:.2f}} s<extra></extra>",
        )
    return figure


def sojourn_distribution(
    runs: Sequence[SerialRun] | Mapping[str, SerialRun],
    length_class: LengthClass | None = LengthClass.SHORT,
    what: str = "sojourn_s",
    title: str | None = None,
) -> Figure:
    """Share of requests that were done (or started) within a time, one line a policy, logarithmic time."""
    named = _named(runs)
    whose = "all requests" if length_class is None else f"{length_class.label} requests"
    figure = theme.new_figure(
        title=title or f"{_noun(what)}, {whose}",
        x_title=f"{_noun(what).lower()} (s)",
        y_title="share of requests (%)",
        xaxis_type="log",
        yaxis_range=[0, 101],
    )
    for name, run in named.items():
        q = np.linspace(0, 100, 201)
        times = run.percentile(q.tolist(), length_class, what)
        figure.add_scatter(
            x=np.maximum(times, 1e-3), y=q, mode="lines", name=name, line=theme.policy_line(run.policy.name),
            hovertemplate=f"{name}<br>%{{y:.0f}} % within %{{x:.2f}} s<extra></extra>",
        )  # fmt: skip
    return figure


def queue_length(runs: Sequence[SerialRun] | Mapping[str, SerialRun], title: str | None = None) -> Figure:
    """Requests waiting over time, one step line a policy."""
    figure = theme.new_figure(
        title=title or "Waiting requests", x_title="time (s)", y_title="waiting (requests)",
        yaxis_rangemode="tozero",
    )  # fmt: skip
    for name, run in _named(runs).items():
        began = run.start_s[~np.isnan(run.start_s)]
        admitted = run.trace.arrival_s[run.state <= 2]
        times = np.concatenate([admitted, began])
        steps = np.concatenate([np.ones(admitted.size), -np.ones(began.size)])
        by_time = np.lexsort((-steps, times))
        figure.add_scatter(
            x=times[by_time], y=np.cumsum(steps[by_time]), mode="lines", name=name,
            line={**theme.policy_line(run.policy.name, 1.5), "shape": "hv"},
        )  # fmt: skip
    return figure


def wait_against_bound(run: SerialRun, fcfs: SerialRun, title: str | None = None) -> Figure:
    """Each wait under `oldest` against its wait under FCFS, with the bound W <= W(FCFS) + τ + S_max.

    Parameters
    ----------
    run : SerialRun
        One slot, a starvation timeout, promotion `oldest`.
    fcfs : SerialRun
        FCFS on the same trace.
    """
    tau = run.policy.starvation_timeout_s
    if tau is None or run.policy.promotion != "oldest" or run.slots != 1:
        raise ParameterError("run", run.policy, "the bound is for one slot, a timeout and promotion 'oldest'")
    figure = theme.new_figure(
        title=title or "No wait exceeds FCFS's by more than τ plus the longest service",
        x_title="wait under FCFS (s)",
        y_title=f"wait under {theme.policy_label(run.policy.name)} with τ = {tau:g} s (s)",
    )
    names = np.asarray(_class_names(run, np.arange(len(run.trace))))
    for label in dict.fromkeys(names.tolist()):
        own = names == label
        figure.add_scattergl(
            x=fcfs.wait_s[own], y=run.wait_s[own], mode="markers", name=label,
            marker={"color": _colour(label), "size": 5, "opacity": 0.6},
        )  # fmt: skip
    end = float(np.nanmax(fcfs.wait_s))
    slack = tau + float(run.trace.service_s.max())
    line = {"color": "#111", "width": 1.5}
    figure.add_scatter(
        x=[0, end], y=[slack, end + slack], mode="lines", name="W(FCFS) + τ + S_max", line=line
    )
    figure.add_scatter(
        x=[0, end], y=[tau, tau], mode="lines", name="τ (no bound)", line={**line, "dash": "dot"}
    )
    return figure


def _named(runs: Sequence[SerialRun] | Mapping[str, SerialRun]) -> dict[str, SerialRun]:
    if isinstance(runs, SerialRun):
        runs = [runs]
    if isinstance(runs, Mapping):
        named = dict(runs)
    else:
        named = {policy_text(run): run for run in runs}
    if not named:
        raise ParameterError("runs", runs, "give at least one SerialRun")
    return named


def policy_text(run: SerialRun) -> str:
    """A run's policy for legends: its theme name, then τ and the promotion rule."""
    label = run.policy.label
    return theme.policy_label(run.policy.name) + label[len(run.policy.name) :]


def _class_names(run: SerialRun, rows: NDArray[np.int64]) -> list[str]:
    classes = run.trace.length_class
    return ["request"] * rows.size if classes is None else [LengthClass(c).label for c in classes[rows]]


def _colour(label: str) -> str:
    return theme.CLASS_COLOURS.get(label, theme.policy_colour("fcfs"))


def _shade(run: SerialRun, index: int, named: Mapping[str, SerialRun]) -> str:
    return _own_colour(run.policy.name, index, [other.policy.name for other in named.values()])


def _own_colour(name: str, index: int, names: list[str]) -> str:
    """The policy's colour; the same policy again (another τ) takes the next one that no other policy uses."""
    if names.index(name) == index:
        return theme.policy_colour(name)
    spare = [p for p in theme.SERIAL_POLICIES if p not in names]
    return (
        theme.policy_colour(spare[(index - 1) % len(spare)])
        if spare
        else theme.policy_colour(f"{name}{index}")
    )


def _noun(what: str) -> str:
    return "Wait" if what == "wait_s" else "Time to completion"


def _segments(
    start: NDArray[np.float64], end: NDArray[np.float64], level: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Horizontal strokes as one line trace, broken by NaN."""
    x = np.full(3 * start.size, np.nan)
    x[0::3], x[1::3] = start, end
    y = np.repeat(level, 3)
    y[2::3] = np.nan
    return x, y


def frame_lines(
    frame: pd.DataFrame,
    x: str,
    y: str,
    by: str,
    *,
    low: str | None = None,
    high: str | None = None,
    **layout: Any,
) -> Figure:
    """Lines of a tidy frame, one a value of `by`, with bars from `low` to `high` where given."""
    figure = theme.new_figure(x_title=x, y_title=y, **layout)
    for index, (name, part) in enumerate(frame.groupby(by, sort=False)):
        error = None
        if low is not None and high is not None:
            error = {
                "type": "data", "symmetric": False, "array": part[high] - part[y],
                "arrayminus": part[y] - part[low], "thickness": 1,
            }  # fmt: skip
        figure.add_scatter(
            x=part[x], y=part[y], mode="lines+markers", name=str(name), error_y=error,
            line={"color": theme.policy_colour(theme.SERIAL_POLICIES[index % len(theme.SERIAL_POLICIES)])},
        )  # fmt: skip
    return figure
