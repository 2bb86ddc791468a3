"""Panels: sliders and live views for notebooks, made of figures and calls.

```python
from clairvoyant_lab.figures.show import show
from clairvoyant_lab.panels import tau_panel

show(tau_panel(rho=0.74, seed=42))     # live in JupyterLab; a static figure with its numbers elsewhere
```
"""

from __future__ import annotations

from clairvoyant_lab.lazy import lazy_names

# name -> the module that defines it
_HOMES = {
    "Choice": "controls",
    "LogSlider": "controls",
    "Slider": "controls",
    "Switch": "controls",
    "Text": "controls",
    "Panel": "panel",
    "View": "panel",
    "LivePanel": "live",
    "LiveStand": "stand",
    "batch_panel": "batches",
    "bounds_panel": "corpus",
    "day_panel": "starvation",
    "gantt_panel": "batches",
    "profit_panel": "batches",
    "prompt_panel": "prompt",
    "tau_panel": "starvation",
    "watch_live": "stand",
}

__all__ = [
    "Choice",
    "LivePanel",
    "LiveStand",
    "LogSlider",
    "Panel",
    "Slider",
    "Switch",
    "Text",
    "View",
    "batch_panel",
    "bounds_panel",
    "day_panel",
    "gantt_panel",
    "profit_panel",
    "prompt_panel",
    "tau_panel",
    "watch_live",
]

__getattr__ = lazy_names(__name__, _HOMES)
