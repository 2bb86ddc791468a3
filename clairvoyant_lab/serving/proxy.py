"""The proxy: predictive admission in front of a serial backend, transparent for all else."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import os
import time
from collections.abc import Callable
from errno import EADDRINUSE
from typing import Any

from aiohttp import web

from clairvoyant_lab.errors import ClairvoyantError, ParameterError, QueueFullError
from clairvoyant_lab.scheduling.serial import SerialPolicy, serial_policy
from clairvoyant_lab.serving.admission import Admission, DrainingError, Line, Waiter
from clairvoyant_lab.serving.bodies import BodyFaultError, pieces_of, read_body
from clairvoyant_lab.serving.config import ProxySettings
from clairvoyant_lab.serving.control import Control
from clairvoyant_lab.serving.dialects import Tally, dialect_of
from clairvoyant_lab.serving.discreet import discreet_logger
from clairvoyant_lab.serving.events import EventBus
from clairvoyant_lab.serving.exchange import Exchange, error_response
from clairvoyant_lab.serving.forecast import Forecaster, Predicting
from clairvoyant_lab.serving.history import History
from clairvoyant_lab.serving.http_server import HttpServer
from clairvoyant_lab.serving.job import Job
from clairvoyant_lab.serving.open_files import most_clients
from clairvoyant_lab.serving.policies import asked_policy
from clairvoyant_lab.serving.prompts_in import SCHEDULED_PATHS, origin_form, path_of, read_ask, stated_class
from clairvoyant_lab.serving.recorder import Recorder
from clairvoyant_lab.serving.shadow import Shadow
from clairvoyant_lab.serving.tuning import Tuner
from clairvoyant_lab.serving.upstream import Upstream

__all__ = ["Proxy", "load_model"]

log = logging.getLogger("clairvoyant_lab.proxy")

CONTROL_PREFIX = "/clairvoyant/"
_LONG_PROMPT_CHARS = 50_000


def load_model(model: str) -> Predicting:
    """Load a length predictor by name or path (`LengthPredictor.load`)."""
    from clairvoyant_lab.predictor import LengthPredictor

    predictor: Predicting = LengthPredictor.load(model)
    return predictor


class Proxy:
    """A proxy that can be started and stopped inside a running event loop.

    Parameters
    ----------
    settings : ProxySettings
        How it runs.
    predictor : Predicting
        The length predictor, such as `LengthPredictor.load("sharegpt-rich")`.
    policy : SerialPolicy, optional
        Instead of the one `settings` name: a user's own policy.
    load_predictor : callable, optional
        How a model is loaded by name or path when it is swapped; `LengthPredictor.load` by default.
    clock : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        settings: ProxySettings,
        predictor: Predicting,
        *,
        policy: SerialPolicy | None = None,
        load_predictor: Callable[[str], Predicting] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._load_predictor = load_predictor if load_predictor is not None else load_model
        self._earlier_models: list[str] = []
        asked = asked_policy(settings) if policy is None else policy
        self.shadow = Shadow(asked) if settings.shadow else None
        self.forecaster = Forecaster(predictor)
        self.history = History()
        self.events = EventBus()
        self.line = Line(serial_policy("fcfs") if settings.shadow else asked, settings.slots)
        self.admission = Admission(self.line, clock, settings.max_queue, self._on_dispatch)
        self.upstream = Upstream(settings)
        self.tuner = Tuner(self)
        self.recorder = Recorder(settings, self.events)
        self.started_s = clock()
        self._control = Control(self)
        self._server: HttpServer | None = None
        self._runner: web.ServerRunner | None = None
        self._drains: set[asyncio.Task[Any]] = set()
        self._ids = itertools.count(1)
        self._boot = os.urandom(4).hex()
        self.in_flight = 0
        self.port = settings.port

    @property
    def url(self) -> str:
        """Where it listens."""
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Open the session and the journal, and listen.

        Raises
        ------
        ClairvoyantError
            If the address is taken or cannot be bound, or the journal cannot be used.
        """
        # compiled parts are loaded now, not with the first request
        await asyncio.get_running_loop().run_in_executor(None, self.forecaster.warm)
        self.recorder.open()
        await self.upstream.open()
        self._server = HttpServer(
            self.handle,
            most_clients=most_clients(self.settings.slots),
            handler_cancellation=True,  # told within a millisecond of a client that leaves
            auto_decompress=False,  # bodies go on as they came
            access_log=None,  # request lines can hold what nobody should log
            logger=discreet_logger(),
            max_line_size=65536,
            max_field_size=65536,
            max_headers=1024,  # as many as the backend may send
        )
        self._runner = web.ServerRunner(self._server, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        # no reuse_port: a second proxy on the port must fail loudly
        site = web.TCPSite(
            self._runner, self.settings.host, self.settings.port, backlog=2048, reuse_port=False
        )
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            await self.upstream.close()
            self.recorder.close()
            raise ClairvoyantError(
                f"cannot listen on {self.settings.host}:{self.settings.port} ({error.strerror})"
                + ("; is another proxy running there? give another --port" * (error.errno == EADDRINUSE))
            ) from error
        self.port = self._runner.addresses[0][1]
        self.tuner.start()
        log.info(
            "listening on %s, backend %s, policy %s", self.url, self.settings.backend, self.line.policy.label
        )

    async def stop(self, grace_s: float | None = None) -> None:
        """Stop accepting, refuse those who wait with 503, let running requests finish, close."""
        grace = self.settings.grace_s if grace_s is None else grace_s
        self.events.publish(
            "draining", {"waiting": len(self.line.waiting), "running": len(self.line.running)}
        )
        self.admission.drain()
        if self._runner is not None:
            for site in list(self._runner.sites):
                await site.stop()
            deadline = self.clock() + grace
            while (self.in_flight or self._drains) and self.clock() < deadline:
                await asyncio.sleep(0.02)
            self.events.close()
            await asyncio.sleep(0)
            await self._runner.cleanup()
        for task in list(self._drains):
            task.cancel()
        await asyncio.gather(*self._drains, return_exceptions=True)
        await self.tuner.stop()
        await self.upstream.close()
        await asyncio.get_running_loop().run_in_executor(None, self.recorder.close)

    async def swap_model(self, model: str) -> None:
        """Load another model off the event loop and use it from the next request on.

        Raises
        ------
        ClairvoyantError
            If it cannot be loaded or asked, or speaks another schema; the model in use stays.
        """
        loop = asyncio.get_running_loop()
        try:
            predictor = await loop.run_in_executor(None, self._load_predictor, model)
        except ClairvoyantError:
            raise
        except (OSError, ValueError) as error:  # a name no file can have, a file nobody may read
            raise ParameterError("model", model, f"cannot be loaded ({type(error).__name__})") from error
        if not await loop.run_in_executor(None, Forecaster(predictor).works):
            raise ParameterError("model", model, "was loaded but gives no forecast; the model in use stays")
        self.forecaster.swap(predictor)
        self._earlier_models.append(self.recorder.model_name)
        self.recorder.model_name = model
        self.events.publish("model", {"model": model, "rolled_back": False})

    def roll_back_model(self) -> None:
        """Return to the model before the last swap."""
        self.forecaster.roll_back()
        self.recorder.model_name = self._earlier_models.pop()
        self.events.publish("model", {"model": self.recorder.model_name, "rolled_back": True})

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request: ours, scheduled, or passed through."""
        target = origin_form(request.raw_path)
        if target is None:
            return error_response("openai", 400, "bad_target", "the request target is not a path")
        path = path_of(target)
        scheduled = request.method == "POST" and path in SCHEDULED_PATHS
        if not (scheduled and (request.content_length or 0) > self.settings.max_body_bytes):
            await _continue(request)  # a body that will be refused is not asked for
        if path == "/clairvoyant" or path.startswith(CONTROL_PREFIX):
            return await self._control.handle(request, path)
        if scheduled:
            return await self._scheduled(request, target, path)
        self.history.passed_through += 1
        exchange = Exchange(request, self.upstream, self.settings, dialect_of(path))
        body = pieces_of(request) if request.body_exists else None
        self.in_flight += 1
        try:
            return await exchange.run(target, body)
        finally:
            self.in_flight -= 1

    async def _scheduled(self, request: web.BaseRequest, target: str, path: str) -> web.StreamResponse:
        job = Job(
            request_id=f"{self._boot}-{next(self._ids)}",
            path=path,
            dialect=SCHEDULED_PATHS[path][0],
            arrival_s=self.clock(),
            arrival_unix_s=time.time(),
            stated=stated_class(request.headers.get("x-clairvoyant-class")),
        )
        self.history.received += 1
        self.in_flight += 1
        detached = False
        try:
            try:
                body = await read_body(request, self.settings)
            except BodyFaultError as fault:
                return self._refuse(job, "refused_body", fault.status, fault.code, fault.message, close=True)
            job.ask = read_ask(path, body, request.headers.get("Content-Encoding"))
            if job.ask.kind == "bypass":
                self.history.received -= 1
                self.history.passed_through += 1
                job.outcome = ""
                return await Exchange(request, self.upstream, self.settings, job.dialect).run(target, body)
            job.model = self.recorder.model_name  # another may be in use when the answer has come
            if len(job.ask.prompt) > _LONG_PROMPT_CHARS:  # so long a prompt is read off the event loop
                await asyncio.get_running_loop().run_in_executor(None, self._foresee, job)
            else:
                self._foresee(job)
            try:
                await self._wait(job)
            except DrainingError:
                return self._refuse(
                    job, "refused_draining", 503, "stopping", "the proxy is stopping", close=True
                )
            except QueueFullError as full:
                headers = {"Retry-After": str(self._retry_after_s())}
                return self._refuse(job, "refused_full", 429, "queue_full", str(full), headers)
            job.exchange = self._exchange(request, job)
            if self.settings.on_client_gone == "cancel":
                return await job.exchange.run(target, body)
            task = asyncio.ensure_future(job.exchange.run(target, body))
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                if not task.done():
                    detached = True
                    job.exchange.abandon()
                    self._drains.add(task)
                    task.add_done_callback(lambda done: self._drained(done, job))
                raise
        finally:
            self.in_flight -= 1
            if not detached:
                self._conclude(job)

    def _foresee(self, job: Job) -> None:
        """Forecast the answer's length, and take for the journal what it keeps of the prompt."""
        assert job.ask is not None
        variant = str(self.forecaster.predictor.info.variant)
        job.forecast = self.forecaster.forecast(job.ask, job.stated)
        if self.settings.journal is not None:
            job.features = self.recorder.features(job.ask, job.forecast, variant)

    async def _wait(self, job: Job) -> None:
        assert job.ask is not None
        expected = 0.0
        if job.forecast.origin != "embedding":
            expected = self.history.pace.expected_s(job.forecast.predicted_tokens)
        waiter = Waiter(
            ticket=self.line.ticket(),
            request_id=job.request_id,
            arrival_s=job.arrival_s,
            forecast=job.forecast,
            expected_service_s=expected,
            background=job.stated == "background",
            prompt_tokens=len(job.ask.prompt) // 4,
        )
        if self.shadow is not None:
            self.shadow.joined(waiter)
        job.waiter = waiter
        self.admission.enter(waiter)
        if self.events:
            self.events.publish("queued", job.queued_event(len(self.line.waiting)))
        await self.admission.granted(waiter)

    def _exchange(self, request: web.BaseRequest, job: Job) -> Exchange:
        ask = job.ask
        assert ask is not None
        return Exchange(
            request,
            self.upstream,
            self.settings,
            job.dialect,
            extra_headers=job.headers(self.clock()),
            tally=lambda encoding: Tally(job.dialect, ask.stream, encoding),
            on_first_byte=lambda: self._first_byte(job),
            bounded=True,
        )

    def _first_byte(self, job: Job) -> None:
        job.first_token_at_s = self.clock()
        if self.events:
            self.events.publish(
                "first_token",
                {"request_id": job.request_id, "after_s": round(job.first_token_at_s - job.arrival_s, 6)},
            )

    def _on_dispatch(self, waiter: Waiter) -> None:
        if self.shadow is not None:
            self.shadow.dispatched(waiter, self.clock())
        if self.events:
            self.events.publish(
                "dispatched",
                {
                    "request_id": waiter.request_id,
                    "wait_s": round(waiter.wait_s(self.clock()), 6),
                    "promoted": waiter.promoted,
                    "waiting": len(self.line.waiting),
                },
            )

    def _drained(self, task: asyncio.Task[Any], job: Job) -> None:
        self._drains.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("draining an abandoned answer failed (%s)", type(task.exception()).__name__)
        if job.exchange is not None:
            job.exchange.outcome = "gone_running"
        self._conclude(job)

    def _refuse(
        self,
        job: Job,
        outcome: str,
        status: int,
        code: str,
        message: str,
        headers: dict[str, str] | None = None,
        close: bool = False,
    ) -> web.StreamResponse:
        job.outcome, job.status = outcome, status
        own = {"x-clairvoyant-request-id": job.request_id, **(headers or {})}
        if self.events:
            self.events.publish("refused", {"request_id": job.request_id, "status": status, "code": code})
        response = error_response(job.dialect, status, code, message, own)
        if close:
            response.force_close()
        return response

    def _retry_after_s(self) -> int:
        """Whole seconds until a place should be free: what is left of the soonest running request."""
        now = self.clock()
        left = [w.expected_service_s - (now - (w.start_s or now)) for w in self.line.running.values()]
        return max(1, min(600, math.ceil(min(left, default=1.0))))

    def _conclude(self, job: Job) -> None:
        """Free the slot and account for the request, exactly once."""
        now = self.clock()
        if job.waiter is not None:
            self.admission.release(job.waiter)
            if self.shadow is not None:
                self.shadow.left(job.waiter)
        if not job.outcome:
            return
        record = job.finished(now, self.line.policy.name)
        self.history.add(record)
        self.recorder.keep(record, job.features, job.model)
        if self.events:
            self.events.publish("finished", record.event())


async def _continue(request: web.BaseRequest) -> None:
    """Answer `Expect: 100-continue` ourselves; the low-level server leaves it to the handler."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        transport = request.transport
        if transport is not None:
            transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
