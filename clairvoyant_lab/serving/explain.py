"""Why a request is where it is: its place, its estimated wait, and who goes and went before it."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from clairvoyant_lab.results import counted
from clairvoyant_lab.serving.admission import Dispatch, Line, Waiter

__all__ = ["describe_queue"]

_NAMED = 20
_NAMED_IN_A_CROWD = 3
_CROWD = 200  # a longer line names fewer others for each: it is told while answers stream


def describe_queue(line: Line, now_s: float) -> dict[str, Any]:
    """The line as the control API shows it.

    The estimate supposes that nobody else comes and that answers take as long as predicted. Up to 20 requests
    that go or went before are named for each, 3 where more than 200 wait; the rest are counted.

    Parameters
    ----------
    line : Line
        The live line.
    now_s : float
        Now, on the line's clock.
    """
    order = line.order(now_s)
    keys = dict(
        zip((w.ticket for w in order), map(float, line.keys(order, now_s)), strict=True) if order else ()
    )
    free = [now_s + _left_s(w, now_s) for w in line.running.values()]
    free += [now_s] * (line.slots - len(free))
    heapq.heapify(free)
    dispatches = list(line.dispatches)
    arrivals = np.array([d.arrival_s for d in dispatches])
    named = _NAMED if len(order) <= _CROWD else _NAMED_IN_A_CROWD
    waiting = []
    for place, waiter in enumerate(order):
        start = heapq.heappop(free) if free else now_s
        heapq.heappush(free, start + waiter.expected_service_s)
        # dispatches since it came, as far as they are kept, and those of them that came later
        went = min(line.dispatched - waiter.dispatch_number, len(dispatches))
        since = len(dispatches) - went
        later = since + np.flatnonzero(arrivals[since:] > waiter.arrival_s)
        waiting.append(
            {
                "request_id": waiter.request_id,
                "position": place + 1,
                "position_at_arrival": waiter.position,
                "waited_s": round(now_s - waiter.arrival_s, 6),
                "estimated_wait_s": round(start - now_s, 6),
                "expected_service_s": round(waiter.expected_service_s, 6),
                "p_long": round(waiter.forecast.p_long, 6),
                "predicted_tokens": round(waiter.forecast.predicted_tokens, 2),
                "origin": "background" if waiter.background else waiter.forecast.origin,
                "why": _sentence(line, waiter, place, later.size, now_s),
                "ahead": [
                    {"request_id": a.request_id, "why": _why_ahead(line, a, waiter, keys, now_s)}
                    for a in order[: min(place, named)]
                ],
                "ahead_more": max(0, place - named),
                "overtaken_by": [
                    {
                        "request_id": dispatches[k].request_id,
                        "why": _why_went(line, dispatches[k], waiter, keys),
                    }
                    for k in later[-named:].tolist()
                ],
                "overtaken_by_more": max(0, later.size - named),
                "served_meanwhile": went,
            }
        )
    running = [
        {
            "request_id": w.request_id,
            "running_s": round(now_s - (w.start_s if w.start_s is not None else now_s), 6),
            "expected_left_s": round(_left_s(w, now_s), 6),
            "predicted_tokens": round(w.forecast.predicted_tokens, 2),
            "promoted": w.promoted,
        }
        for w in line.running.values()
    ]
    return {"policy": line.policy.label, "slots": line.slots, "running": running, "waiting": waiting}


def _left_s(waiter: Waiter, now_s: float) -> float:
    ran = now_s - (waiter.start_s if waiter.start_s is not None else now_s)
    left = waiter.expected_service_s - ran
    # past its estimate a request is taken to need a tenth of what it has used
    return left if left > 0.0 else 0.1 * ran


def _sentence(line: Line, waiter: Waiter, ahead: int, overtaken: int, now_s: float) -> str:
    timeout = line.policy.starvation_timeout_s
    if timeout is not None and now_s - waiter.arrival_s > timeout:
        start = f"has waited longer than τ = {timeout:g} s and may be promoted"
    elif waiter.background:
        start = "stated as background: goes after all others"
    elif waiter.forecast.origin == "embedding":
        start = "an embedding call: goes as the shortest job"
    elif line.policy.name == "fcfs":
        start = "goes in order of arrival"
    elif line.policy.name == "sjf":
        start = f"ordered by P(Long) = {waiter.forecast.p_long:.3f}"
    else:
        start = f"ordered under {line.policy.name}, {_tokens(waiter.forecast.predicted_tokens)} predicted"
    passed = f", {overtaken} that came later went before" if overtaken else ""
    return f"{start}; {ahead} ahead{passed}"


def _tokens(predicted: float) -> str:
    return counted(round(predicted), "token")


def _why_ahead(line: Line, other: Waiter, waiter: Waiter, keys: dict[int, float], now_s: float) -> str:
    timeout = line.policy.starvation_timeout_s
    if timeout is not None and now_s - other.arrival_s > timeout:
        return f"has waited longer than τ = {timeout:g} s"
    mine, theirs = keys[waiter.ticket], keys[other.ticket]
    return _by_key(
        line, theirs, mine, other.forecast.predicted_tokens, waiter, other.forecast.origin == "embedding"
    )


def _why_went(line: Line, gone: Dispatch, waiter: Waiter, keys: dict[int, float]) -> str:
    if gone.promoted:
        return "had waited longer than τ"
    if gone.policy != line.policy.name:
        return f"went under policy {gone.policy}, in force then"
    return _by_key(
        line, gone.key, keys[waiter.ticket], gone.predicted_tokens, waiter, gone.key == float("-inf")
    )


def _by_key(line: Line, theirs: float, mine: float, tokens: float, waiter: Waiter, embedding: bool) -> str:
    if embedding:
        return "an embedding call, the shortest job"
    if waiter.background and theirs < mine:
        return "not background"
    if line.policy.name == "fcfs":
        return "arrived earlier"
    if theirs < mine:
        if line.policy.name == "sjf":
            return f"lower P(Long): {theirs:.3f} against {mine:.3f}"
        if line.policy.name == "sjf_tokens":
            return f"shorter: {_tokens(theirs)} predicted against {round(mine):,}"
        if line.policy.name == "sjf_service":
            return f"shorter: {theirs:.2f} s expected against {mine:.2f} s"
        return f"smaller key under {line.policy.name} ({_tokens(tokens)} predicted)"
    if theirs == mine:
        return "same key, arrived earlier"
    return f"smaller key under {line.policy.name} at that time"
