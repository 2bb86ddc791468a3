"""How a figure reaches the reader: live where a kernel answers, static everywhere else.

```python
from clairvoyant_lab.figures.show import show

show(figure)               # in JupyterLab: zoom, hover; under papermill: a static figure in the output
show(figure, main=True)    # this one stands for the notebook in the report's index
```

Live means that a front end with a kernel is there: JupyterLab's server sets `JPY_SESSION_NAME` for the
kernels it starts. `CLAIRVOYANT_DISPLAY=live|static` overrides that (the report runner sets `static`).

A static figure is one output in two forms: `application/vnd.plotly.v1+json`, which JupyterLab and VS Code
draw without a kernel, and `text/html`, a small script that draws with `plotly.min.js` lying beside the
page. The report writes that script once for all its pages, so they open offline and stay small.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from typing import TYPE_CHECKING, Any, Protocol

from clairvoyant_lab.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

__all__ = ["PLOTLY_SCRIPT", "Live", "compact_json", "figure_html", "is_live", "show", "show_table"]

PLOTLY_SCRIPT = "plotly.min.js"
_TURN = itertools.count(1)
_CONFIG = {"displaylogo": False, "responsive": True}

# Loads the script at most once a page, then draws; says what is missing where it can't.
_LOADER = """
(function () {
  var spec = document.getElementById("%(id)s-data"), box = document.getElementById("%(id)s");
  function draw() {
    var f = JSON.parse(spec.textContent);
    window.Plotly.newPlot(box, f.data, f.layout, %(config)s);
  }
  if (window.Plotly) { draw(); return; }
  var waiting = window.clairvoyantFigures = window.clairvoyantFigures || [];
  waiting.push(draw);
  if (waiting.length > 1) { return; }
  var script = document.createElement("script");
  script.src = "%(script)s";
  script.onload = function () { while (waiting.length) { waiting.shift()(); } };
  script.onerror = function () {
    document.querySelectorAll(".clairvoyant-figure").forEach(function (b) {
      b.textContent = "This figure needs %(script)s beside the page; clairvoyant-lab report puts it there.";
    });
  };
  document.head.appendChild(script);
})();
"""


def is_live() -> bool:
    """Tell whether a front end with a kernel is watching.

    Raises
    ------
    ParameterError
        If `CLAIRVOYANT_DISPLAY` is neither `live` nor `static`.
    """
    wish = os.environ.get("CLAIRVOYANT_DISPLAY")
    if wish is not None:
        if wish not in ("live", "static"):
            raise ParameterError("CLAIRVOYANT_DISPLAY", wish, "set it to live or static, or leave it out")
        return wish == "live"
    if not os.environ.get("JPY_SESSION_NAME"):
        return False
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


class Live(Protocol):
    """What `show` asks of a panel: a widget for a front end, a figure and a few words elsewhere."""

    @property
    def widget(self) -> Any:
        """The live form."""

    def figure(self) -> Figure:
        """The static form's picture."""

    def static_html(self) -> str:
        """The static form's words and numbers."""


def show(figure: Figure | Live, *, main: bool = False, live: bool | None = None) -> None:
    """Display a figure or a panel as the last word of a cell.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure or panel
        What to draw. A `FigureWidget` stays the widget it is where that is possible; a panel is its sliders
        where a kernel answers, else its figure, setting and numbers.
    main : bool
        Mark it as the notebook's main figure, for the report's index. Without a mark the first one is it.
    live : bool, optional
        Force a live or static display; by default `is_live()`.
    """
    from IPython.display import HTML, display, publish_display_data
    from plotly.basedatatypes import BaseFigure
    from plotly.graph_objects import FigureWidget

    lively = is_live() if live is None else live
    if not isinstance(figure, BaseFigure):
        if lively:
            display(figure.widget)
            return
        display(HTML(figure.static_html()))
        figure = figure.figure()
    elif lively:
        display(figure if isinstance(figure, FigureWidget) else FigureWidget(figure))
        return
    text = compact_json(figure)
    publish_display_data(
        data={
            "application/vnd.plotly.v1+json": {**json.loads(text), "config": _CONFIG},
            "text/html": figure_html(text, height=figure.layout.height),
            "text/plain": _caption(figure),
        },
        metadata={"clairvoyant": {"main": main}},
    )


def show_table(table: pd.DataFrame, caption: str = "") -> None:
    """Display a frame for people: what doesn't exist as n/a, whole numbers without a point, yes and no.

    Parameters
    ----------
    table : DataFrame
        A copy of its cells is formatted (`results.frame_html`); the frame keeps its numbers. Round it to
        show fewer digits.
    caption : str
        Stands above the table.
    """
    from IPython.display import publish_display_data

    from clairvoyant_lab.results import MISSING, frame_html

    publish_display_data(
        data={
            "text/html": frame_html(table, caption),
            "text/plain": table.to_string(na_rep=MISSING),
        }
    )


def compact_json(figure: Figure) -> str:
    """Return a figure as strict JSON, its float arrays in single precision (enough for any screen).

    Timestamps and arrays that single precision can't tell apart keep their doubles.
    """
    import numpy as np
    from plotly.io import to_json

    spec = json.loads(to_json(figure, validate=False))

    def shrink(node: Any) -> Any:
        if isinstance(node, list):
            return [shrink(item) for item in node]
        if not isinstance(node, dict):
            return node
        if node.get("dtype") == "f8" and "bdata" in node:
            return _single(node, np)
        return {key: shrink(value) for key, value in node.items()}

    return json.dumps(shrink(spec), allow_nan=False, separators=(",", ":"))


def figure_html(figure: Figure | str, *, height: float | None = None, script: str = PLOTLY_SCRIPT) -> str:
    """Return one figure as an HTML fragment that draws itself with the script beside the page.

    Parameters
    ----------
    figure : Figure or str
        A figure, or its JSON from `compact_json`.
    height : float, optional
        Pixels to reserve; the figure's own height or 420 by default.
    script : str
        Where plotly's script lies, relative to the page.
    """
    if not isinstance(figure, str):
        height = figure.layout.height if height is None else height
        figure = compact_json(figure)
    # the same run gives the same page: the name comes from the content and the figure's turn, not from chance
    name = f"clairvoyant-{hashlib.sha256(figure.encode()).hexdigest()[:10]}-{next(_TURN)}"
    # "</" would end the script element early; JSON reads the escaped form as the same text
    data = figure.replace("</", "<\\/")
    loader = _LOADER % {"id": name, "config": json.dumps(_CONFIG), "script": script}
    pixels = 420 if height is None else int(height)
    return (
        f'<div id="{name}" class="clairvoyant-figure" style="width:100%;min-height:{pixels}px"></div>'
        f'<script type="application/json" id="{name}-data">{data}</script>'
        f"<script>{loader}</script>"
    )


def _single(node: dict[str, Any], np: Any) -> dict[str, Any]:
    import base64

    wide = np.frombuffer(base64.b64decode(node["bdata"]), dtype="<f8")
    with np.errstate(over="ignore"):
        narrow = wide.astype("<f4")
    finite = np.isfinite(wide)
    span = np.ptp(wide[finite]) if finite.any() else 0.0
    worst = np.max(np.abs(narrow[finite] - wide[finite])) if finite.any() else 0.0
    if not worst <= span * 1e-5:
        return node
    return {**node, "dtype": "f4", "bdata": base64.b64encode(narrow.tobytes()).decode()}


def _caption(figure: Figure) -> str:
    title = figure.layout.title.text
    return f"Figure: {title}" if title else "Figure"
