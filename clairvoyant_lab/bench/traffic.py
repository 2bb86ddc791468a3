"""Short and long requests over HTTP, and what their clients see: what all measured benchmarks are made of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from clairvoyant_lab.bench.report import BenchSample
from clairvoyant_lab.errors import BackendError
from clairvoyant_lab.lengths import LengthClass

if TYPE_CHECKING:
    import httpx

    from clairvoyant_lab.serving.replies import QueueState

__all__ = [
    "PROMPTS_LONG",
    "PROMPTS_SHORT",
    "Timed",
    "ask",
    "http_client",
    "queue_snapshot",
    "request_bodies",
    "run_apart",
    "sample_of",
    "send_mixed_traffic",
]

T = TypeVar("T")

# even a model of 135 million parameters ends these by itself, within 45 tokens
PROMPTS_SHORT = (
    "Is the sky blue? Answer yes or no.",
    "How many days are in a week?",
    "What is 2 plus 2?",
    "Translate 'bread' to Spanish.",
    "What is the chemical symbol for gold?",
    "In which year did World War II end?",
)
PROMPTS_LONG = (
    "Write a detailed essay about the history of trains, with an introduction and a conclusion.",
    "Write a long story about a lighthouse keeper and a storm.",
    "Write a complete Python program with functions and comments that manages a library of books.",
    "Write a comprehensive guide to growing tomatoes, step by step, with sections for each month.",
    "Generate a detailed travel plan of two weeks through Italy, day by day.",
    "Write a blog post about how computers work, with many examples.",
)


@dataclass
class Timed:
    """One answer as its client saw it, in seconds from its arrival.

    `wait_s` is until its service began as the proxy says, or until its first piece from a plain backend.
    """

    long: bool
    wait_s: float
    sojourn_s: float
    promoted: bool


def send_mixed_traffic(
    proxy_url: str,
    n: int = 48,
    *,
    at_once: int = 6,
    emulated: bool = False,
    short_cap: int | None = 12,
    long_cap: int | None = 300,
    seed: int = 0,
) -> int:
    """Send short and long requests in random order, some at a time, and wait for them; returns how many.

    Parameters
    ----------
    proxy_url : str
        A running proxy.
    n : int
        Requests, half of them long.
    at_once : int
        How many clients ask at the same time.
    emulated : bool
        The backend is an emulator: it is told the lengths (60 and 900 tokens) and the proxy gets no caps.
    short_cap, long_cap : int or None
        Caps on a real backend.
    seed : int
        Order.
    """
    order = np.random.default_rng(seed).permutation([False] * (n - n // 2) + [True] * (n // 2))
    bodies = request_bodies(order, *_lengths(emulated, short_cap, long_cap))

    async def work() -> None:
        left = iter(zip(bodies, order, strict=True))
        async with http_client(proxy_url, at_once) as http:

            async def one_client() -> None:
                for body, long in left:
                    await ask(http, body, bool(long))

            await asyncio.gather(*(one_client() for _ in range(at_once)))

    run_apart(work())
    return len(bodies)


def queue_snapshot(
    proxy_url: str,
    n_short: int = 2,
    n_long: int = 3,
    *,
    emulated: bool = False,
    short_cap: int | None = 12,
    long_cap: int | None = 300,
    seed: int = 0,
) -> QueueState:
    """Let some requests wait behind one that runs, look at the queue, and wait for the answers.

    Parameters are those of `send_mixed_traffic`.
    """
    from clairvoyant_lab.serving import AsyncProxyClient

    order = np.random.default_rng(seed).permutation([False] * n_short + [True] * n_long)
    bodies = request_bodies([True, *order], *_lengths(emulated, short_cap, long_cap))

    async def work() -> QueueState:
        async with http_client(proxy_url, len(bodies)) as http, AsyncProxyClient(proxy_url) as client:
            tasks = []
            for body, long in zip(bodies, [True, *order], strict=True):
                tasks.append(asyncio.create_task(ask(http, body, bool(long))))
                deadline = time.monotonic() + 10.0
                while time.monotonic() < deadline:
                    state = await client.state()
                    if state.waiting + state.running >= len(tasks) or tasks[0].done():
                        break
                    await asyncio.sleep(0.002)
            queue = await client.queue()
            await asyncio.gather(*tasks)
            return queue

    return run_apart(work())


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a loop of its own, also where one runs already (a notebook's kernel)."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()


def _lengths(
    emulated: bool, short_cap: int | None, long_cap: int | None
) -> tuple[int | None, int | None, tuple[int, int] | None]:
    return (None, None, (60, 900)) if emulated else (short_cap, long_cap, None)


def request_bodies(
    order: Any,
    short_cap: int | None,
    long_cap: int | None,
    emulated: tuple[int, int] | None = None,
    *,
    model: str = "default",
    fill_caps: bool = True,
) -> list[dict[str, Any]]:
    """Bodies of chat requests, short or long as `order` says, with caps or lengths for an emulator.

    `fill_caps` asks by llama.cpp's own field for answers that fill their caps, so that all policies do the
    same work; other backends may not know the field.
    """
    counts = [0, 0]
    bodies = []
    for long in order:
        kind = int(long)
        prompts, cap = (PROMPTS_LONG, long_cap) if long else (PROMPTS_SHORT, short_cap)
        text = prompts[counts[kind] % len(prompts)]
        counts[kind] += 1
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": text}],
            "stream": True,
            "temperature": 0.0,
        }
        if cap is not None:
            body |= {"max_tokens": cap, "ignore_eos": True} if fill_caps else {"max_tokens": cap}
        if emulated is not None:
            body["emulate"] = {"tokens": emulated[kind]}
        bodies.append(body)
    return bodies


def http_client(url: str, at_once: int, timeout_s: float = 600.0) -> httpx.AsyncClient:
    """A client for so many requests at once, and a few of the proxy's control routes beside them."""
    import httpx

    limits = httpx.Limits(max_connections=at_once + 2)
    return httpx.AsyncClient(base_url=url, timeout=timeout_s, limits=limits, trust_env=False)


