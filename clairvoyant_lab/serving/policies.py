"""Policies as a proxy takes them: by its settings, and only those that can run live."""

from __future__ import annotations

from typing import Any

from clairvoyant_lab.errors import ParameterError, called
from clairvoyant_lab.scheduling.serial import SerialPolicy, serial_policy
from clairvoyant_lab.serving.config import ProxySettings

__all__ = ["LIVE_POLICIES", "asked_policy", "check_live", "named_policy"]

LIVE_POLICIES = ("fcfs", "sjf", "sjf_tokens", "sjf_service", "aging", "hrrn")


def check_live(policy: SerialPolicy, field: str = "policy") -> None:
    """Refuse a policy that a live queue cannot run; `field` is the caller's word for its name.

    Raises
    ------
    ParameterError
        For `srpt` (preemptive) and `oracle` (needs the true service time).
    """
    if policy.function is None and policy.name not in LIVE_POLICIES:
        raise ParameterError(
            field, policy.name, f"cannot run live; choose one of {', '.join(LIVE_POLICIES)} or a function"
        )


def named_policy(
    name: str,
    starvation_timeout_s: float | None,
    promotion: str,
    aging_rate: float,
    *,
    field: str = "policy",
) -> SerialPolicy:
    """A live policy by name; `aging_rate` goes to the one policy that takes it.

    `field` is the caller's word for the name, which an error tells.

    Raises
    ------
    ParameterError
        For an unknown name or rule, a bad τ, or a policy that cannot run live.
    """
    extra: dict[str, Any] = {"rate": aging_rate} if name == "aging" else {}
    with called(field):
        policy = serial_policy(name, starvation_timeout_s=starvation_timeout_s, promotion=promotion, **extra)
    check_live(policy, field)
    return policy


def asked_policy(settings: ProxySettings) -> SerialPolicy:
    """The policy that settings name, shadow mode or not."""
    return named_policy(
        settings.policy, settings.starvation_timeout_s, settings.promotion, settings.aging_rate
    )
