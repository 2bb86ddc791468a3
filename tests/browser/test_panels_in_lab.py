"""Each panel in JupyterLab: every control moves its figure by keyboard, one figure, no console error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

JOBS = [37, 5, 12, 60, 3, 44, 18, 9, 55, 21, 7, 30, 2, 48, 16, 11, 26, 40, 6, 33]
PANELS = {
    "tau_panel": "tau_panel()",
    "bounds_panel": "bounds_panel()",
    "gantt_panel": f"gantt_panel({JOBS})",
    "profit_panel": "profit_panel(table1_workload(42))",
    "batch_panel": "batch_panel(lmsys_like_lengths(2_000, 42))",
}
SHOW = """\
from clairvoyant_lab.economics import table1_workload
from clairvoyant_lab.figures.show import show
from clairvoyant_lab.panels import *
from clairvoyant_lab.simulation.batch_workloads import lmsys_like_lengths

show({call})"""


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
    page.screenshot(path=screenshots / f"{name}.png")

    handles = page.locator(".jp-OutputArea .noUi-handle")
    moved_in_ms = []
    for index in range(handles.count()):
        before = lab.settle()
        handles.nth(index).focus()
        moved_in_ms.append(lab.time_to_change("ArrowRight"))
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert lab.settle() != before
    buttons = page.locator(".jp-OutputArea .widget-toggle-button:not(.mod-active)")
    if buttons.count():
        before = lab.settle()
        buttons.last.focus()
        page.keyboard.press("Space")
        lab.wait_for_change(before)
    boxes = page.locator(".jp-OutputArea .widget-checkbox input")
    for index in range(boxes.count()):
        before = lab.settle()
        boxes.nth(index).focus()
        page.keyboard.press("Space")
        lab.wait_for_change(before)
    print(f"{name}: key to new data in {moved_in_ms} ms")  # a figure for people; speed is no test

    page.get_by_role("button", name="Reset", exact=True).click()
    for _ in range(50):
        if lab.settle() == start:
            break
    assert lab.settle() == start, "reset did not bring back the first figure"
    assert lab.figures() == 1
    assert lab.errors == []


def test_tab_reaches_every_control_in_order(put_notebook: Any, open_notebook: Any) -> None:
    lab = open_notebook(put_notebook("tab.ipynb", [SHOW.format(call=PANELS["tau_panel"])]))
    lab.run_all()
    page = lab.page
    page.wait_for_selector(".js-plotly-plot .main-svg", timeout=30_000)
    page.locator(".jp-OutputArea .noUi-handle").first.focus()
    seen = []
    for _ in range(45):
        seen.append(
            page.evaluate(
                """() => { const e = document.activeElement;
                  if (e.classList.contains("noUi-handle")) {
                    const label = e.closest(".widget-inline-hbox").querySelector(".widget-label");
                    return label.textContent; }
                  if (e.type === "checkbox") { return e.closest(".widget-checkbox").textContent.trim(); }
                  return e.textContent.trim(); }"""
            ).strip("\u200b")
        )
        page.keyboard.press("Tab")
    wanted = ["timeout τ (s)", "no limit", "load ρ", "C_s² within a class", "oldest first (section 3.4)"]
    wanted += ["Reset", "Copy as code"]
    places = [next((i for i, text in enumerate(seen) if text == name), None) for name in wanted]
    assert None not in places, (wanted, seen)
    assert places == sorted(places)


def test_copy_as_code_puts_the_setting_on_the_clipboard(put_notebook: Any, open_notebook: Any) -> None:
    lab = open_notebook(put_notebook("copy.ipynb", [SHOW.format(call=PANELS["gantt_panel"])]))
    lab.run_all()
    page = lab.page
    page.wait_for_selector(".js-plotly-plot .main-svg", timeout=30_000)
    before = lab.settle()
    page.locator(".jp-OutputArea .noUi-handle").first.focus()
    page.keyboard.press("ArrowRight")
    lab.wait_for_change(before)
    lab.settle()
    page.get_by_role("button", name="Copy as code").click()
    page.get_by_text("copied", exact=True).wait_for(timeout=5_000)
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "alpha=6" in copied
    namespace: dict[str, Any] = {}
    exec(copied.replace("show(figure)", ""), namespace)
    shown = lab.traces()[0]
    assert list(namespace["figure"].data[0].x) == shown["x"]
    assert list(namespace["figure"].data[0].base) == shown["base"]
    assert lab.errors == []


def test_the_live_panel_changes_a_running_proxy(
    put_notebook: Any, open_notebook: Any, screenshots: Path
) -> None:
    from clairvoyant_lab.scheduling.serial import serial_policy
    from clairvoyant_lab.serving.client import ProxyClient
    from clairvoyant_lab.serving.threaded import ThreadedStack

    with ThreadedStack(emulator={"speedup": 20.0}, policy=serial_policy("fcfs")) as stack:
        cells = [
            "from clairvoyant_lab.figures.show import show\nfrom clairvoyant_lab.panels import LivePanel\n\n"
            f"panel = LivePanel({stack.url!r})\nshow(panel)",
            "import threading\n\nfrom clairvoyant_lab.bench.traffic import send_mixed_traffic\n\n"
            "traffic = threading.Thread(\n"
            f"    target=send_mixed_traffic, args=({stack.url!r}, 64),\n"
            "    kwargs={'at_once': 16, 'emulated': True},\n"
            ")\ntraffic.start()",
        ]
        lab = open_notebook(put_notebook("live.ipynb", cells))
        lab.run_all()
        page = lab.page
        page.wait_for_selector(".js-plotly-plot .main-svg", timeout=30_000)
        assert lab.figures() == 1
        first = lab.traces()
        later = lab.wait_for_change(first)
        assert len(later[0]["x"]) > len(first[0]["x"]) or later[0]["x"] != first[0]["x"]
        page.wait_for_timeout(3_000)  # so that the picture shows the line under both policies
        buttons = page.locator(".jp-OutputArea .widget-toggle-button", has_text="SJF (tokens)")
        buttons.focus()
        page.keyboard.press("Space")
        page.wait_for_timeout(3_000)
        box = page.locator(".jp-OutputArea .widget-checkbox input").first
        box.focus()
        page.keyboard.press("Space")
        handle = page.locator(".jp-OutputArea .noUi-handle").first
        handle.focus()
        page.keyboard.press("ArrowLeft")
        with ProxyClient(stack.url) as client:
            for _ in range(100):
                policy = client.policy()
                if policy.name == "sjf_tokens" and policy.starvation_timeout_s is not None:
                    break
                page.wait_for_timeout(50)
            assert policy.name == "sjf_tokens"
            assert policy.starvation_timeout_s is not None
            for _ in range(200):
                seen = client.state().by_class
                if seen["Short"]["n"] >= 12 and seen["Long"]["n"] >= 6:
                    break
                page.wait_for_timeout(100)
            assert seen["Short"]["n"] >= 12
            assert seen["Long"]["n"] >= 6
        page.wait_for_timeout(1_500)
        page.screenshot(path=screenshots / "live_panel.png")
        assert lab.figures() == 1
        assert lab.errors == []
