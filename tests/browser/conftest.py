"""A real Chromium on a real JupyterLab.

Playwright drives Debian's Chromium by its path; its own browser download isn't needed. The server gets a
copy of the notebooks, settings of its own and a free port, so nothing of the user's is touched.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
]
SETTINGS = {
    # the test counts figures, so cells off screen have to be in the page too
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": '{"windowingMode": "none"}',
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": (
        '{"fetchNews": "false", "checkForUpdates": false, "doNotDisturbMode": true}'
    ),
}


def missing_peer(what: str) -> None:
    """Skip for a missing peer, or fail where every peer is required."""
    if os.environ.get("REQUIRE_PEERS") == "1":
        pytest.fail(f"{what}, and REQUIRE_PEERS=1 asks for it")
    pytest.skip(what)


class Server:
    """A running JupyterLab and the folder it shows."""

    def __init__(self, url: str, token: str, folder: Path) -> None:
        self.url, self.token, self.folder = url, token, folder

    def stop_kernels(self) -> None:
        """End every session's kernel: a live panel left running would slow the tests that follow."""
        for session in json.loads(self._ask("GET", "/api/sessions")):
            self._ask("DELETE", f"/api/sessions/{session['id']}")

    def _ask(self, method: str, path: str) -> bytes:
        request = urllib.request.Request(
            self.url + path, method=method, headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())


class LabPage:
    """One notebook open in JupyterLab."""

    def __init__(self, page: Any, errors: list[str]) -> None:
        self.page, self.errors = page, errors

    def run_all(self, timeout_s: float = 150) -> None:
        """Run All Cells; wait until no cell is running and none has an error."""
        run = "() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }"
        for _ in range(5):
            # JupyterLab drops the command while its kernel session is still being set up
            self.page.wait_for_timeout(1_500)
            self.page.evaluate(run)
            self.page.wait_for_timeout(1_500)
            if any(text.strip("[]: ") for text in self._prompts()):
                break
        deadline = time.monotonic() + timeout_s
        prompts: list[str] = []
        while time.monotonic() < deadline:
            prompts = self._prompts()
            failed = self.page.locator(
                '[data-mime-type="application/vnd.jupyter.stderr"]:has-text("Traceback")'
            )
            if failed.count():
                pytest.fail(failed.first.inner_text()[-2_000:])
            if prompts and all(text.strip("[]: ").isdigit() for text in prompts):
                return
            self.page.wait_for_timeout(200)
        pytest.fail(f"cells still run after {timeout_s} s: {prompts}")

    def _prompts(self) -> list[str]:
        return list(self.page.locator(".jp-CodeCell .jp-InputPrompt").all_inner_texts())

    def figures(self) -> int:
        """How many plotly figures are in the page."""
        return int(self.page.locator(".js-plotly-plot").count())

    def traces(self, figure: int = 0) -> list[Any]:
        """The data that a figure draws: y, x, base and width of each trace, as plain lists."""
        return self.page.evaluate(
            """(index) => {
              const plot = document.querySelectorAll(".js-plotly-plot")[index];
              const plain = (v) => v === undefined || v === null ? null : Array.from(v);
              return plot.data.map((t) => ({ y: plain(t.y), x: plain(t.x), base: plain(t.base),
                shapes: (plot.layout.shapes || []).map((s) => [s.x0, s.x1, s.y0, s.y1]) }));
            }""",
            figure,
        )

    def wait_for_change(self, before: Any, figure: int = 0, timeout_s: float = 30) -> Any:
        """Wait until a figure's data differs from what it was; return the new data."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            now = self.traces(figure)
            if now != before:
                return now
            self.page.wait_for_timeout(20)
        pytest.fail(f"figure {figure} did not move within {timeout_s} s")

    def time_to_change(self, key: str, figure: int = 0) -> int:
        """Press a key; return the milliseconds until the figure's data differs, as the page sees it."""
        self.page.evaluate(
            """(index) => {
              const plot = document.querySelectorAll(".js-plotly-plot")[index];
              const state = () => JSON.stringify(plot.data.map((t) => [
                Array.from(t.x || []), Array.from(t.y || []), Array.from(t.base || [])]));
              window.movedIn = null;
              const before = state();
              document.addEventListener("keydown", () => {
                const began = performance.now();
                const look = () => {
                  if (state() !== before) { window.movedIn = Math.round(performance.now() - began); }
                  else if (performance.now() - began < 10000) { setTimeout(look, 4); }
                };
                look();
              }, { once: true, capture: true });
            }""",
            figure,
        )
        self.page.keyboard.press(key)
        self.page.wait_for_function("window.movedIn !== null", timeout=12_000)
        return int(self.page.evaluate("window.movedIn"))

    def settle(self, figure: int = 0) -> Any:
        """Wait until a figure's data has been the same for half a second; return it."""
        last, since = self.traces(figure), time.monotonic()
        while time.monotonic() - since < 0.5:
            self.page.wait_for_timeout(50)
            now = self.traces(figure)
            if now != last:
                last, since = now, time.monotonic()
        return last


