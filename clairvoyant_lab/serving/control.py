"""The control API under /clairvoyant/: state, queue, policy, model, shadow, events, metrics, healthz."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web

from clairvoyant_lab.errors import ClairvoyantError, ParameterError, unknown_name
from clairvoyant_lab.scheduling.serial import SerialPolicy, serial_policy
from clairvoyant_lab.serving.bodies import BodyFaultError, read_body
from clairvoyant_lab.serving.config import TAU_MODES, is_loopback
from clairvoyant_lab.serving.events import format_event
from clairvoyant_lab.serving.explain import describe_queue
from clairvoyant_lab.serving.metrics import CONTENT_TYPE, render_metrics
from clairvoyant_lab.serving.policies import named_policy
from clairvoyant_lab.serving.shadow import Shadow, compare_on_window
from clairvoyant_lab.serving.state import model_state, policy_state, proxy_state

if TYPE_CHECKING:
    from clairvoyant_lab.serving.proxy import Proxy

__all__ = ["Control"]

_PATCHABLE = ("name", "starvation_timeout_s", "promotion", "slots", "tau_mode", "rate", "shadow")
_MOST_SLOTS = 1024
_MOST_SECONDS = 1e9
_HEARTBEAT_S = 15.0

log = logging.getLogger("clairvoyant_lab.proxy")

Route = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _RefusalError(Exception):
    """An answer that is not a success."""

    def __init__(self, status: int, code: str, message: str, **details: Any) -> None:
        self.status, self.body = status, {"error": {"code": code, "message": message, **details}}
        super().__init__(message)


class Control:
    """Routes of the control API.

    Parameters
    ----------
    proxy : Proxy
        What is controlled.
    """

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._swapping = asyncio.Lock()
        self._routes: dict[str, dict[str, Route]] = {
            "/clairvoyant/healthz": {"GET": self._healthz},
            "/clairvoyant/state": {"GET": self._state},
            "/clairvoyant/queue": {"GET": self._queue},
            "/clairvoyant/policy": {"GET": self._policy, "PATCH": self._patch_policy},
            "/clairvoyant/model": {"GET": self._model, "POST": self._swap_model},
            "/clairvoyant/model/rollback": {"POST": self._roll_back_model},
            "/clairvoyant/shadow": {"GET": self._shadow},
            "/clairvoyant/events": {"GET": self._events},
            "/clairvoyant/metrics": {"GET": self._metrics},
        }

    async def handle(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Answer a control request."""
        try:
            methods = self._routes.get(path)
            if methods is None:
                raise _RefusalError(404, "no_such_route", f"known: {', '.join(self._routes)}")
            if path != "/clairvoyant/healthz":
                self._authorise(request)
            # HEAD is what some supervisors ask; a stream of events has no end to leave out
            head = request.method == "HEAD" and path != "/clairvoyant/events"
            route = methods.get("GET" if head else request.method)
            if route is None:
                response = _json(
                    {"error": {"code": "method_not_allowed", "message": f"allowed: {', '.join(methods)}"}},
                    405,
                )
                response.headers["Allow"] = ", ".join(methods)
                return response
            return await route(request)
        except _RefusalError as refusal:
            response = _json(refusal.body, refusal.status)
            if refusal.status == 401:
                response.headers["WWW-Authenticate"] = 'Bearer realm="clairvoyant"'
            return response
        except BodyFaultError as fault:
            return _json({"error": {"code": fault.code, "message": fault.message}}, fault.status)
        except ParameterError as error:
            details = {"field": error.field, "remedy": error.remedy, "value": _scalar(error.value)}
            return _json({"error": {"code": "bad_parameter", "message": str(error), **details}}, 422)
        except ClairvoyantError as error:
            return _json({"error": {"code": type(error).__name__, "message": str(error)}}, 422)

    def _authorise(self, request: web.BaseRequest) -> None:
        token = self._proxy.settings.token
        if token is not None:
            scheme, _, given = request.headers.get("Authorization", "").partition(" ")
            # bytes that are no UTF-8 come as lone surrogates
            right = hmac.compare_digest(
                given.strip().encode(errors="surrogateescape"), token.strip().encode()
            )
            if scheme.lower() != "bearer" or not right:
                raise _RefusalError(
                    401, "token_needed", "control routes need the header Authorization: Bearer <token>"
                )
            return
        # a web page elsewhere must not reach a proxy on this machine, be it through a name that points here
        try:
            host = urlsplit(f"//{request.headers.get('Host', '')}").hostname
        except ValueError as error:
            raise _RefusalError(400, "bad_host", "the Host header is no host") from error
        if host is not None and not is_loopback(host):
            raise _RefusalError(403, "foreign_host", "control routes answer to this machine's own names only")
        origin = request.headers.get("Origin")
        if origin is not None and not _is_local_page(origin):
            raise _RefusalError(403, "foreign_page", "control routes answer to this machine's own pages only")

    async def _healthz(self, request: web.BaseRequest) -> web.Response:
        if self._proxy.admission.draining:
            return _json({"status": "draining"}, 503)
        return _json({"status": "ok"})

    async def _state(self, request: web.BaseRequest) -> web.Response:
        return _json(proxy_state(self._proxy))

    async def _queue(self, request: web.BaseRequest) -> web.Response:
        return _json(describe_queue(self._proxy.line, self._proxy.clock()))

    async def _policy(self, request: web.BaseRequest) -> web.Response:
        return _json(policy_state(self._proxy))

    async def _patch_policy(self, request: web.BaseRequest) -> web.Response:
        fields = await self._json_body(request)
        for name in fields:
            if name not in _PATCHABLE:
                raise unknown_name("field", name, _PATCHABLE)
        proxy = self._proxy
        before = policy_state(proxy)
        slots, tau_mode = fields.get("slots", proxy.line.slots), fields.get("tau_mode", proxy.tuner.mode)
        if isinstance(slots, bool) or not isinstance(slots, int) or not 1 <= slots <= _MOST_SLOTS:
            raise ParameterError("slots", slots, f"give a whole number, 1 to {_MOST_SLOTS}")
        if tau_mode not in TAU_MODES:
            raise unknown_name("tau_mode", tau_mode, TAU_MODES)
        shadow = fields.get("shadow", proxy.shadow is not None)
        if not isinstance(shadow, bool):
            raise ParameterError("shadow", shadow, "give true or false")
        wanted = self._wanted_policy(fields)
        if "starvation_timeout_s" in fields and "tau_mode" not in fields:
            tau_mode = "fixed"  # who sets τ by hand wants it to stay
        if shadow:
            if proxy.shadow is None or proxy.shadow.policy != wanted:
                proxy.shadow = Shadow(wanted)
                for waiter in proxy.line.waiting.values():
                    proxy.shadow.joined(waiter)
            wanted = serial_policy("fcfs")
        else:
            proxy.shadow = None
        if wanted != proxy.line.policy:
            proxy.line.set_policy(wanted)
        proxy.line.slots = slots
        proxy.tuner.mode = tau_mode
        proxy.admission.pump()
        state = policy_state(proxy)
        if state != before:
            beside = "" if proxy.shadow is None else f"; shadow of {proxy.shadow.policy.label}"
            log.info("policy %s%s; τ is %s, slots %d", proxy.line.policy.label, beside, tau_mode, slots)
        proxy.events.publish("policy", state)
        return _json(state)

    def _wanted_policy(self, fields: dict[str, Any]) -> SerialPolicy:
        """The policy in force (or in the shadow) with the given fields put in place."""
        proxy = self._proxy
        current = proxy.line.policy if proxy.shadow is None else proxy.shadow.policy
        timeout = fields.get("starvation_timeout_s", current.starvation_timeout_s)
        if timeout is not None:
            timeout = _seconds("starvation_timeout_s", timeout)
        promotion = fields.get("promotion", current.promotion)
        if not isinstance(promotion, str):
            raise ParameterError("promotion", promotion, "give the name of a promotion rule")
        name = fields.get("name", current.name)
        if not isinstance(name, str):
            raise ParameterError("name", name, "give the name of a policy")
        if current.function is not None and name == current.name:
            return serial_policy(
                current.function, starvation_timeout_s=timeout, promotion=promotion, dynamic=current.dynamic
            )
        if name != "aging" and fields.get("rate") is not None:
            raise ParameterError("rate", fields["rate"], "only the policy 'aging' takes it")
        rate = fields.get("rate", current.rate_per_s)
        aging_rate = proxy.settings.aging_rate if rate is None else _seconds("rate", rate)
        return named_policy(name, timeout, promotion, aging_rate, field="name")

    async def _model(self, request: web.BaseRequest) -> web.Response:
        return _json(model_state(self._proxy))

    async def _swap_model(self, request: web.BaseRequest) -> web.Response:
        fields = await self._json_body(request)
        for name in fields:
            if name != "model":
                raise unknown_name("field", name, ("model",))
        model = fields.get("model")
        if not isinstance(model, str) or not model.strip() or "\x00" in model:
            raise ParameterError(
                "model", model, "give a model's name, or the path of an ONNX file on the proxy's machine"
            )
        async with self._swapping:
            await self._proxy.swap_model(model)
        return self._model_in_use()

    async def _roll_back_model(self, request: web.BaseRequest) -> web.Response:
        if not self._proxy.forecaster.can_roll_back:
            raise _RefusalError(
                409, "nothing_to_roll_back", "no model was swapped in, so there is none to go back to"
            )
        self._proxy.roll_back_model()
        return self._model_in_use()

    def _model_in_use(self) -> web.Response:
        """What is in use after a change, in the answer and in the log."""
        state = model_state(self._proxy)
        log.info("model %s (%s, from %s)", state["name"], state["schema"], state["source"])
        return _json(state)

    async def _shadow(self, request: web.BaseRequest) -> web.Response:
        proxy = self._proxy
        query = dict(parse_qsl(urlsplit(request.raw_path).query, keep_blank_values=True))
        for name in query:
            if name not in ("policy", "starvation_timeout_s"):
                raise unknown_name("query parameter", name, ("policy", "starvation_timeout_s"))
        policy = proxy.line.policy if proxy.shadow is None else proxy.shadow.policy
        if "policy" in query:
            policy = named_policy(
                query["policy"], policy.starvation_timeout_s, policy.promotion, proxy.settings.aging_rate
            )
        if "starvation_timeout_s" in query:
            text = query["starvation_timeout_s"]
            policy = policy.with_timeout(None if text == "none" else _seconds("starvation_timeout_s", text))
        records = list(proxy.history.recent)
        loop = asyncio.get_running_loop()
        estimate = await loop.run_in_executor(None, compare_on_window, records, policy, proxy.line.slots)
        counts = {"decisions": None, "agreed": None} if proxy.shadow is None else proxy.shadow.state()
        return _json({**estimate, "decisions": counts["decisions"], "agreed": counts["agreed"]})

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        return web.Response(body=render_metrics(self._proxy), headers={"Content-Type": CONTENT_TYPE})

    async def _events(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        queue = self._proxy.events.subscribe()
        try:
            await response.prepare(request)
            await response.write(format_event("hello", proxy_state(self._proxy), 0))
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), _HEARTBEAT_S)
                except TimeoutError:
                    await response.write(b": still here\n\n")
                    continue
                if event is None:
                    return response
                await response.write(event)
        finally:
            self._proxy.events.unsubscribe(queue)

    async def _json_body(self, request: web.BaseRequest) -> dict[str, Any]:
        # a form from a foreign web page cannot have this content type without asking first
        if request.content_type != "application/json":
            raise _RefusalError(415, "not_json", "send application/json")
        body = await read_body(request, self._proxy.settings)
        try:
            value = json.loads(body, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise _RefusalError(400, "not_json", "the body is not JSON") from error
        if not isinstance(value, dict):
            raise _RefusalError(422, "not_an_object", "the body must be a JSON object")
        return value


def _is_local_page(origin: str) -> bool:
    """Whether a page comes from this machine; `null` is what a page without a home says."""
    try:
        host = urlsplit(origin).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


def _scalar(value: object) -> object:
    """A value as JSON can carry it."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _seconds(field: str, value: object) -> float:
    try:
        number = (
            float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
        )
    except (ValueError, OverflowError):
        number = math.nan
    if not 0.0 <= number <= _MOST_SECONDS:
        raise ParameterError(field, value, f"give a number, 0 to {_MOST_SECONDS:g}")
    return number


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(
        body=json.dumps(value, allow_nan=False).encode(),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
