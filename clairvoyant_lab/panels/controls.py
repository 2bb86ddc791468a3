"""Controls of a panel: small values that say what can be set; widgets are made from them when shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.results import format_value

__all__ = ["Bound", "Choice", "Control", "LogSlider", "Slider", "Switch", "Text", "told"]

_WIDTH = "430px"
_LABEL = "170px"


@dataclass(frozen=True)
class Slider:
    """A number on a linear scale; whole numbers if `step` and the ends are whole.

    Parameters
    ----------
    name : str
        Argument of the panel's draw function.
    label : str
        What stands beside it, with the unit.
    value, low, high, step : float
        Where it starts, its ends and its grain.
    """

    name: str
    label: str
    value: float
    low: float
    high: float
    step: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ParameterError(self.name, self.value, f"give {self.low:g} to {self.high:g}")

    @property
    def whole(self) -> bool:
        """Whether it moves in whole numbers."""
        return all(isinstance(number, int) for number in (self.value, self.low, self.high, self.step))

    def check(self, value: Any) -> float:
        """Return a value that the control can show, or refuse it."""
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not self.low <= value <= self.high
        ):
            raise ParameterError(self.name, value, f"give {self.low:g} to {self.high:g}")
        return int(value) if self.whole else float(value)

    def bind(self) -> Bound:
        """Make the widget."""
        import ipywidgets

        kind = ipywidgets.IntSlider if self.whole else ipywidgets.FloatSlider
        slider = kind(
            value=self.value,
            min=self.low,
            max=self.high,
            step=self.step,
            description=self.label,
            continuous_update=True,
            **({} if self.whole else {"readout_format": ".2f"}),
            **_look(),
        )
        return Bound(slider, [slider], lambda: slider.value, lambda value: setattr(slider, "value", value))


@dataclass(frozen=True)
class LogSlider:
    """A positive number on a logarithmic scale, with a box for "no limit" where None is a value.

    Parameters
    ----------
    name, label : str
        As for `Slider`.
    value : float or None
        None is "no limit".
    low, high : float
        Ends, both positive.
    none_label : str or None
        Text of the box; without it None can't be chosen.
    """

    name: str
    label: str
    value: float | None
    low: float
    high: float
    none_label: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high:
            raise ParameterError(self.name, (self.low, self.high), "give ends with 0 < low < high")
        self.check(self.value)

    def check(self, value: Any) -> float | None:
        """Return a value that the control can show, or refuse it."""
        if value is None and self.none_label is not None:
            return None
        rest = "" if self.none_label is None else f", or None for {self.none_label}"
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)
        ):
            raise ParameterError(self.name, value, f"give {self.low:g} to {self.high:g}{rest}")
        return float(value)

    def bind(self) -> Bound:
        """Make the widgets: the slider and, where None is a value, its box."""
        import ipywidgets

        start = math.sqrt(self.low * self.high) if self.value is None else self.value
        # the front end snaps to its grid, which therefore has to go through the start value
        at, step = math.log10(start), 0.02
        below = math.floor((at - math.log10(self.low)) / step + 1e-9)
        above = math.floor((math.log10(self.high) - at) / step + 1e-9)
        slider = ipywidgets.FloatLogSlider(
            value=start,
            base=10.0,
            min=at - below * step,
            max=at + above * step,
            step=step,
            description=self.label,
            readout_format=".3g" if self.low >= 1e-3 else ".1e",
            continuous_update=True,
            **_look(),
        )
        if self.none_label is None:
            return Bound(
                slider, [slider], lambda: slider.value, lambda value: setattr(slider, "value", value)
            )
        box = ipywidgets.Checkbox(
            value=self.value is None, description=self.none_label, indent=False, layout={"width": "110px"}
        )
        slider.disabled = box.value

        def switched(change: Mapping[str, Any]) -> None:
            slider.disabled = change["new"]

        box.observe(switched, "value")

        def put(value: float | None) -> None:
            box.value = value is None
            if value is not None:
                slider.value = value

        row = ipywidgets.HBox([slider, box], layout={"align_items": "center"})
        return Bound(row, [slider, box], lambda: None if box.value else slider.value, put)


@dataclass(frozen=True)
class Choice:
    """One of a few named options.

    Parameters
    ----------
    name, label : str
        As for `Slider`.
    value : object
        The option that is chosen at first.
    options : mapping of str to object
        Text -> value.
    """

    name: str
    label: str
    value: Any
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.check(self.value)

    def check(self, value: Any) -> Any:
        """Return a value that the control can show, or refuse it."""
        if value not in self.options.values():
            raise unknown_name(self.name, value, [str(option) for option in self.options.values()])
        return value

    def bind(self) -> Bound:
        """Make the widget."""
        import ipywidgets

        # buttons, not a menu: JupyterLab takes the arrow keys that would open one
        buttons = ipywidgets.ToggleButtons(
            options=list(self.options.items()),
            value=self.value,
            description=self.label,
            style={"description_width": _LABEL, "button_width": "auto"},
        )
        return Bound(
            buttons, [buttons], lambda: buttons.value, lambda value: setattr(buttons, "value", value)
        )


@dataclass(frozen=True)
class Text:
    """A few lines of text; the panel follows while one types.

    Parameters
    ----------
    name, label : str
        As for `Slider`.
    value : str
        What stands there at first.
    """

    name: str
    label: str
    value: str

    def check(self, value: Any) -> str:
        """Return a value that the control can show, or refuse it."""
        if not isinstance(value, str):
            raise ParameterError(self.name, value, "give a text")
        return value

    def bind(self) -> Bound:
        """Make the widget."""
        import ipywidgets

        area = ipywidgets.Textarea(
            value=self.value,
            description=self.label,
            continuous_update=True,
            rows=3,
            layout={"width": "100%", "max_width": "1020px"},
            style={"description_width": "70px"},
        )
        return Bound(area, [area], lambda: area.value, lambda value: setattr(area, "value", value))


@dataclass(frozen=True)
class Switch:
    """Yes or no."""

    name: str
    label: str
    value: bool

    def check(self, value: Any) -> bool:
        """Return a value that the control can show, or refuse it."""
        if not isinstance(value, bool):
            raise ParameterError(self.name, value, "give True or False")
        return value

    def bind(self) -> Bound:
        """Make the widget."""
        import ipywidgets

        box = ipywidgets.Checkbox(
            value=self.value, description=self.label, indent=False, layout={"width": _WIDTH}
        )
        return Bound(box, [box], lambda: box.value, lambda value: setattr(box, "value", value))


Control = Slider | LogSlider | Choice | Switch | Text


def told(control: Control, value: Any) -> str:
    """Return a control's value as the control shows it: the text of a choice, the words for None."""
    if isinstance(control, Choice):
        return next(text for text, option in control.options.items() if option == value)
    if isinstance(control, LogSlider) and value is None:
        return control.none_label or format_value(value)
    return format_value(value)


@dataclass(frozen=True)
class Bound:
    """A control's widget: what to show, what to watch, how to read it and how to set it."""

    widget: Any
    watched: list[Any]
    read: Callable[[], Any]
    put: Callable[[Any], None]

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back on every change, with no argument: what counts is the state when it is read."""
        for part in self.watched:
            part.observe(lambda _: changed(), "value")


def _look() -> dict[str, Any]:
    return {"layout": {"width": _WIDTH}, "style": {"description_width": _LABEL}}