@pytest.fixture(scope="package")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab on a copy of the notebooks."""
    root = tmp_path_factory.mktemp("lab")
    folder = root / "notebooks"
    shutil.copytree(REPO / "notebooks", folder)
    for name, text in SETTINGS.items():
        path = root / "settings" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(8)
    environment = {
        **os.environ,
        "JUPYTERLAB_SETTINGS_DIR": str(root / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(root / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(root / "config"),
        "JUPYTER_RUNTIME_DIR": str(root / "runtime"),
        "IPYTHONDIR": str(root / "ipython"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    environment.pop("CLAIRVOYANT_DISPLAY", None)
    log = (root / "server.log").open("w")
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"),
        "--expose-app-in-browser",
        *("--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"),
        *("--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={folder}"),
    ]
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=root)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{url}/api/status?token={token}", timeout=2).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"JupyterLab did not start:\n{(root / 'server.log').read_text()[-3_000:]}")
                time.sleep(0.2)
        yield Server(url, token, folder)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
        log.close()


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, headless."""
    if not Path(CHROMIUM).exists():
        missing_peer(f"no Chromium at {CHROMIUM} (set CHROMIUM)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing_peer("playwright is not installed (extra `browser`)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS, headless=True)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., tuple[Any, list[str]]]]:
    """Open a URL; give the page and the list into which its console errors go."""
    contexts = []

    def open_url(url: str, width: int = 1440, height: int = 1000) -> tuple[Any, list[str]]:
        context = chromium.new_context(viewport={"width": width, "height": height})
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        return page, errors

    yield open_url
    for context in contexts:
        context.close()


@pytest.fixture
def open_notebook(lab_server: Server, open_page: Any) -> Iterator[Callable[..., LabPage]]:
    """Open a notebook of the server's folder in JupyterLab and wait for its kernel."""

    def open_one(name: str, **size: int) -> LabPage:
        page, errors = open_page(f"{lab_server.url}/lab/tree/{name}?token={lab_server.token}&reset", **size)
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60_000)
        page.wait_for_selector('.jp-NotebookPanel [data-status="idle"]', timeout=60_000)
        # the file browser takes a quarter of the width: a reader closes it
        if page.locator("#filebrowser:visible").count():
            page.keyboard.press("Control+b")
        return LabPage(page, errors)

    yield open_one
    lab_server.stop_kernels()


@pytest.fixture(scope="package")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: docs/screenshots if CLAIRVOYANT_SCREENSHOTS=docs, else a folder of the run."""
    if os.environ.get("CLAIRVOYANT_SCREENSHOTS") == "docs":
        path = REPO / "docs" / "screenshots"
        path.mkdir(parents=True, exist_ok=True)
        return path
    return tmp_path_factory.mktemp("screenshots")


@pytest.fixture
def put_notebook(lab_server: Server) -> Callable[[str, list[str]], str]:
    """Write a small notebook of code cells into the server's folder."""

    def put(name: str, cells: list[str]) -> str:
        import nbformat

        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
        notebook.metadata["kernelspec"] = {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        }
        nbformat.write(notebook, lab_server.folder / name)
        return name

    return put
