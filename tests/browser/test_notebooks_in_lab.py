"""Every notebook in JupyterLab: Run All, its panel moves by keyboard, no console error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("0[1-9]_*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_run_all_and_move_the_panel(
    path: Path, lab_server: Any, open_notebook: Any, screenshots: Path
) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", []):
            cell["source"] = "".join(cell["source"]).replace("fast: bool = False", "fast: bool = True")
    (lab_server.folder / path.name).write_text(json.dumps(notebook), encoding="utf-8")
    lab = open_notebook(path.name)
    lab.run_all(timeout_s=400)
    page = lab.page
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length > 0")
    handle = page.locator(".jp-OutputArea .noUi-handle").first
    text = page.locator(".jp-OutputArea textarea").first
    control = handle if handle.count() else text
    control.scroll_into_view_if_needed()
    index = control.evaluate(
        """(node) => { const box = node.closest(".jp-OutputArea-output");
          const own = box.querySelector(".js-plotly-plot");
          return Array.from(document.querySelectorAll(".js-plotly-plot")).indexOf(own); }"""
    )
    before = lab.settle(index)
    control.focus()
    if handle.count():
        for _ in range(4):
            page.keyboard.press("ArrowRight")
    else:
        page.keyboard.type(" Why?")
    lab.wait_for_change(before, index)
    page.screenshot(path=screenshots / f"{path.stem}.png")
    assert lab.errors == []
