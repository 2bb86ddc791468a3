"""A burst or Poisson traffic against a real proxy or backend: the same report, measured instead of simulated.

Prompts ask for a few words or for a long text; the class of a request is the class of the answer that was
asked for, and how long the answers really were is in the samples' times. Against one of our proxies each
policy is set through its control API first (and the old one is put back); a plain backend has only its own
order, so just one run set is made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.bench.report import BenchReport, BenchSample
from clairvoyant_lab.bench.traffic import Timed, ask, http_client, request_bodies, run_apart, sample_of
from clairvoyant_lab.errors import BackendError, ParameterError
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.scheduling.serial import SerialPolicy, serial_policy

if TYPE_CHECKING:
    import httpx

__all__ = ["bench_live_burst", "bench_live_poisson"]

Requests = tuple[NDArray[np.int_], NDArray[np.float64]]


@dataclass(frozen=True)
class _Plan:
    """What to send: `draw` gives a run's classes and arrival times in seconds."""

    kind: str
    draw: Callable[[np.random.Generator], Requests]
    most: int
    policies: list[SerialPolicy]
    runs: int
    model: str
    max_tokens_long: int
    timeout_s: float
    seed: int
    parameters: dict[str, object]
    control: dict[str, str]


def bench_live_burst(
    url: str,
    n_short: int = 50,
    n_long: int = 50,
    policies: Sequence[SerialPolicy | str] = ("fcfs", "sjf"),
    *,
    runs: int = 5,
    model: str = "default",
    max_tokens_long: int = 1200,
    timeout_s: float = 3600.0,
    seed: int = 0,
    token: str | None = None,
) -> BenchReport:
    """Send a burst and time every answer (section 5.3, on whatever answers at `url`).

    Parameters
    ----------
    url : str
        Base URL of a proxy of ours, or of an OpenAI-compatible backend.
    n_short, n_long : int
    policies : sequence of SerialPolicy or str
        Set on the proxy one after another; a plain backend is measured once, as `backend`.
    runs : int
    model : str
        Sent with each request.
    max_tokens_long : int
        Cap of the long answers, so that a run ends.
    timeout_s : float
        For one answer, waiting included.
    seed : int
        Order of the requests.
    token : str, optional
        Of the proxy's control routes, where one is needed; the requests themselves go without.

    Raises
    ------
    BackendError
        If nothing answers at the URL.
    """
    if min(n_short, n_long) < 0 or n_short + n_long < 1:
        raise ParameterError("n_short", (n_short, n_long), "give counts, 0 or more, not both 0")

    def draw(rng: np.random.Generator) -> Requests:
        order = [int(LengthClass.SHORT)] * n_short + [int(LengthClass.LONG)] * n_long
        return rng.permutation(order), np.zeros(len(order))

    counts: dict[str, object] = {"n_short": n_short, "n_long": n_long}
    most = n_short + n_long
    return _run(
        url, "burst", draw, most, policies, runs, model, max_tokens_long, timeout_s, seed, token, counts
    )


def bench_live_poisson(
    url: str,
    rate_per_s: float,
    n: int = 30,
    policies: Sequence[SerialPolicy | str] = ("fcfs", "sjf"),
    *,
    long_share: float = 0.5,
    runs: int = 1,
    model: str = "default",
    max_tokens_long: int = 1200,
    timeout_s: float = 3600.0,
    seed: int = 0,
    token: str | None = None,
) -> BenchReport:
    """Send requests at random times and time every answer (section 5.5: 30 requests, ρ = 0.80).

    Every policy gets the same requests at the same times. The load is the rate times the backend's mean
    service time, which a burst or a journal tells.

    Parameters
    ----------
    url, policies, runs, model, max_tokens_long, timeout_s, seed, token
        As in `bench_live_burst`.
    rate_per_s : float
        Arrivals a second, on average.
    n : int
        Requests of a run.
    long_share : float
        Chance that a request asks for a long answer.

    Raises
    ------
    BackendError
        If nothing answers at the URL.
    """
    if not (np.isfinite(rate_per_s) and rate_per_s > 0):
        raise ParameterError("rate_per_s", rate_per_s, "give arrivals a second, more than 0")
    if n < 1:
        raise ParameterError("n", n, "give 1 or more")
    if not 0 <= long_share <= 1:
        raise ParameterError("long_share", long_share, "give a share, 0 to 1")

    def draw(rng: np.random.Generator) -> Requests:
        classes = np.where(rng.random(n) < long_share, int(LengthClass.LONG), int(LengthClass.SHORT))
        return classes, np.cumsum(rng.exponential(1 / rate_per_s, n))

    traffic: dict[str, object] = {"rate_per_s": rate_per_s, "n": n, "long_share": long_share}
    return _run(
        url, "poisson", draw, n, policies, runs, model, max_tokens_long, timeout_s, seed, token, traffic
    )


