"""What the clients hand back: typed results, made from a proxy's answers, and errors by status."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clairvoyant_lab.errors import (
    BackendError,
    ParameterError,
    QueueFullError,
    UpstreamStatusError,
    UpstreamTimeoutError,
)
from clairvoyant_lab.results import summary_html

if TYPE_CHECKING:
    import httpx
    import pandas as pd

__all__ = ["ChatChunk", "ChatReply", "EventLines", "PolicyState", "ProxyEvent", "ProxyState", "QueueState"]


@dataclass(frozen=True)
class PolicyState:
    """The policy of a running proxy.

    Attributes
    ----------
    name, label, promotion : str
    starvation_timeout_s : float or None
        τ in seconds; None is no limit.
    rate : float or None
        Of the policy `aging`.
    tau_mode : str
        `fixed`, `auto` or `calibrated`.
    slots : int
    shadow : dict or None
        The policy that is only watched, in shadow mode.
    """

    name: str
    label: str
    starvation_timeout_s: float | None
    promotion: str
    rate: float | None
    tau_mode: str
    slots: int
    shadow: Mapping[str, Any] | None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PolicyState:
        """Make it from the control API's answer."""
        return cls(**{name: value[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class ProxyState:
    """What a proxy is doing at one moment.

    Attributes
    ----------
    policy : PolicyState
    waiting, running : int
    counts : dict of str to int
        received, passed_through, dispatched, promoted, predictor_failures, and one of each outcome.
    by_class : dict
        For Short, Medium, Long, Embedding: n, wait_p50_s, wait_p95_s, sojourn_p50_s, ...
    throughput : dict
        requests_per_s and tokens_per_s over the last minute.
    model, journal : dict
    uptime_s : float
    raw : dict
        The whole answer.
    """

    policy: PolicyState
    waiting: int
    running: int
    counts: Mapping[str, int]
    by_class: Mapping[str, Mapping[str, Any]]
    throughput: Mapping[str, float | None]
    model: Mapping[str, Any]
    journal: Mapping[str, Any]
    uptime_s: float
    draining: bool
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ProxyState:
        """Make it from the control API's answer."""
        plain = {name: value[name] for name in cls.__dataclass_fields__ if name not in ("policy", "raw")}
        return cls(policy=PolicyState.from_json(value["policy"]), raw=value, **plain)

    def summary(self) -> dict[str, object]:
        """The figures people look at first."""
        return {
            "policy": self.policy.label,
            "waiting": self.waiting,
            "running": self.running,
            **{name: count for name, count in self.counts.items() if count},
            **self.throughput,
        }

    def to_frame(self) -> pd.DataFrame:
        """Waits and service times by class, one row a class."""
        import pandas as pd

        rows = [{"length_class": label, **figures} for label, figures in self.by_class.items()]
        return pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        return summary_html("Proxy", self.summary())


@dataclass(frozen=True)
class QueueState:
    """Who runs and who waits, in the order in which they would go.

    Attributes
    ----------
    policy : str
    slots : int
    running, waiting : tuple of dict
        As the control API gives them: request_id, position, waited_s, estimated_wait_s, why, ahead, ...
    """

    policy: str
    slots: int
    running: tuple[Mapping[str, Any], ...]
    waiting: tuple[Mapping[str, Any], ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> QueueState:
        """Make it from the control API's answer."""
        return cls(value["policy"], value["slots"], tuple(value["running"]), tuple(value["waiting"]))

    def summary(self) -> dict[str, object]:
        """Counts."""
        return {
            "policy": self.policy,
            "slots": self.slots,
            "running": len(self.running),
            "waiting": len(self.waiting),
        }

    def to_frame(self) -> pd.DataFrame:
        """One row a waiting request."""
        import pandas as pd

        rows = [
            {name: value for name, value in entry.items() if not isinstance(value, list)}
            for entry in self.waiting
        ]
        return pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        return summary_html("Queue", self.summary())


@dataclass(frozen=True)
class ProxyEvent:
    """One event of the stream: its name, number and data."""

    name: str
    number: int
    data: Mapping[str, Any]


@dataclass(frozen=True)
class ChatReply:
    """A whole answer.

    Attributes
    ----------
    text : str
    response_tokens, prompt_tokens : int or None
        As the backend says.
    finish_reason : str or None
    request_id : str
    p_long, queue_wait_s, position, promoted
        What the proxy says in its headers; None where the answer came from no proxy of ours.
    elapsed_s, first_token_s : float
        Seen from here; `first_token_s` in a stream only.
    """

    text: str
    response_tokens: int | None
    prompt_tokens: int | None
    finish_reason: str | None
    request_id: str | None
    p_long: float | None
    queue_wait_s: float | None
    position: int | None
    promoted: bool | None
    elapsed_s: float
    first_token_s: float | None = None


@dataclass(frozen=True)
class ChatChunk:
    """A piece of a streamed answer."""

    text: str
    finish_reason: str | None = None


def chat_body(
    prompt: str | Iterable[Mapping[str, Any]],
    model: str,
    stream: bool,
    max_tokens: int | None,
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Body of a chat request; a string is one user message."""
    if isinstance(prompt, str):
        messages: list[Mapping[str, Any]] = [{"role": "user", "content": prompt}]
    else:
        messages = list(prompt)
    if not messages:
        raise ParameterError("prompt", prompt, "give a text, or at least one message")
    body: dict[str, Any] = {"model": model, "messages": messages, "stream": stream, **extra}
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    return body


def headers_of(length_class: str | None) -> dict[str, str]:
    """Header in which a client states what it knows."""
    from clairvoyant_lab.errors import unknown_name
    from clairvoyant_lab.serving.prompts_in import STATED_CLASSES

    if length_class is None:
        return {}
    if length_class not in STATED_CLASSES:
        raise unknown_name("length_class", length_class, STATED_CLASSES)
    return {"x-clairvoyant-class": length_class}


def reply_of(response: httpx.Response, elapsed_s: float) -> ChatReply:
    """A whole answer from a response that is not streamed."""
    value = json_of(response)
    choice = (value.get("choices") or [{}])[0]
    usage = value.get("usage") or {}
    message = choice.get("message") or {}
    return ChatReply(
        text=message.get("content") or choice.get("text") or "",
        response_tokens=usage.get("completion_tokens"),
        prompt_tokens=usage.get("prompt_tokens"),
        finish_reason=choice.get("finish_reason"),
        elapsed_s=elapsed_s,
        **_own_headers(response),
    )


def chunk_of(data: str) -> ChatChunk | None:
    """A piece of an answer from one event's data; None for an event without a choice."""
    value = json.loads(data)
    if "error" in value:
        raise BackendError(f"the backend broke off: {_message(value)}")
    choices = value.get("choices") or []
    if not choices:
        return None
    delta = choices[0].get("delta") or {}
    return ChatChunk(delta.get("content") or choices[0].get("text") or "", choices[0].get("finish_reason"))


def _own_headers(response: httpx.Response) -> dict[str, Any]:
    get = response.headers.get
    p_long, wait, position = (get(f"x-clairvoyant-{n}") for n in ("p-long", "queue-wait-ms", "position"))
    promoted = get("x-clairvoyant-promoted")
    return {
        "request_id": get("x-clairvoyant-request-id"),
        "p_long": None if p_long is None else float(p_long),
        "queue_wait_s": None if wait is None else float(wait) / 1000.0,
        "position": None if position is None else int(position),
        "promoted": None if promoted is None else promoted == "true",
    }


def json_of(response: httpx.Response) -> Any:
    """The JSON of an answer.

    Raises
    ------
    BackendError
        If it is no JSON.
    """
    try:
        return response.json()
    except ValueError as error:
        raise BackendError(f"the answer to {response.request.url.path} is no JSON") from error


def raise_for(response: httpx.Response) -> None:
    """Turn a status that is no success into the error that fits; the body must have been read."""
    if response.is_success:
        return
    try:
        message = _message(response.json())
    except ValueError:
        message = response.text[:200]
    message = f"{response.status_code}: {message or response.reason_phrase}"
    if response.status_code == 429:
        after = response.headers.get("Retry-After", "")
        raise QueueFullError(message, float(after) if after.isdigit() else None)
    if response.status_code == 504:
        raise UpstreamTimeoutError(message)
    if response.status_code == 422:
        error = response.json().get("error", {})
        if isinstance(error, dict) and "field" in error:
            raise ParameterError(str(error["field"]), error.get("value"), str(error["remedy"]))
    raise UpstreamStatusError(message, response.status_code)


def _message(value: Any) -> str:
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        return str(error.get("message", error))
    return str(error if error is not None else value)


class EventLines:
    """Collects lines of an event stream into events, wherever the pieces are cut."""

    def __init__(self) -> None:
        self._name, self._number = "message", 0
        self._data: list[str] = []

    def feed(self, line: str) -> Iterator[tuple[str, int, str]]:
        """Take a line without its end; yields `(name, number, data)` when an event is whole."""
        if line == "":
            if self._data:
                yield self._name, self._number, "\n".join(self._data)
            self._name, self._data = "message", []
            return
        if line.startswith(":"):
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id" and value.isdigit():
            self._number = int(value)
