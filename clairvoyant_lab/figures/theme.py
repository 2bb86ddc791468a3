"""One look for every figure: template, class colours, policy colours.

```python
from clairvoyant_lab.figures import theme

figure = theme.new_figure(title="Wait by class", x_title="time (s)", y_title="wait (s)")
figure.add_scatter(x=x, y=y, name=theme.policy_label("sjf"), line=theme.policy_line("sjf"))
figure.add_bar(x=x, y=y, marker_color=theme.class_colour("Long"))
```

The colours were searched for the largest smallest distance (CIE76 in CIELAB, D65), seen with normal vision
and with deuteranopia as Machado, Oliveira and Fernandes (2009) simulate it. What they keep is stated below
and tested: any two classes are `MIN_CLASS_DISTANCE` apart, any two policies of one world (serial, batch)
`MIN_POLICY_DISTANCE`, either way of seeing. Policies differ by dash too, so colour is never alone.
"""

from __future__ import annotations

import functools
import math
import re
import zlib
from typing import TYPE_CHECKING, Any

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.lengths import LengthClass

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from plotly.graph_objects.layout import Template

__all__ = [
    "BATCH_POLICIES",
    "CLASS_COLOURS",
    "COST_COLOURS",
    "MIN_CLASS_DISTANCE",
    "MIN_POLICY_DISTANCE",
    "POLICY_COLOURS",
    "POLICY_LABELS",
    "SEQUENTIAL",
    "SERIAL_POLICIES",
    "class_colour",
    "log_ticks",
    "new_figure",
    "policy_colour",
    "policy_dash",
    "policy_label",
    "policy_line",
    "run_label",
    "template",
    "template_name",
]

# CIE76 distances that the tests hold the palettes to
MIN_CLASS_DISTANCE = 50.0
MIN_POLICY_DISTANCE = 25.0

CLASS_COLOURS: dict[str, str] = {"Short": "#2a9fd6", "Medium": "#e0a21b", "Long": "#7b1e3a"}

SERIAL_POLICIES = ("fcfs", "sjf", "sjf_tokens", "sjf_service", "oracle", "srpt", "aging", "hrrn")
BATCH_POLICIES = (
    "fcfs",
    "sjf",
    "ljf",
    "isjl",
    "isjl_b2",
    "isjl_literal",
    "isjl_unguarded",
    "slack",
    "cohort",
    "robust",
    "online",
    "optimum",
)
POLICY_COLOURS: dict[str, str] = {
    "fcfs": "#6b7280",
    "sjf": "#0072b2",
    # serial
    "sjf_tokens": "#3fb86e",
    "sjf_service": "#001751",
    "oracle": "#111111",
    "srpt": "#fb81ed",
    "aging": "#6d3706",
    "hrrn": "#bfac26",
    # batch
    "ljf": "#e29a30",
    "isjl": "#670762",
    "isjl_b2": "#e37684",
    "isjl_literal": "#4f5e3e",
    "isjl_unguarded": "#16014f",
    "slack": "#61b6e9",
    "cohort": "#327b05",
    "robust": "#617bf9",
    "online": "#1032a0",
    "optimum": "#111111",
}
POLICY_LABELS: dict[str, str] = {
    "fcfs": "FCFS",
    "sjf": "SJF",
    "sjf_tokens": "SJF (tokens)",
    "sjf_service": "SJF (service)",
    "oracle": "oracle SJF",
    "srpt": "SRPT",
    "aging": "aging",
    "hrrn": "HRRN",
    "ljf": "LJF",
    "isjl": "ISJL",
    "isjl_b2": "ISJL (B = 2)",
    "isjl_literal": "ISJL as printed",
    "isjl_unguarded": "ISJL unguarded",
    "slack": "slack",
    "cohort": "cohort",
    "robust": "Robust-ISJL",
    "online": "Online-ISJL",
    "optimum": "optimum",
}
_DASHES: dict[str, str] = {
    "fcfs": "solid",
    "sjf": "solid",
    "sjf_tokens": "dash",
    "sjf_service": "dashdot",
    "oracle": "dot",
    "srpt": "longdash",
    "aging": "longdashdot",
    "hrrn": "dash",
    "ljf": "dash",
    "isjl": "solid",
    "isjl_b2": "dashdot",
    "isjl_literal": "dot",
    "isjl_unguarded": "longdash",
    "slack": "dash",
    "cohort": "solid",
    "robust": "dashdot",
    "online": "longdashdot",
    "optimum": "dot",
}
# a user's own policies take these, by name, so that one keeps its colour in every figure
_OWN_COLOURS = ("#b5651d", "#00838f", "#ad1457", "#827717", "#5e35b1", "#2e7d32")
_OWN_DASHES = ("dash", "dashdot", "longdash", "dot")

