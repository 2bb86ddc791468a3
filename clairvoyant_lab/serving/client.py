"""`ProxyClient`: talk to a running proxy, for people and notebooks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import httpx

from clairvoyant_lab.errors import BackendError, ParameterError, UpstreamTimeoutError
from clairvoyant_lab.serving.replies import (
    ChatChunk,
    ChatReply,
    EventLines,
    PolicyState,
    ProxyEvent,
    ProxyState,
    QueueState,
    chat_body,
    chunk_of,
    headers_of,
    json_of,
    raise_for,
    reply_of,
)

__all__ = ["KEEP", "ProxyClient", "policy_fields"]


class _Keep:
    """Marks a field that is left as it is; None is a value (no limit)."""

    def __repr__(self) -> str:
        return "KEEP"


KEEP: Any = _Keep()


def policy_fields(**given: Any) -> dict[str, Any]:
    """Fields that are not KEEP."""
    return {name: value for name, value in given.items() if value is not KEEP}


class ProxyClient:
    """A client of one proxy.

    Parameters
    ----------
    base_url : str
        Where the proxy listens.
    token : str, optional
        Of the control routes, where one is needed.
    timeout_s : float or None
        For a control call, and to connect.
    chat_timeout_s : float or None
        For an answer, waiting in the queue included; None waits as long as it takes.

    Raises
    ------
    BackendError
        From every method: the proxy cannot be reached, or answers with an error.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        timeout_s: float | None = 10.0,
        chat_timeout_s: float | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ParameterError("base_url", base_url, "give an http:// or https:// URL")
        self.base_url = base_url.rstrip("/")
        self._chat_timeout = httpx.Timeout(chat_timeout_s, connect=timeout_s)
        self._control = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(
            base_url=self.base_url, timeout=httpx.Timeout(timeout_s), transport=transport, trust_env=False
        )

    def __enter__(self) -> ProxyClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ProxyClient({self.base_url!r})"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def healthy(self) -> bool:
        """Whether a proxy answers and takes requests."""
        try:
            return self._http.get("/clairvoyant/healthz").status_code == 200
        except httpx.HTTPError:
            return False

    def state(self) -> ProxyState:
        """What it is doing."""
        return ProxyState.from_json(self._call("GET", "/clairvoyant/state"))

    def queue(self) -> QueueState:
        """Who waits, where and why."""
        return QueueState.from_json(self._call("GET", "/clairvoyant/queue"))

    def policy(self) -> PolicyState:
        """The policy in force."""
        return PolicyState.from_json(self._call("GET", "/clairvoyant/policy"))

    def set_policy(
        self,
        name: str = KEEP,
        starvation_timeout_s: float | None = KEEP,
        *,
        promotion: str = KEEP,
        slots: int = KEEP,
        tau_mode: str = KEEP,
        rate: float = KEEP,
        shadow: bool = KEEP,
    ) -> PolicyState:
        """Change the policy; what is not given stays. `starvation_timeout_s=None` takes the limit away.

        Raises
        ------
        ParameterError
            If the proxy refuses a value; nothing was changed.
        """
        fields = policy_fields(
            name=name,
            starvation_timeout_s=starvation_timeout_s,
            promotion=promotion,
            slots=slots,
            tau_mode=tau_mode,
            rate=rate,
            shadow=shadow,
        )
        return PolicyState.from_json(self._call("PATCH", "/clairvoyant/policy", fields))

    def model(self) -> Mapping[str, Any]:
        """The predictor in use."""
        return dict(self._call("GET", "/clairvoyant/model"))

    def swap_model(self, model: str) -> Mapping[str, Any]:
        """Use another model: a name, or the path of a file on the proxy's machine. No request is dropped."""
        return dict(self._call("POST", "/clairvoyant/model", {"model": model}))

    def roll_back_model(self) -> Mapping[str, Any]:
        """Return to the model before the last swap."""
        return dict(self._call("POST", "/clairvoyant/model/rollback"))

    def shadow(
        self, policy: str | None = None, starvation_timeout_s: float | None = KEEP
    ) -> Mapping[str, Any]:
        """What a policy would have done with the last requests, beside first-come-first-served."""
        params: dict[str, str] = {} if policy is None else {"policy": policy}
        if starvation_timeout_s is not KEEP:
            params["starvation_timeout_s"] = (
                "none" if starvation_timeout_s is None else str(starvation_timeout_s)
            )
        return dict(self._call("GET", "/clairvoyant/shadow", params=params))

    def metrics(self) -> str:
        """The metrics in Prometheus' text format."""
        with self._errors():
            response = self._http.get("/clairvoyant/metrics", headers=self._control)
        raise_for(response)
        return response.text

    def events(self, *, limit: int | None = None, timeout_s: float | None = None) -> Iterator[ProxyEvent]:
        """Events as they happen; the first is `hello` with the state.

        Parameters
        ----------
        limit : int, optional
            Stop after so many events.
        timeout_s : float, optional
            Stop after so many seconds (looked at with every line, the proxy's heartbeat included).
        """
        began, count = time.monotonic(), 0
        lines = EventLines()
        waits = httpx.Timeout(self._http.timeout.connect, read=60.0 if timeout_s is None else timeout_s + 1.0)
        with (
            self._errors(),
            self._http.stream("GET", "/clairvoyant/events", headers=self._control, timeout=waits) as response,
        ):
            if not response.is_success:
                response.read()
                raise_for(response)
            for line in _lines(response.iter_bytes()):
                for name, number, data in lines.feed(line):
                    yield ProxyEvent(name, number, json.loads(data))
                    count += 1
                    if count == limit:
                        return
                if timeout_s is not None and time.monotonic() - began > timeout_s:
                    return

    def chat(
        self,
        prompt: str | Iterable[Mapping[str, Any]],
        *,
        model: str = "default",
        max_tokens: int | None = None,
        length_class: str | None = None,
        **extra: Any,
    ) -> ChatReply:
        """Ask and wait for the whole answer.

        Parameters
        ----------
        prompt : str or iterable of messages
            A string is one user message.
        model : str
            The backend's model.
        max_tokens : int, optional
            Cap; the proxy counts on it.
        length_class : {"short", "medium", "long", "background"}, optional
            What you know of the answer's length.
        **extra
            Further fields of the request.
        """
        body = chat_body(prompt, model, False, max_tokens, extra)
        began = time.monotonic()
        with self._errors():
            response = self._http.post(
                "/v1/chat/completions",
                json=body,
                headers=headers_of(length_class),
                timeout=self._chat_timeout,
            )
        raise_for(response)
        return reply_of(response, time.monotonic() - began)

    def stream_chat(
        self,
        prompt: str | Iterable[Mapping[str, Any]],
        *,
        model: str = "default",
        max_tokens: int | None = None,
        length_class: str | None = None,
        **extra: Any,
    ) -> Iterator[ChatChunk]:
        """Ask and get the answer piece by piece; closing the iterator leaves, which frees the slot."""
        body = chat_body(prompt, model, True, max_tokens, extra)
        lines = EventLines()
        with (
            self._errors(),
            self._http.stream(
                "POST",
                "/v1/chat/completions",
                json=body,
                headers=headers_of(length_class),
                timeout=self._chat_timeout,
            ) as response,
        ):
            if not response.is_success:
                response.read()
                raise_for(response)
            for line in _lines(response.iter_bytes()):
                for _, _, data in lines.feed(line):
                    if data == "[DONE]":
                        return
                    chunk = chunk_of(data)
                    if chunk is not None:
                        yield chunk

    def _call(
        self, method: str, path: str, body: Any = None, params: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        with self._errors():
            response = self._http.request(method, path, json=body, params=params, headers=self._control)
        raise_for(response)
        value: Mapping[str, Any] = json_of(response)
        return value

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.TimeoutException as error:
            raise UpstreamTimeoutError(f"{self.base_url} did not answer in time") from error
        except httpx.HTTPError as error:
            raise BackendError(f"{self.base_url} cannot be reached or broke off ({error})") from error


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Lines of an event stream: cut at CR, LF or CRLF only, a character may be cut by a piece."""
    splitter = LineSplitter()
    for piece in pieces:
        yield from splitter.feed(piece)


class LineSplitter:
    """Cuts pieces of bytes into lines at LF, CR or CRLF, and at nothing else."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[str]:
        """Whole lines so far; a trailing CR waits, for an LF may follow."""
        text = self._rest + piece
        held = b""
        if text.endswith(b"\r"):
            text, held = text[:-1], b"\r"
        lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop() + held
        return [line.decode("utf-8", "replace") for line in lines]
