"""Every panel tells one story in its live form, its static form and the code it gives away."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from clairvoyant_lab import panels
from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.figures import theme
from clairvoyant_lab.panels.in_place import changed_parts, move_to
from clairvoyant_lab.panels.latest import LatestWins

JOBS = [37, 5, 12, 60, 3, 44, 18, 9, 55, 21]
MANY = np.random.default_rng(5).integers(1, 900, 150)

# panel, and a setting of each of its controls that shows
CASES: dict[str, tuple[Callable[[], panels.Panel], list[dict[str, Any]]]] = {
    "tau": (
        lambda: panels.tau_panel(n=300, replicates=2),
        [{"starvation_timeout_s": 12.0}, {"starvation_timeout_s": None}, {"rho": 0.6}, {"cs2": 1.5},
         {"starvation_timeout_s": 30.0, "promotion": "shortest"}],
    ),
    "tau_on_m1": (
        lambda: panels.tau_panel(n=300, replicates=2, profile="m1", accuracy=0.8),
        [{"starvation_timeout_s": 120.0}, {"rho": 0.5}],
    ),
    "day": (
        lambda: panels.day_panel(n=200, replicates=2),
        [{"starvation_timeout_s": 50.0}, {"starvation_timeout_s": None},
         {"starvation_timeout_s": 40.0, "promotion": "long_only"}],
    ),
    "bounds": (panels.bounds_panel, [{"short_below": 120}, {"long_from": 600}]),
    "gantt": (
        lambda: panels.gantt_panel(JOBS),
        [{"alpha": 30}, {"policy": "isjl_literal", "alpha": 4}, {"policy": "fcfs"}, {"batch_size": 3},
         {"policy": "cohort", "alpha": 8}],
    ),
    "profit": (
        lambda: panels.profit_panel(MANY, batch_size=12),
        [{"alpha": 400}, {"step_cost": 0.01}, {"footprint_cost": 1e-5}],
    ),
    "batch": (lambda: panels.batch_panel(MANY), [{"batch_size": 5}, {"alpha": 500}]),
    "prompt": (
        lambda: panels.prompt_panel("Write an essay about trains."),
        [{"prompt": "What is a mutex?"}, {"prompt": "</script> <b>list</b> \"quotes\" 'and' \\n {x}"}],
    ),
}  # fmt: skip


def plain(value: Any) -> Any:
    """A figure's JSON with arrays as lists, whichever way they were stored."""
    if isinstance(value, dict):
        if "bdata" in value:
            flat = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
            shape = value.get("shape")
            return (flat.reshape([int(s) for s in shape.split(",")]) if shape else flat).tolist()
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def drawn(figure: go.Figure) -> list[dict[str, Any]]:
    """The visible traces without the ids that a FigureWidget gives them."""
    traces = plain(figure.to_plotly_json()["data"])
    return [
        {key: value for key, value in trace.items() if key not in ("uid", "visible")}
        for trace in traces
        if trace.get("visible", True) is not False
    ]


@pytest.mark.parametrize("name", CASES)
def test_the_live_figure_shows_what_the_static_one_shows(name: str) -> None:
    make, moves = CASES[name]
    panel = make()
    live = panel.live_figure
    assert drawn(live) == drawn(panel.figure())
    for move in moves:
        before = drawn(panel.figure())
        panel.set(**move)
        assert panel.values | move == panel.values
        assert drawn(panel.figure()) != before, move
        assert panel.live_figure is live
        assert drawn(live) == drawn(panel.figure()), move
        shapes = plain(live.to_plotly_json()["layout"].get("shapes") or [])
        assert shapes == plain(panel.figure().to_plotly_json()["layout"].get("shapes") or [])


