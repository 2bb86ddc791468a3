"""What to set: calibrated τ and α, a deploy gate for predictors, and what-if replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.lazy import lazy_names

if TYPE_CHECKING:
    from clairvoyant_lab.advice.alpha import AlphaAdvice as AlphaAdvice
    from clairvoyant_lab.advice.alpha import calibrate_alpha as calibrate_alpha
    from clairvoyant_lab.advice.gate import GateResult as GateResult
    from clairvoyant_lab.advice.gate import deploy_gate as deploy_gate
    from clairvoyant_lab.advice.replay import WhatIf as WhatIf
    from clairvoyant_lab.advice.replay import what_if as what_if
    from clairvoyant_lab.advice.tau import TauAdvice as TauAdvice
    from clairvoyant_lab.advice.tau import calibrate_tau as calibrate_tau

__all__ = [
    "AlphaAdvice",
    "GateResult",
    "TauAdvice",
    "WhatIf",
    "calibrate_alpha",
    "calibrate_tau",
    "deploy_gate",
    "what_if",
]

__getattr__ = lazy_names(
    __name__,
    {
        "AlphaAdvice": "alpha",
        "GateResult": "gate",
        "TauAdvice": "tau",
        "WhatIf": "replay",
        "calibrate_alpha": "alpha",
        "calibrate_tau": "tau",
        "deploy_gate": "gate",
        "what_if": "replay",
    },
)
