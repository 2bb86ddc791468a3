"""Live only where a kernel's front end is; static output is strict, small and draws itself."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.figures import theme
from clairvoyant_lab.figures.show import compact_json, figure_html, is_live, show


def figure_of(values: object) -> object:
    figure = theme.new_figure(title="Wait </script> & <b>more</b>")
    figure.add_scatter(y=values)
    return figure


def trace_of(text: str) -> dict:
    return json.loads(text)["data"][0]


def decode(spec: dict) -> np.ndarray:
    return np.frombuffer(base64.b64decode(spec["bdata"]), dtype=f"<{spec['dtype']}")


@pytest.mark.parametrize(("wish", "expected"), [("live", True), ("static", False)])
def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch, wish: str, expected: bool) -> None:
    monkeypatch.setenv("CLAIRVOYANT_DISPLAY", wish)
    assert is_live() is expected


def test_without_a_front_end_it_is_static(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLAIRVOYANT_DISPLAY", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert not is_live()
    # the name alone is not enough: a plain script started from a notebook inherits it
    monkeypatch.setenv("JPY_SESSION_NAME", "x.ipynb")
    assert not is_live()


def test_a_misspelled_wish_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAIRVOYANT_DISPLAY", "Live")
    with pytest.raises(ParameterError, match="live or static"):
        is_live()


def test_floats_shrink_and_keep_their_picture() -> None:
    values = np.linspace(0.0, 5_000.0, 2_001)
    spec = trace_of(compact_json(figure_of(values)))["y"]
    assert spec["dtype"] == "f4"
    assert decode(spec) == pytest.approx(values, abs=5_000 * 1e-5)


def test_what_single_precision_cannot_tell_apart_stays_double() -> None:
    values = 1.7e9 + np.linspace(0.0, 1.0, 50)
    spec = trace_of(compact_json(figure_of(values)))["y"]
    assert spec["dtype"] == "f8"
    assert (decode(spec) == values).all()


def test_gaps_and_nothing_survive() -> None:
    values = np.array([1.0, np.nan, 3.0])
    assert np.isnan(decode(trace_of(compact_json(figure_of(values)))["y"])[1])
    assert "Infinity" not in compact_json(figure_of([1.0, float("inf"), None]))
    assert compact_json(figure_of(np.array([])))


def test_the_fragment_holds_the_data_and_not_the_library() -> None:
    html = figure_html(figure_of(np.arange(2_000) / 3))
    assert len(html) < 30_000
    inner = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.S)
    assert inner is not None
    assert json.loads(inner.group(1))["layout"]["title"]["text"] == "Wait </script> & <b>more</b>"


def test_two_equal_figures_on_a_page_have_two_names() -> None:
    figure = figure_of([1, 2])
    names = [re.search(r'id="([^"]+)"', figure_html(figure)).group(1) for _ in range(2)]
    assert names[0] != names[1]


def test_show_publishes_both_static_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[dict] = []
    monkeypatch.setattr(
        "IPython.display.publish_display_data",
        lambda data, metadata: published.append({**data, "m": metadata}),
    )
    monkeypatch.setenv("CLAIRVOYANT_DISPLAY", "static")
    show(figure_of([1.0, 2.0]), main=True)
    (bundle,) = published
    assert bundle["m"] == {"clairvoyant": {"main": True}}
    assert bundle["application/vnd.plotly.v1+json"]["data"][0]["type"] == "scatter"
    assert "clairvoyant-figure" in bundle["text/html"]
