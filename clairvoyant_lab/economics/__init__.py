"""Costs, prices and demand around a batch scheduler (ISJL, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.lazy import lazy_names

if TYPE_CHECKING:
    from clairvoyant_lab.economics.costs import CostBreakdown as CostBreakdown
    from clairvoyant_lab.economics.costs import ProfitComparison as ProfitComparison
    from clairvoyant_lab.economics.costs import ProfitGuarantee as ProfitGuarantee
    from clairvoyant_lab.economics.costs import alpha_cost as alpha_cost
    from clairvoyant_lab.economics.costs import break_even_step_cost as break_even_step_cost
    from clairvoyant_lab.economics.costs import certified_profit as certified_profit
    from clairvoyant_lab.economics.costs import compare_profit as compare_profit
    from clairvoyant_lab.economics.costs import cost_breakdown as cost_breakdown
    from clairvoyant_lab.economics.costs import cost_frame as cost_frame
    from clairvoyant_lab.economics.costs import profit_guarantee as profit_guarantee
    from clairvoyant_lab.economics.demand import DelayDemand as DelayDemand
    from clairvoyant_lab.economics.demand import accept_by_length as accept_by_length
    from clairvoyant_lab.economics.demand import accept_with_delay as accept_with_delay
    from clairvoyant_lab.economics.demand import acceptance_probability as acceptance_probability
    from clairvoyant_lab.economics.demand import table1_workload as table1_workload
    from clairvoyant_lab.economics.prices import ModelPrice as ModelPrice
    from clairvoyant_lab.economics.prices import PriceList as PriceList

_HOMES = {
    "CostBreakdown": "costs",
    "DelayDemand": "demand",
    "ModelPrice": "prices",
    "PriceList": "prices",
    "ProfitComparison": "costs",
    "ProfitGuarantee": "costs",
    "accept_by_length": "demand",
    "accept_with_delay": "demand",
    "acceptance_probability": "demand",
    "alpha_cost": "costs",
    "break_even_step_cost": "costs",
    "certified_profit": "costs",
    "compare_profit": "costs",
    "cost_breakdown": "costs",
    "cost_frame": "costs",
    "profit_guarantee": "costs",
    "table1_workload": "demand",
}

__all__ = sorted(_HOMES)

__getattr__ = lazy_names(__name__, _HOMES)
