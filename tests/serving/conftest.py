"""A proxy and an emulated backend in the test's own loop, and a predictor whose word is known."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import numpy as np
import pytest

from clairvoyant_lab.errors import ClairvoyantError
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.predictor.caps import apply_token_cap, expected_tokens
from clairvoyant_lab.predictor.model_info import ModelInfo
from clairvoyant_lab.predictor.runtime import Prediction
from clairvoyant_lab.serving.backends.emulate import Emulator
from clairvoyant_lab.serving.config import ProxySettings
from clairvoyant_lab.serving.loops import new_event_loop
from clairvoyant_lab.serving.proxy import Proxy


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The tests' proxies run on the loop that the command's does."""
    return {"loop": new_event_loop}


class WordPredictor:
    """P(Long) is what stands after `p=` in the prompt, else 0.2: a stand-in whose order tests can state."""

    def __init__(self, name: str = "word") -> None:
        self.info = ModelInfo(name=name)
        self.broken = False
        self.asked = 0

    def predict(self, prompt: str, token_cap: int | None = None) -> Prediction:
        self.asked += 1
        if self.broken:
            raise RuntimeError(f"cannot read {prompt}")
        p = float(prompt.split("p=")[1].split()[0]) if "p=" in prompt else 0.2
        proba = apply_token_cap(np.array([1 - p, 0.0, p], np.float32), token_cap)
        return Prediction(
            p_long=float(proba[2]),
            predicted_class=LengthClass(int(np.argmax(proba))),
            predicted_tokens=float(expected_tokens(proba, self.info.class_mean_tokens, token_cap)),
            probabilities=proba,
            features=np.zeros(19, np.float32),
            token_cap=token_cap,
        )


@dataclass
class Stack:
    """Backend, proxy, and a plain HTTP client that talks to the proxy."""

    emulator: Emulator
    proxy: Proxy
    http: aiohttp.ClientSession

    async def ask(self, marker: str = "m", tokens: int = 5, path: str = "/v1/chat/completions", **more: Any):
        """One whole request; returns `(status, headers, body)`."""
        async with self.http.post(
            self.proxy.url + path, json=body_for(path, marker, tokens, **more)
        ) as answer:
            return answer.status, answer.headers, await answer.read()

    async def until(self, condition: Callable[[], bool], within_s: float = 2.0) -> float:
        """Wait for a condition and return how long it took; fails the test if it never holds."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not condition():
            assert loop.time() - began < within_s, "the condition did not come true in time"
            await asyncio.sleep(0.002)
        return loop.time() - began

    def check_books(self) -> None:
        """Received = ended + waiting + running: nothing lost, nothing counted twice."""
        history, line = self.proxy.history, self.proxy.line
        assert history.received == history.ended + len(line.waiting) + len(line.running)

    async def check_idle_and_well(self) -> None:
        """The slot is free, the books add up, and the next request is served."""
        await self.until(lambda: not self.proxy.line.running and not self.proxy.line.waiting)
        self.check_books()
        done = self.proxy.history.outcomes["done"]
        status, _, _ = await self.ask("after", tokens=1)
        assert status == 200
        await self.until(lambda: self.proxy.history.outcomes["done"] == done + 1)
        self.check_books()

    def first_bytes(self) -> int:
        """Scheduled requests whose answers have begun to come, as the event stream tells."""
        while not self._heard.empty():
            event = self._heard.get_nowait()
            self._begun += event is not None and b"event: first_token" in event
        return self._begun

    def __post_init__(self) -> None:
        self._heard = self.proxy.events.subscribe()
        self._begun = 0

    def served(self) -> list[str]:
        """Markers in the order in which the backend began them."""
        begun = [entry for entry in self.emulator.served if entry.start_s is not None]
        return [entry.marker or "" for entry in sorted(begun, key=lambda entry: entry.start_s or 0.0)]


def body_for(
    path: str, marker: str, tokens: int, p: float = 0.2, text: str = "", **more: Any
) -> dict[str, Any]:
    """A request body for a scheduled path."""
    fault = more.pop("fault", None)
    steer = {"tokens": tokens, "marker": marker, **({"fault": fault} if fault else {})}
    prompt = f"p={p} {text or 'tell me'}"
    if path.endswith(("/chat/completions", "/api/chat")):
        asked: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]}
    elif "embed" in path:
        asked = {"input": prompt}
    else:
        asked = {"prompt": prompt}
    return {"model": "m", **asked, "emulate": steer, **more}


@pytest.fixture
async def make_stack() -> AsyncIterator[Callable[..., Awaitable[Stack]]]:
    """Factory of stacks; everything is stopped at the end."""
    stacks: list[Stack] = []

    async def make(
        *,
        speedup: float = 50.0,
        predictor: Any = None,
        backend: str | None = None,
        policy: Any = None,
        **settings: Any,
    ) -> Stack:
        emulator = Emulator("m1", speedup=speedup)
        await emulator.start()
        chosen = ProxySettings(backend=backend or emulator.url, **{"port": 0, **settings})
        load = lambda name: WordPredictor(name)  # noqa: E731
        proxy = Proxy(chosen, predictor or WordPredictor(), policy=policy, load_predictor=load)
        try:
            await proxy.start()
        except ClairvoyantError:
            await emulator.stop()
            raise
        http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        stack = Stack(emulator, proxy, http)
        stacks.append(stack)
        return stack

    yield make
    for stack in stacks:
        await stack.http.close()
        await stack.proxy.stop(grace_s=0.0)
        await stack.emulator.stop()


@pytest.fixture
async def stack(make_stack: Callable[..., Awaitable[Stack]]) -> Stack:
    """A stack at default settings."""
    return await make_stack()


@pytest.fixture
def word_predictor() -> type[WordPredictor]:
    """The class of the stand-in predictor, for tests that start a stack of their own."""
    return WordPredictor


class Backend:
    """A bare server: keeps each request's head, then says its pieces, and then nothing until it is left."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.says: list[bytes] = []
        self.pause_s = 0.0
        self.left = 0
        self.url = ""
        self._server: asyncio.Server | None = None

    async def start(self, host: str = "127.0.0.1") -> None:
        self._server = await asyncio.start_server(self._serve, host, 0)
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            self.heard.append(await reader.readuntil(b"\r\n\r\n"))
            for piece in self.says:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(self.pause_s)
            await reader.read()
        self.left += 1
        writer.close()


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    """A bare backend that does what its test says."""
    made = Backend()
    await made.start()
    yield made
    await made.stop()
