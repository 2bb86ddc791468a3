"""The report, opened from its folder without a network: every figure is drawn and nothing is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clairvoyant_lab.reports import run_notebooks

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    (outcome,) = run_notebooks(["00_quickstart"], out_dir=out, fast=True, progress=False)
    assert outcome.ok, outcome.error
    return out


@pytest.mark.parametrize("name", ["index", "00_quickstart"])
def test_it_draws_every_figure(name: str, report: Path, chromium: Any, screenshots: Path) -> None:
    context = chromium.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    page = context.new_page()
    errors: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((report / f"{name}.html").as_uri())
    boxes = page.locator(".clairvoyant-figure").count()
    assert boxes >= 1
    page.wait_for_function(
        "(n) => document.querySelectorAll('.js-plotly-plot .main-svg').length >= n", arg=boxes, timeout=30_000
    )
    assert page.locator(".js-plotly-plot").count() == boxes
    page.screenshot(path=screenshots / f"report_{name}.png")
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()


def test_the_code_can_be_shown(report: Path, chromium: Any) -> None:
    page = chromium.new_page()
    page.goto((report / "00_quickstart.html").as_uri())
    code = page.locator("div.input").first
    assert not code.is_visible()
    page.get_by_text("Show or hide the code").click()
    assert code.is_visible()
    page.close()


def test_without_plotlys_script_it_says_what_is_missing(report: Path, chromium: Any, tmp_path: Path) -> None:
    lonely = tmp_path / "lonely.html"
    lonely.write_text((report / "00_quickstart.html").read_text(encoding="utf-8"), encoding="utf-8")
    page = chromium.new_page()
    page.goto(lonely.as_uri())
    page.get_by_text("needs plotly.min.js beside the page").first.wait_for(timeout=10_000)
    page.close()
