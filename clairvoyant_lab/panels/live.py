"""The live panel: watches a running proxy, and its τ and policy controls change that proxy.

```python
from clairvoyant_lab.figures.show import show
from clairvoyant_lab.panels import LivePanel

panel = LivePanel("http://127.0.0.1:8080")
show(panel)        # live in JupyterLab; elsewhere what was seen so far: call panel.watch(10) before
panel.stop()       # stops looking; the proxy goes on
```
"""

from __future__ import annotations

import threading
import time
from collections import deque
from html import escape
from typing import TYPE_CHECKING, Any

from clairvoyant_lab.errors import ClairvoyantError, ParameterError
from clairvoyant_lab.figures import theme
from clairvoyant_lab.figures.live import proxy_view
from clairvoyant_lab.panels.controls import Bound, Choice, LogSlider
from clairvoyant_lab.panels.in_place import move_to
from clairvoyant_lab.panels.latest import LatestWins
from clairvoyant_lab.panels.panel import FIGURE_WIDTH, NUMBERS_WIDTH, html_table
from clairvoyant_lab.serving.client import ProxyClient

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from clairvoyant_lab.serving.replies import PolicyState, ProxyState

__all__ = ["LivePanel"]

_POLICIES = ("fcfs", "sjf", "sjf_tokens", "sjf_service", "hrrn")
_LOW_S, _HIGH_S = 0.1, 1_000.0


