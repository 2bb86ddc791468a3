"""The quickstart as a person meets it: open, run all, drag τ by keyboard, type a prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]


def test_run_all_then_move_tau_and_type(open_notebook: Any, screenshots: Path) -> None:
    lab = open_notebook("00_quickstart.ipynb")
    lab.run_all()
    page = lab.page
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length > 0")
    # prompt panel, timeline, bars by class, tau panel: one figure each
    assert lab.figures() == 4

    tau = 3
    before = lab.settle(tau)
    handle = page.locator(".jp-OutputArea .noUi-handle").first
    handle.scroll_into_view_if_needed()
    handle.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    after = lab.wait_for_change(before, tau)
    # the guarded policy moves, the two ends stay
    assert after[1]["x"] != before[1]["x"]
    assert after[0] == before[0]
    assert after[2] == before[2]
    lab.settle(tau)
    page.screenshot(path=screenshots / "quickstart_tau.png")

    box = page.locator(".jp-OutputArea textarea").first
    box.scroll_into_view_if_needed()
    before = lab.settle(0)
    box.click()
    page.keyboard.press("Control+a")
    page.keyboard.type("What is a mutex?")
    lab.wait_for_change(before, 0)
    probabilities = lab.settle(0)[0]["y"]
    assert probabilities[0] == max(probabilities)
    page.screenshot(path=screenshots / "quickstart_prompt.png")
    assert lab.figures() == 4
    assert lab.errors == []
