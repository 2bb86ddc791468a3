"""Each panel in JupyterLab: every slider moves its figure by keyboard, one figure, no console error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

PANELS = {
    "tau_panel": "tau_panel()",
}
SHOW = (
    "from clairvoyant_lab.figures.show import show\nfrom clairvoyant_lab import panels\n\nshow(panels.{call})"
)


@pytest.mark.parametrize("name", PANELS)
def test_every_control_moves_the_figure(
    name: str, put_notebook: Any, open_notebook: Any, screenshots: Path
) -> None:
    lab = open_notebook(put_notebook(f"{name}.ipynb", [SHOW.format(call=PANELS[name])]))
    lab.run_all()
    page = lab.page
    page.wait_for_selector(".js-plotly-plot .main-svg", timeout=30_000)
    assert lab.figures() == 1
    start = lab.settle()
    page.wait_for_timeout(300)
    page.screenshot(path=screenshots / f"{name}.png")

    handles = page.locator(".jp-OutputArea .noUi-handle")
    for index in range(handles.count()):
        handle = handles.nth(index)
        if handle.get_attribute("aria-disabled") == "true":
            continue
        before = lab.settle()
        handle.focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        lab.wait_for_change(before)
    menus = page.locator(".jp-OutputArea .widget-dropdown select")
    for index in range(menus.count()):
        before = lab.settle()
        menus.nth(index).focus()
        page.keyboard.press("ArrowDown")
        lab.wait_for_change(before)
    boxes = page.locator(".jp-OutputArea .widget-checkbox input")
    for index in range(boxes.count()):
        before = lab.settle()
        boxes.nth(index).focus()
        page.keyboard.press("Space")
        lab.wait_for_change(before)

    page.get_by_role("button", name="Reset", exact=True).click()
    deadline = 50
    while lab.settle() != start and deadline:
        deadline -= 1
        page.wait_for_timeout(100)
    assert lab.settle() == start, "reset did not bring back the first figure"
    assert lab.figures() == 1
    assert lab.errors == []
