"""A scheduled request on its way through, and what is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clairvoyant_lab.serving.admission import Waiter
from clairvoyant_lab.serving.exchange import Exchange
from clairvoyant_lab.serving.forecast import EMBEDDING, Forecast
from clairvoyant_lab.serving.history import Finished
from clairvoyant_lab.serving.prompts_in import Ask

__all__ = ["Job"]


@dataclass(slots=True, eq=False)
class Job:
    """One scheduled request. `outcome` is what it would count as if it ended now; empty counts as nothing."""

    request_id: str
    path: str
    dialect: str
    arrival_s: float
    arrival_unix_s: float
    ask: Ask | None = None
    stated: str | None = None
    forecast: Forecast = EMBEDDING
    waiter: Waiter | None = None
    exchange: Exchange | None = None
    outcome: str = "gone_queued"
    status: int = 499
    first_token_at_s: float | None = None
    features: tuple[bytes, bytes | None, bytes | None] | None = None
    model: str = ""

    def headers(self, now_s: float) -> dict[str, str]:
        """Our response headers of a dispatched request."""
        waiter = self.waiter
        assert waiter is not None
        return {
            "x-clairvoyant-p-long": f"{self.forecast.p_long:.6f}",
            "x-clairvoyant-queue-wait-ms": f"{waiter.wait_s(now_s) * 1000:.1f}",
            "x-clairvoyant-position": str(waiter.position),
            "x-clairvoyant-promoted": "true" if waiter.promoted else "false",
            "x-clairvoyant-request-id": self.request_id,
        }

    def queued_event(self, waiting: int) -> dict[str, Any]:
        """What the event stream tells when it takes its place."""
        return {
            "request_id": self.request_id,
            "path": self.path,
            "position": 1 if self.waiter is None else self.waiter.position,
            "p_long": round(self.forecast.p_long, 6),
            "predicted_tokens": round(self.forecast.predicted_tokens, 2),
            "predicted_class": self.forecast.length_class.label,
            "origin": self.forecast.origin,
            "stated": self.stated,
            "waiting": waiting,
        }

    def finished(self, now_s: float, policy: str) -> Finished:
        """The record of its end."""
        waiter, exchange = self.waiter, self.exchange
        tokens = prompt_tokens = None
        if exchange is not None:
            self.outcome, self.status = exchange.outcome, exchange.status
            if exchange.tally is not None and exchange.outcome == "done":
                tokens, prompt_tokens = exchange.tally.response_tokens(), exchange.tally.prompt_tokens()
        start_s = None if waiter is None else waiter.start_s
        return Finished(
            request_id=self.request_id,
            arrival_unix_s=self.arrival_unix_s,
            arrival_s=self.arrival_s,
            path=self.path,
            outcome=self.outcome,
            status=self.status,
            origin=self.forecast.origin,
            stated=self.stated,
            probabilities=self.forecast.probabilities,
            predicted_tokens=self.forecast.predicted_tokens,
            expected_service_s=0.0 if waiter is None else waiter.expected_service_s,
            token_cap=None if self.ask is None else self.ask.token_cap,
            prompt_tokens=prompt_tokens,
            response_tokens=tokens,
            wait_s=(now_s if start_s is None else start_s) - self.arrival_s,
            first_token_s=None if self.first_token_at_s is None else self.first_token_at_s - self.arrival_s,
            service_s=None if start_s is None else now_s - start_s,
            promoted=waiter is not None and waiter.promoted,
            position=0 if waiter is None else waiter.position,
            policy=policy,
            stream=self.ask is not None and self.ask.stream,
        )