async def ask(client: httpx.AsyncClient, body: dict[str, Any], long: bool, speedup: float = 1.0) -> Timed:
    """Send one request and time its answer; BackendError if it fails.

    Parameters
    ----------
    client : httpx.AsyncClient
    body : dict
        From `request_bodies`.
    long : bool
        Kept with the times.
    speedup : float
        Of an emulated backend: times are multiplied by it.
    """
    import httpx

    began, first_s = time.monotonic(), None
    try:
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.status_code != 200:
                raise BackendError(f"{response.status_code} from {client.base_url}")
            waited_ms = response.headers.get("x-clairvoyant-queue-wait-ms")
            promoted = response.headers.get("x-clairvoyant-promoted") == "true"
            async for piece in response.aiter_raw():
                if piece and first_s is None:
                    first_s = time.monotonic() - began
    except httpx.HTTPError as error:
        raise BackendError(f"an answer from {client.base_url} failed ({error!r})") from error
    sojourn_s = time.monotonic() - began
    if first_s is None:
        raise BackendError(f"an answer from {client.base_url} was empty")
    wait_s = first_s if waited_ms is None else min(float(waited_ms) / 1000.0, sojourn_s)
    return Timed(long, wait_s * speedup, sojourn_s * speedup, promoted)


def sample_of(policy: str, run: int, answers: Sequence[Timed | None], makespan_s: float) -> BenchSample:
    """A benchmark's sample of timed answers; None is one that failed, and only counted."""
    whole = [answer for answer in answers if answer is not None]
    classes = [LengthClass.LONG if answer.long else LengthClass.SHORT for answer in whole]
    return BenchSample(
        policy=policy,
        run=run,
        length_class=np.array(classes, dtype=np.int8),
        wait_s=np.array([answer.wait_s for answer in whole], dtype=np.float64),
        sojourn_s=np.array([answer.sojourn_s for answer in whole], dtype=np.float64),
        promoted=np.array([answer.promoted for answer in whole], dtype=np.bool_),
        makespan_s=makespan_s,
        failed=len(answers) - len(whole),
    )