# Parts of the money that a batch costs (ISJL, section 5.1)
COST_COLOURS: dict[str, str] = {
    "revenue": "#3fb86e",
    "intrinsic": "#6b7280",
    "time": "#e0a21b",
    "externality": "#7b1e3a",
    "profit": "#0072b2",
}
# for heat maps: even steps in lightness, the same order with and without colour vision
SEQUENTIAL = "Cividis"

_FONT = "Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"
_INK = "#1f2937"
_GRID = "#e5e7eb"


def class_colour(length_class: LengthClass | int | str) -> str:
    """Return the colour of a length class, given as `LengthClass`, 0..2 or its label.

    Raises
    ------
    ParameterError
        For anything else.
    """
    if isinstance(length_class, str):
        label = length_class.capitalize()
    else:
        try:
            label = LengthClass(length_class).label
        except ValueError:
            label = ""
    if label not in CLASS_COLOURS:
        raise ParameterError("length_class", length_class, f"give one of {', '.join(CLASS_COLOURS)}")
    return CLASS_COLOURS[label]


def policy_colour(name: str) -> str:
    """Return a policy's colour; a name of the user's own gets one that stays with the name."""
    return POLICY_COLOURS.get(name) or _OWN_COLOURS[zlib.crc32(name.encode()) % len(_OWN_COLOURS)]


def policy_dash(name: str) -> str:
    """Return a policy's line dash, the second mark beside its colour."""
    return _DASHES.get(name) or _OWN_DASHES[zlib.crc32(name.encode()) // 7 % len(_OWN_DASHES)]


def policy_label(name: str) -> str:
    """Return a policy's name as figures and tables write it."""
    return POLICY_LABELS.get(name, name)


def run_label(label: str) -> str:
    """Return a run's label with its policy as figures write it: `isjl(100)` is `ISJL(100)`."""
    name = re.split(r"[(,]", label, maxsplit=1)[0]
    return policy_label(name) + label[len(name) :]


def log_ticks(least: float, most: float) -> dict[str, Any]:
    """Return ticks at 1, 2 and 5 times each power of ten, written out, for a logarithmic axis.

    Plotly's own would write a lone 2 for 20 and for 200.

    Parameters
    ----------
    least, most : float
        Ends of what is drawn, both positive; a decade more is given either way.
    """
    decades = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 1)
    values = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    return {"tickvals": values, "ticktext": [f"{value:,.10g}" for value in values]}


def policy_line(name: str, width: float = 2.5) -> dict[str, Any]:
    """Return a policy's line style for plotly: colour, dash, width."""
    return {"color": policy_colour(name), "dash": policy_dash(name), "width": width}


@functools.cache
def template() -> Template:
    """Return the shared plotly template; plotly is imported now, not before."""
    import plotly.graph_objects as go

    axis = {
        "gridcolor": _GRID,
        "linecolor": "#9ca3af",
        "ticks": "outside",
        "tickcolor": "#9ca3af",
        "zeroline": False,
        "showline": True,
        "automargin": True,
        "title": {"standoff": 10},
    }
    return go.layout.Template(
        layout={
            "font": {"family": _FONT, "size": 13, "color": _INK},
            "title": {"font": {"size": 16}, "x": 0.0, "xref": "paper", "xanchor": "left"},
            "paper_bgcolor": "white",
            "plot_bgcolor": "white",
            "colorway": [
                POLICY_COLOURS[name] for name in ("sjf", "fcfs", "ljf", "cohort", "isjl", "slack", "srpt")
            ],
            "colorscale": {"sequential": SEQUENTIAL},
            "xaxis": axis,
            "yaxis": axis,
            "bargap": 0.25,
            "legend": {"orientation": "v", "bgcolor": "rgba(255,255,255,0.85)", "font": {"size": 12}},
            "margin": {"l": 70, "r": 24, "t": 56, "b": 60},
            "hoverlabel": {"font": {"family": _FONT, "size": 12}},
            "hovermode": "closest",
            "height": 420,
        },
        data={
            "bar": [go.Bar(marker={"line": {"width": 0}})],
            "heatmap": [go.Heatmap(colorscale=SEQUENTIAL)],
        },
    )


def template_name() -> str:
    """Register the template with plotly (once) and return its name, for `plotly.express` and friends."""
    import plotly.io as pio

    if "clairvoyant" not in pio.templates:
        pio.templates["clairvoyant"] = template()
    return "clairvoyant"


def new_figure(
    *,
    title: str | None = None,
    x_title: str | None = None,
    y_title: str | None = None,
    **layout: Any,
) -> Figure:
    """Return an empty figure in the shared look.

    Parameters
    ----------
    title, x_title, y_title : str, optional
        Texts; axis titles carry their unit in parentheses.
    **layout
        Further layout properties of plotly, as `height=300` or `xaxis_type="log"`.
    """
    import plotly.graph_objects as go

    return go.Figure(
        layout={
            "template": template(),
            "title_text": title,
            "xaxis_title_text": x_title,
            "yaxis_title_text": y_title,
            **layout,
        }
    )
