"""One panel: controls, one figure, the numbers beside it, a sentence that says what the setting means.

A panel is made of a pure draw function, so its static form, its live form and the code it offers to copy
can't tell different stories:

```python
def draw(n: int) -> View:
    figure = theme.new_figure(title="Squares", x_title="i", y_title="i²")
    figure.add_scatter(y=[i * i for i in range(n)])
    return View(figure, f"{n} squares.", (("i", "i²"), (n - 1, (n - 1) ** 2)))

panel = Panel("Squares", [Slider("n", "how many", 5, 1, 50, 1)], draw, lambda n: f"...")
show(panel)
```
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from clairvoyant_lab.errors import ClairvoyantError, unknown_name
from clairvoyant_lab.panels.controls import Bound, Control, told
from clairvoyant_lab.panels.in_place import move_to
from clairvoyant_lab.panels.latest import LatestWins
from clairvoyant_lab.results import format_value

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["FIGURE_WIDTH", "NUMBERS_WIDTH", "Panel", "View", "html_table"]

# A FigureWidget in a box sizes itself wrongly unless told: picture and numbers fit JupyterLab on 1,366 px.
FIGURE_WIDTH = 720
NUMBERS_WIDTH = 340


@dataclass(frozen=True)
class View:
    """What a panel shows for one setting.

    Parameters
    ----------
    figure : Figure
        The picture; the same traces in the same order for every setting.
    sentence : str
        What this setting means, in words.
    numbers : sequence of rows
        The table beside the picture; its first row is the header.
    """

    figure: Figure
    sentence: str
    numbers: Sequence[Sequence[object]] = ()


class Panel:
    """Controls and the view they lead to.

    Parameters
    ----------
    title : str
        Heading.
    controls : sequence of Control
        In keyboard order.
    draw : callable
        Called with every control's value by name; returns a `View`. It must be pure.
    code : callable
        Called likewise; returns Python text that makes the same figure and binds it to `figure`.
    """

    def __init__(
        self,
        title: str,
        controls: Sequence[Control],
        draw: Callable[..., View],
        code: Callable[..., str],
    ) -> None:
        self.title = title
        self.controls = tuple(controls)
        self._draw = draw
        self._code = code
        self._values = {control.name: control.value for control in self.controls}
        self._live: _LivePanel | None = None

    @property
    def values(self) -> dict[str, Any]:
        """The current setting, control name -> value."""
        return dict(self._values)

    def set(self, **values: Any) -> None:
        """Move controls, as a hand would.

        Raises
        ------
        ParameterError
            For an unknown control or a value that it can't show.
        """
        by_name = {control.name: control for control in self.controls}
        for name in values:
            if name not in by_name:
                raise unknown_name("control", name, by_name)
        checked = {name: by_name[name].check(value) for name, value in values.items()}
        self._values |= checked
        if self._live is not None:
            self._live.put(checked)

    def view(self, **values: Any) -> View:
        """Draw the current setting, with some values changed for this call."""
        return self._draw(**{**self._values, **values})

    def figure(self, **values: Any) -> Figure:
        """The figure of `view`."""
        return self.view(**values).figure

    def code(self, **values: Any) -> str:
        """Return Python code that draws what `figure` draws."""
        return self._code(**{**self._values, **values})

    @property
    def widget(self) -> Any:
        """The live form, an ipywidgets box; made when first asked for, then always the same one."""
        if self._live is None:
            self._live = _LivePanel(self)
        return self._live.box

    @property
    def live_figure(self) -> Any:
        """The live form's FigureWidget."""
        self.widget  # noqa: B018 - makes it
        assert self._live is not None
        return self._live.figure

    def static_html(self) -> str:
        """Sentence, setting and numbers of the current view as HTML, for where no kernel answers."""
        view = self.view()
        setting = ", ".join(
            f"{control.label} = {told(control, self._values[control.name])}" for control in self.controls
        ).rstrip(" .")  # a prompt may end in a full stop of its own
        return (
            f"<p><strong>{escape(self.title)}</strong>, at {escape(setting)}. {escape(view.sentence)}</p>"
            f"{html_table(view.numbers)}"
        )


class _LivePanel:
    """The widgets of one panel."""

    def __init__(self, panel: Panel) -> None:
        import ipywidgets
        from plotly.graph_objects import FigureWidget

        from clairvoyant_lab.panels.copy_button import CopyButton

        self._panel = panel
        self._bound: dict[str, Bound] = {control.name: control.bind() for control in panel.controls}
        view = panel.view()
        self._shown = view.figure
        self.figure = FigureWidget(view.figure)
        self.figure.update_layout(width=FIGURE_WIDTH, autosize=False, uirevision="keep")
        self._sentence = ipywidgets.HTML(layout={"width": "100%"})
        self._numbers = ipywidgets.HTML(layout={"width": f"{NUMBERS_WIDTH}px"})
        self._problem = ipywidgets.HTML()
        self._copy = CopyButton()
        reset = ipywidgets.Button(
            description="Reset", tooltip="Back to where it began", layout={"width": "90px"}
        )
        reset.on_click(lambda _: self._reset())
        self._soon = LatestWins(self._redraw)
        self._start = panel.values
        self._tell(view)
        for bound in self._bound.values():
            bound.watch(self._soon.request)
        self.box = ipywidgets.VBox(
            [
                ipywidgets.HTML(f"<strong>{escape(panel.title)}</strong>"),
                ipywidgets.HBox(
                    [bound.widget for bound in self._bound.values()],
                    layout={"flex_flow": "row wrap", "width": "100%"},
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
                ipywidgets.HBox([reset, self._copy], layout={"align_items": "flex-start"}),
            ],
            layout={"width": "100%"},
        )

    def put(self, values: dict[str, Any]) -> None:
        """Move the widgets; the redraw follows from that."""
        for name, value in values.items():
            self._bound[name].put(value)

    def _reset(self) -> None:
        self.put(self._start)

    def _redraw(self) -> None:
        values = {name: bound.read() for name, bound in self._bound.items()}
        try:
            view = self._panel.view(**values)
        except ClairvoyantError as error:
            self._problem.value = f"<span style='color:#b42318'>{escape(str(error))}</span>"
            return
        except Exception as error:
            self._problem.value = (
                f"<span style='color:#b42318'>{escape(type(error).__name__)}: {escape(str(error))}</span>"
            )
            raise
        self._panel._values.update(values)
        self._problem.value = ""
        move_to(self.figure, self._shown, view.figure)
        self._shown = view.figure
        self._tell(view)

    def _tell(self, view: View) -> None:
        self._sentence.value = f"<div role='status' style='line-height:1.4'>{escape(view.sentence)}</div>"
        self._numbers.value = html_table(view.numbers)
        self._copy.code = self._panel.code()


@functools.cache
def _cell_style(first: bool) -> str:
    side = "left" if first else "right"
    return (
        f"text-align:{side};padding:3px 8px;border-bottom:1px solid #e5e7eb;font-variant-numeric:tabular-nums"
    )


def html_table(rows: Sequence[Sequence[object]]) -> str:
    """Return rows as an HTML table, the first one as its header; every text is escaped."""
    if not rows:
        return ""
    lines = []
    for number, row in enumerate(rows):
        tag = "th" if number == 0 else "td"
        cells = "".join(
            f"<{tag} style='{_cell_style(column == 0)}'>"
            f"{escape(value if isinstance(value, str) else format_value(value))}</{tag}>"
            for column, value in enumerate(row)
        )
        lines.append(f"<tr>{cells}</tr>")
    return f"<table style='border-collapse:collapse;font-size:13px;line-height:1.3'>{''.join(lines)}</table>"
