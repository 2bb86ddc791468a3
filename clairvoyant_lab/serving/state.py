"""What the proxy is doing, as plain JSON values: the answers of the control API's read routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clairvoyant_lab import __version__

if TYPE_CHECKING:
    from clairvoyant_lab.scheduling.serial import SerialPolicy
    from clairvoyant_lab.serving.proxy import Proxy

__all__ = ["model_state", "policy_state", "proxy_state"]


def policy_state(proxy: Proxy) -> dict[str, Any]:
    """The policy in force, how τ is set, the slots, and the shadow policy if there is one."""
    return {
        **_policy(proxy.line.policy),
        "tau_mode": proxy.tuner.mode,
        "slots": proxy.line.slots,
        "shadow": None if proxy.shadow is None else _policy(proxy.shadow.policy),
    }


def model_state(proxy: Proxy) -> dict[str, Any]:
    """The predictor in use: name, schema, class means, and whether it can be rolled back."""
    predictor: Any = proxy.forecaster.predictor
    info = predictor.info
    return {
        "name": str(getattr(info, "name", proxy.recorder.model_name)),
        "source": proxy.recorder.model_name,
        "schema": _text(getattr(info, "schema", None)),
        "schema_hash": _text(getattr(info, "schema_hash", None)),
        "class_mean_tokens": [float(mean) for mean in predictor.info.class_mean_tokens],
        "can_roll_back": proxy.forecaster.can_roll_back,
        "failures": proxy.forecaster.failures,
    }


def proxy_state(proxy: Proxy) -> dict[str, Any]:
    """Everything a live view needs in one answer."""
    history, line = proxy.history, proxy.line
    uptime = proxy.clock() - proxy.started_s
    return {
        "version": __version__,
        "backend": proxy.settings.backend,
        "uptime_s": round(uptime, 3),
        "draining": proxy.admission.draining,
        "policy": policy_state(proxy),
        "model": model_state(proxy),
        "waiting": len(line.waiting),
        "running": len(line.running),
        "counts": {
            "received": history.received,
            "passed_through": history.passed_through,
            "dispatched": line.dispatched,
            "promoted": line.promoted,
            "predictor_failures": proxy.forecaster.failures,
            "policy_key_failures": line.key_failures,
            **history.outcomes,
        },
        "window": len(history.recent),
        "by_class": history.by_class(),
        "pace": {
            "overhead_s": history.pace.overhead_s,
            "per_token_s": history.pace.per_token_s,
        },
        "throughput": _throughput(proxy),
        "journal": proxy.recorder.state(),
        "shadow": None if proxy.shadow is None else proxy.shadow.state(),
    }


def _throughput(proxy: Proxy) -> dict[str, float | None]:
    """Requests and response tokens a second over the window of finished requests (up to 60 s back)."""
    now = proxy.clock()
    recent = [
        r for r in proxy.history.recent if now - (r.arrival_s + r.wait_s + (r.service_s or 0.0)) <= 60.0
    ]
    span = min(60.0, now - proxy.started_s)
    if span <= 0.0:
        return {"requests_per_s": None, "tokens_per_s": None}
    return {
        "requests_per_s": len(recent) / span,
        "tokens_per_s": sum(r.response_tokens or 0 for r in recent) / span,
    }


def _policy(policy: SerialPolicy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "label": policy.label,
        "starvation_timeout_s": policy.starvation_timeout_s,
        "promotion": policy.promotion,
        "rate": policy.rate_per_s,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