class LivePanel:
    """Looks at a proxy every half second and draws what it sees.

    Parameters
    ----------
    url : str
        Where the proxy listens.
    token : str, optional
        Of its control routes, where one is needed.
    every_s : float
        Seconds between two looks.
    keep : int
        Looks to keep in the picture.

    Raises
    ------
    BackendError
        If no proxy answers there.
    """

    def __init__(self, url: str, *, token: str | None = None, every_s: float = 0.5, keep: int = 600) -> None:
        if not every_s > 0:
            raise ParameterError("every_s", every_s, "give seconds, more than 0")
        self.url = url
        self.every_s = every_s
        self._client = ProxyClient(url, token=token)
        self._began = time.monotonic()
        self._samples: deque[dict[str, Any]] = deque(maxlen=keep)
        self._changes: deque[tuple[float, str]] = deque(maxlen=8)
        self._label = ""
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._live: _LiveWidgets | None = None
        self._state = self.look()

    def look(self) -> ProxyState:
        """Look at the proxy once and keep what was seen."""
        state = self._client.state()
        at = time.monotonic() - self._began
        with self._lock:
            if self._label and state.policy.label != self._label:
                self._changes.append((at, state.policy.label))
            self._label = state.policy.label
            self._samples.append(
                {
                    "t_s": at,
                    "waiting": state.waiting,
                    "running": state.running,
                    "requests_per_s": state.throughput["requests_per_s"],
                    "by_class": state.by_class,
                }
            )
            self._state = state
        return state

    def watch(self, seconds: float) -> None:
        """Look again and again for so long, then return: for notebooks that run without a front end."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(min(self.every_s, max(until - time.monotonic(), 0.0)))

    def set_policy(self, **fields: Any) -> PolicyState:
        """Change the proxy's policy (see `ProxyClient.set_policy`) and look at once."""
        policy = self._client.set_policy(**fields)
        self.look()
        return policy

    def figure(self) -> Figure:
        """What was seen so far, as a figure."""
        with self._lock:
            samples = list(self._samples)
            # a line that has left the picture would stretch its axis
            changes = [change for change in self._changes if change[0] >= samples[0]["t_s"]]
        return proxy_view(samples, changes)

    def numbers(self) -> list[tuple[object, ...]]:
        """Requests, waits and promotions by class, and totals; the first row is the header."""
        state = self._state
        rows: list[tuple[object, ...]] = [("class", "n", "wait P50 (s)", "P95 (s)", "promoted")]
        for label, own in state.by_class.items():
            if own["n"]:
                waits = (f"{own['wait_p50_s']:.2f}", f"{own['wait_p95_s']:.2f}")
                rows.append((label, own["n"], *waits, own.get("promoted", 0)))
        rows.append(("waiting", state.waiting, "", "", ""))
        rows.append(("dispatched", state.counts["dispatched"], "", "", state.counts["promoted"]))
        return rows

    def sentence(self) -> str:
        """What the proxy does now, in words."""
        policy = self._state.policy
        tau = policy.starvation_timeout_s
        limit = "nobody is promoted" if tau is None else f"whoever has waited {tau:.3g} s goes first"
        name = theme.policy_label(policy.name)
        line = f"{self._state.running} running, {self._state.waiting} waiting"
        return f"{self.url} runs {name}; {limit}. {line}."

    def code(self) -> str:
        """Return Python code that gives a proxy this one's policy and shows its state."""
        policy = self._state.policy
        return f"""\
import clairvoyant_lab as cl
from clairvoyant_lab.figures.show import show
from clairvoyant_lab.panels import LivePanel

with cl.ProxyClient({self.url!r}) as client:
    client.set_policy({policy.name!r}, starvation_timeout_s={policy.starvation_timeout_s!r})
panel = LivePanel({self.url!r})
panel.watch(10)
figure = panel.figure()
show(figure)
"""

    @property
    def widget(self) -> Any:
        """The live form; looking begins when it is first asked for."""
        if self._live is None:
            self._live = _LiveWidgets(self)
            self._thread = threading.Thread(target=self._keep_looking, name="clairvoyant-panel", daemon=True)
            self._thread.start()
        return self._live.box

    def static_html(self) -> str:
        """Sentence and numbers as HTML, for where no kernel answers."""
        return f"<p><strong>Live proxy.</strong> {escape(self.sentence())}</p>{html_table(self.numbers())}"

    def stop(self) -> None:
        """Stop looking and close the connection; the proxy goes on."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._client.close()

    def _keep_looking(self) -> None:
        assert self._live is not None
        while not self._stopped.wait(self.every_s):
            try:
                self.look()
            except ClairvoyantError as error:
                self._live.say(f"the proxy doesn't answer: {error}")
                continue
            self._live.refresh()


class _LiveWidgets:
    """The widgets of a live panel."""

    def __init__(self, panel: LivePanel) -> None:
        import ipywidgets
        from plotly.graph_objects import FigureWidget

        from clairvoyant_lab.panels.copy_button import CopyButton

        self._panel = panel
        policy = panel._state.policy
        names = dict.fromkeys((*_POLICIES, policy.name))
        tau = policy.starvation_timeout_s
        start = None if tau is None else min(max(tau, _LOW_S), _HIGH_S)
        self._name: Bound = Choice(
            "name", "policy", policy.name, {theme.policy_label(name): name for name in names}
        ).bind()
        self._tau: Bound = LogSlider("tau", "timeout τ (s)", start, _LOW_S, _HIGH_S, "no limit").bind()
        self._shown = panel.figure()
        self.figure = FigureWidget(self._shown)
        self.figure.update_layout(width=FIGURE_WIDTH, autosize=False, uirevision="keep")
        self._sentence = ipywidgets.HTML(layout={"width": "100%"})
        self._numbers = ipywidgets.HTML(layout={"width": f"{NUMBERS_WIDTH}px"})
        self._problem = ipywidgets.HTML()
        self._copy = CopyButton()
        self._drawing = threading.Lock()
        self._soon = LatestWins(self._send)
        for bound in (self._name, self._tau):
            bound.watch(self._soon.request)
        self.box = ipywidgets.VBox(
            [
                ipywidgets.HTML("<strong>Live proxy</strong>"),
                ipywidgets.HBox(
                    [self._name.widget, self._tau.widget], layout={"flex_flow": "row wrap", "width": "100%"}
                ),
                self._sentence,
                self._problem,
                ipywidgets.HBox(
                    [
                        ipywidgets.Box([self.figure], layout={"width": f"{FIGURE_WIDTH}px"}),
                        self._numbers,
                    ],
                    layout={"flex_flow": "row wrap", "width": "100%", "align_items": "flex-start"},
                ),
                self._copy,
            ],
            layout={"width": "100%"},
        )
        self.refresh()

    def say(self, text: str) -> None:
        """Show a problem, or clear it with an empty text."""
        shown = f"<span style='color:#b42318'>{escape(text)}</span>" if text else ""
        if self._problem.value != shown:
            self._problem.value = shown

    def refresh(self) -> None:
        """Draw what was seen last."""
        with self._drawing:
            panel = self._panel
            new = panel.figure()
            move_to(self.figure, self._shown, new)
            self._shown = new
            self._sentence.value = f"<div role='status'>{escape(panel.sentence())}</div>"
            self._numbers.value = html_table(panel.numbers())
            self._copy.code = panel.code()
            self.say("")

    def _send(self) -> None:
        try:
            self._panel.set_policy(name=self._name.read(), starvation_timeout_s=self._tau.read())
        except ClairvoyantError as error:
            self.say(str(error))
            return
        self.refresh()