def _run(
    url: str,
    kind: str,
    draw: Callable[[np.random.Generator], Requests],
    most: int,
    policies: Sequence[SerialPolicy | str],
    runs: int,
    model: str,
    max_tokens_long: int,
    timeout_s: float,
    seed: int,
    token: str | None,
    traffic: dict[str, object],
) -> BenchReport:
    if runs < 1:
        raise ParameterError("runs", runs, "give 1 or more")
    chosen = [p if isinstance(p, SerialPolicy) else serial_policy(p) for p in policies]
    parameters = {**traffic, "runs": runs, "model": model, "seed": seed}
    control = {} if token is None else {"Authorization": f"Bearer {token}"}
    plan = _Plan(kind, draw, most, chosen, runs, model, max_tokens_long, timeout_s, seed, parameters, control)
    return run_apart(_measure(url.rstrip("/"), plan))


async def _measure(url: str, plan: _Plan) -> BenchReport:
    async with http_client(url, plan.most, plan.timeout_s) as client:
        before = await _proxy_policy(client, plan.control)
        samples = []
        try:
            for policy in plan.policies if before is not None else [None]:
                if policy is not None:
                    await _set_policy(client, _patch(policy), plan.control)
                for run in range(plan.runs):
                    label = "backend" if policy is None else policy.label
                    samples.append(await _send(client, label, run, plan))
        finally:
            if before is not None:
                await _set_policy(client, before, plan.control)
    return BenchReport(plan.kind, "live", url, tuple(samples), plan.parameters)


async def _send(client: httpx.AsyncClient, label: str, run: int, plan: _Plan) -> BenchSample:
    classes, arrival_s = plan.draw(np.random.default_rng([plan.seed, run]))
    long = classes == int(LengthClass.LONG)
    bodies = request_bodies(long, None, plan.max_tokens_long, model=plan.model, fill_caps=False)
    began = time.monotonic()
    answers = await asyncio.gather(
        *(
            _ask_at(began + due_s, client, body, bool(k))
            for body, k, due_s in zip(bodies, long, arrival_s, strict=True)
        )
    )
    ends = [due_s + a.sojourn_s for a, due_s in zip(answers, arrival_s, strict=True) if a is not None]
    return sample_of(label, run, answers, max(ends, default=0.0) - float(arrival_s.min()))


async def _ask_at(due: float, client: httpx.AsyncClient, body: dict[str, Any], long: bool) -> Timed | None:
    """One answer, asked for at a time of the monotonic clock; a failure is counted, not raised."""
    await asyncio.sleep(due - time.monotonic())
    try:
        return await ask(client, body, long)
    except BackendError:
        return None


async def _proxy_policy(client: httpx.AsyncClient, control: dict[str, str]) -> dict[str, object] | None:
    """The policy of a proxy of ours, as its control API takes it; None for a plain backend."""
    import httpx

    try:
        reply = await client.get("/clairvoyant/state", timeout=10.0, headers=control)
    except httpx.HTTPError as error:
        raise BackendError(f"nothing answers at {client.base_url} ({error})") from error
    if reply.status_code == 401 and "clairvoyant" in reply.headers.get("www-authenticate", ""):
        raise BackendError(
            f"the proxy at {client.base_url} wants the token of its control routes: give token=..., --token, "
            "or CLAIRVOYANT_TOKEN"
        )
    if reply.status_code != 200:
        return None
    policy = reply.json().get("policy")
    if not isinstance(policy, dict):
        return None
    # a proxy in shadow mode is told its shadow's policy: the one in force is always first come, first served
    shadow = policy.get("shadow")
    wanted = shadow if isinstance(shadow, dict) else policy
    kept = {name: wanted[name] for name in ("name", "starvation_timeout_s", "promotion") if name in wanted}
    kept |= {"shadow": isinstance(shadow, dict), "tau_mode": policy.get("tau_mode", "fixed")}
    return kept if wanted.get("rate") is None else kept | {"rate": wanted["rate"]}


async def _set_policy(client: httpx.AsyncClient, patch: dict[str, object], control: dict[str, str]) -> None:
    reply = await client.patch("/clairvoyant/policy", json=patch, timeout=10.0, headers=control)
    if reply.status_code >= 400:
        raise BackendError(f"the proxy refused the policy {patch}: {reply.status_code} {reply.text[:200]}")


def _patch(policy: SerialPolicy) -> dict[str, object]:
    patch = {
        "shadow": False,  # else the line stays first come, first served, and that is what would be measured
        "name": policy.name,
        "starvation_timeout_s": policy.starvation_timeout_s,
        "promotion": policy.promotion,
    }
    return patch if policy.rate_per_s is None else patch | {"rate": policy.rate_per_s}