@pytest.mark.parametrize("name", CASES)
def test_the_copied_code_draws_the_same_data(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAIRVOYANT_DISPLAY", "static")
    make, moves = CASES[name]
    panel = make()
    for move in ({}, *moves):
        panel.set(**move)
        namespace: dict[str, Any] = {}
        exec(compile(panel.code(), name, "exec"), namespace)
        assert drawn(namespace["figure"]) == drawn(panel.figure()), move


@pytest.mark.parametrize("name", CASES)
def test_every_view_speaks_and_keeps_its_traces(name: str) -> None:
    make, moves = CASES[name]
    panel = make()
    first = panel.view()
    assert first.sentence.endswith(".")
    assert all(len(row) == len(first.numbers[0]) for row in first.numbers)
    for move in moves:
        assert len(panel.view(**move).figure.data) == len(first.figure.data)
    assert panel.values == {control.name: control.value for control in panel.controls}
    html = panel.static_html()
    assert "<table" in html
    assert "<script" not in html


def test_tau_is_none_where_the_box_is_ticked_and_reset_unticks_it() -> None:
    panel = panels.tau_panel(n=200, replicates=2, sliders=("starvation_timeout_s",))
    assert panel.widget is panel.widget
    panel.set(starvation_timeout_s=None)
    assert panel._live is not None
    slider, box = panel._live._bound["starvation_timeout_s"].watched
    assert box.value
    assert slider.disabled
    assert "No limit" in panel.view().sentence
    panel._live._reset()
    assert not box.value
    assert panel.values["starvation_timeout_s"] == pytest.approx(60.0)


def test_a_log_slider_starts_on_its_own_grid() -> None:
    bound = panels.LogSlider("x", "x", 60.0, 1.0, 1_000.0).bind()
    slider = bound.watched[0]
    steps = (np.log10(60.0) - slider.min) / slider.step
    assert steps == pytest.approx(round(steps), abs=1e-9)
    assert slider.min >= 0
    assert slider.max <= 3


def test_our_errors_are_shown_and_the_picture_stays() -> None:
    panel = panels.bounds_panel(short_below=300, long_from=500)
    live = panel.live_figure
    before = drawn(live)
    panel._live._bound["short_below"].put(790)  # above long_from
    assert "long_from" in panel._live._problem.value
    assert drawn(live) == before
    panel._live._bound["short_below"].put(400)
    assert panel._live._problem.value == ""


@pytest.mark.parametrize("name", ["profit", "batch"])
def test_cohort_is_offered_and_says_at_which_effort(name: str) -> None:
    panel = CASES[name][0]()
    panel.set(alpha=400)
    view = panel.view()
    assert "cohort" in [row[0] for row in view.numbers]
    assert "effort 0" in view.sentence
    assert "alpha=400, effort=0" in panel.code()


def test_the_static_line_names_choices_as_the_buttons_do() -> None:
    text = panels.day_panel(n=200, replicates=2, starvation_timeout_s=None).static_html()
    assert "who is promoted = oldest first (section 3.4)" in text
    assert "timeout τ (s) = no limit" in text


def test_bad_settings_are_refused() -> None:
    panel = panels.gantt_panel(JOBS)
    for bad in ({"alpha": -1}, {"alpha": "5"}, {"policy": "best"}, {"alhpa": 3}, {"batch_size": True}):
        with pytest.raises(ParameterError):
            panel.set(**bad)
    with pytest.raises(ParameterError, match="at least one job"):
        panels.batch_panel([])
    with pytest.raises(ParameterError, match="sliders"):
        panels.tau_panel(sliders=("tau",))


def test_keyboard_order_is_the_order_of_the_controls() -> None:
    panel = panels.profit_panel(MANY)
    row = panel.widget.children[1]
    assert [child.description for child in row.children] == [control.label for control in panel.controls]


def test_latest_wins_while_messages_pile_up() -> None:
    seen: list[int] = []
    state = {"value": 0}

    async def drag() -> None:
        latest = LatestWins(lambda: seen.append(state["value"]))
        for value in range(1, 50):
            state["value"] = value
            latest.request()
        await asyncio.sleep(0.05)
        state["value"] = 99
        latest.request()
        await asyncio.sleep(0.05)

    asyncio.run(drag())
    assert seen == [49, 99]


def test_what_the_reader_did_to_the_picture_stays() -> None:
    def state(n: int) -> go.Figure:
        figure = theme.new_figure(title=f"{n}")
        figure.add_scatter(y=np.arange(n, dtype=float), name="a")
        return figure

    live = go.FigureWidget(state(3))
    live.layout.xaxis.range = [0.5, 1.5]
    live.data[0].visible = "legendonly"
    move_to(live, state(3), state(5))
    assert live.layout.title.text == "5"
    assert len(live.data[0].y) == 5
    assert live.layout.xaxis.range == (0.5, 1.5)
    assert live.data[0].visible == "legendonly"


def test_traces_come_and_go() -> None:
    def state(n: int) -> go.Figure:
        figure = theme.new_figure()
        for index in range(n):
            figure.add_scatter(y=[index, n])
        return figure

    live = go.FigureWidget(state(1))
    move_to(live, state(1), state(3))
    assert drawn(live) == drawn(state(3))
    move_to(live, state(3), state(2))
    assert drawn(live) == drawn(state(2))
    move_to(live, state(2), state(3))
    assert drawn(live) == drawn(state(3))


def test_only_what_differs_is_sent() -> None:
    old = {"a": 1, "b": {"c": [1, 2], "d": "x"}, "gone": 0}
    new = {"a": 1, "b": {"c": [1, 3], "d": "x"}, "new": None}
    assert changed_parts(old, new) == {"gone": None, "b": {"c": [1, 3]}, "new": None}
    assert changed_parts(new, new) == {}
