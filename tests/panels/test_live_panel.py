"""The live panel on a running proxy with an emulated backend: it sees the line and changes the policy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from clairvoyant_lab.errors import BackendError
from clairvoyant_lab.panels import LivePanel, watch_live
from clairvoyant_lab.scheduling.serial import serial_policy
from clairvoyant_lab.serving.client import ProxyClient
from clairvoyant_lab.serving.threaded import ThreadedStack


@pytest.fixture(scope="module")
def stack() -> Iterator[ThreadedStack]:
    with ThreadedStack(emulator={"speedup": 40.0}, policy=serial_policy("fcfs")) as running:
        yield running


@pytest.fixture
def panel(stack: ThreadedStack) -> Iterator[LivePanel]:
    made = LivePanel(stack.url, every_s=0.05)
    yield made
    made.stop()


def test_it_sees_the_line_and_its_numbers(stack: ThreadedStack, panel: LivePanel) -> None:
    def ask() -> None:
        with ProxyClient(stack.url) as client:
            client.chat("Explain in detail how a compiler works.", max_tokens=200)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    panel.watch(1.0)
    for thread in threads:
        thread.join()
    state = panel.look()
    assert state.counts["dispatched"] >= 4
    figure = panel.figure()
    assert max(figure.data[0].y) >= 1, "some request waited while the others ran"
    assert ("dispatched", state.counts["dispatched"], "", "", state.counts["promoted"]) in panel.numbers()
    assert stack.url in panel.static_html()


def test_its_controls_change_the_proxy(stack: ThreadedStack, panel: LivePanel) -> None:
    assert panel.widget is panel.widget
    live: Any = panel._live
    live._name.put("sjf_tokens")
    live._tau.put(7.5)
    with ProxyClient(stack.url) as client:
        assert client.policy().name == "sjf_tokens"
        assert client.policy().starvation_timeout_s == pytest.approx(7.5)
        live._tau.put(None)
        assert client.policy().starvation_timeout_s is None
    assert "nobody is promoted" in panel.sentence()
    panel.look()
    assert len(panel.figure().layout.shapes) >= 1, "a change of the policy is marked"


def test_its_code_gives_the_same_policy(
    stack: ThreadedStack, panel: LivePanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAIRVOYANT_DISPLAY", "static")
    panel.set_policy(name="sjf", starvation_timeout_s=3.0)
    code = panel.code().replace("watch(10)", "watch(0.2)")
    panel.set_policy(name="fcfs", starvation_timeout_s=None)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    namespace["panel"].stop()
    state = panel.look()
    assert (state.policy.name, state.policy.starvation_timeout_s) == ("sjf", 3.0)
    assert len(namespace["figure"].data) == len(panel.figure().data)


def test_without_a_proxy_it_says_so() -> None:
    with pytest.raises(BackendError):
        LivePanel("http://127.0.0.1:9")


def test_a_stand_is_watched_and_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLAIRVOYANT_DISPLAY", "static")
    watching = watch_live(seconds=2.0, speedup=60.0, at_once=5)
    assert watching.stand is not None
    assert watching.stand.problem is None
    figure = watching.panel.figure()
    assert max(figure.data[0].y) >= 2, "clients wait"
    assert any("sjf_tokens" in note.text for note in figure.layout.annotations), "the change is marked"
    with ProxyClient(watching.panel.url) as client:
        assert not client.healthy(), "the stand is gone"


def test_a_proxy_given_by_url_goes_on(stack: ThreadedStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAIRVOYANT_DISPLAY", "static")
    before = LivePanel(stack.url)
    policy = before.look().policy.label
    before.stop()
    watching = watch_live(stack.url, seconds=0.2)
    assert watching.stand is None
    with ProxyClient(stack.url) as client:
        assert client.healthy()
        assert client.policy().label == policy
