"""A thousand clients waiting at once; the command's exit on SIGTERM; both as processes of their own."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

import clairvoyant_lab as cl
from clairvoyant_lab.serving.backends.emulate import Emulator

COMMAND = [sys.executable, "-c", "from clairvoyant_lab.cli import main; main()"]


class ProxyProcess:
    """`clairvoyant-lab proxy` as its users run it."""

    def __init__(self, *arguments: str) -> None:
        command = [*COMMAND, "proxy", "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.match(r"proxy (http://\S+) -> ", line)
        assert found is not None, line + (self.process.stderr.read() if self.process.stderr else "")
        self.url = found.group(1)

    def rss_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024  # type: ignore[union-attr]

    def end(self) -> tuple[str, str]:
        if self.process.poll() is None:
            self.process.kill()
        return self.process.communicate(timeout=10)


@pytest.fixture
def spawn() -> Iterator[Any]:
    made: list[ProxyProcess] = []

    def start(*arguments: str) -> ProxyProcess:
        made.append(ProxyProcess(*arguments))
        return made[-1]

    yield start
    for proxy in made:
        proxy.end()


async def state(http: aiohttp.ClientSession, proxy: ProxyProcess) -> dict[str, Any]:
    async with http.get(proxy.url + "/clairvoyant/state") as answer:
        value: dict[str, Any] = await answer.json()
        return value


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
async def test_a_thousand_clients_wait_at_once(spawn: Any) -> None:
    emulator = Emulator("m1", speedup=200.0)
    await emulator.start()
    proxy = spawn("--backend", emulator.url, "--model", "sharegpt-rich")
    caps = np.random.default_rng(4).integers(1, 80, 1000).tolist()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        url = proxy.url + "/v1/chat/completions"

        async def ask(cap: int, tokens: int) -> int:
            body = {
                "messages": [{"role": "user", "content": "Write about queues."}],
                "max_tokens": cap,
                "stream": True,
                "emulate": {"tokens": tokens, "marker": str(cap)},
            }
            async with http.post(url, json=body) as answer:
                text = await answer.read()
                assert text.endswith(b"[DONE]\n\n")
                return answer.status

        first = asyncio.create_task(ask(100_000, 100_000))
        while (await state(http, proxy))["running"] == 0:
            await asyncio.sleep(0.02)
        rest = [asyncio.create_task(ask(cap, 1)) for cap in caps]
        deadline = time.monotonic() + 60.0
        while (await state(http, proxy))["waiting"] < 1000:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        async with http.get(proxy.url + "/clairvoyant/queue") as answer:
            assert len((await answer.json())["waiting"]) == 1000
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert await asyncio.gather(*rest) == [200] * 1000
        end = await state(http, proxy)
    await emulator.stop()
    served = [
        int(entry.marker or 0) for entry in sorted(emulator.served, key=lambda entry: entry.start_s or 0.0)
    ][1:]
    assert served == sorted(caps), "shortest cap first, none lost"
    assert (end["counts"]["done"], end["counts"]["gone_running"], end["waiting"]) == (1000, 1, 0)
    print(f"proxy's largest resident set: {proxy.rss_mb():.0f} MB")
    assert proxy.rss_mb() < 300.0


async def test_sigterm_under_load(spawn: Any, tmp_path: Path) -> None:
    emulator = Emulator("m1", speedup=50.0)
    await emulator.start()
    journal = tmp_path / "j.sqlite"
    proxy = spawn("--backend", emulator.url, "--model", "sharegpt", "--journal", str(journal))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def ask(tokens: int) -> tuple[int, bytes]:
            body = {"prompt": "x", "stream": True, "emulate": {"tokens": tokens}}
            async with http.post(proxy.url + "/v1/completions", json=body) as answer:
                return answer.status, await answer.read()

        running = asyncio.create_task(ask(600))
        while not emulator.served:
            await asyncio.sleep(0.01)
        waiting = [asyncio.create_task(ask(1)) for _ in range(20)]
        while (await state(http, proxy))["waiting"] < 20:
            await asyncio.sleep(0.01)
        proxy.process.send_signal(signal.SIGTERM)
        status, text = await running
        assert (status, text.count(b"data: ")) == (200, 602)
        assert {status for status, _ in await asyncio.gather(*waiting)} == {503}
    assert await asyncio.to_thread(proxy.process.wait, 10) == 0
    _, errors = proxy.end()
    assert "Traceback" not in errors
    assert "stopping: 1 running may finish (600 s at most" in errors
    assert "20 waiting are refused" in errors
    assert errors.splitlines()[-1].endswith("stopped")
    await emulator.stop()
    from clairvoyant_lab.journal_reader import read_journal

    outcomes = read_journal(journal).columns["outcome"]
    assert (outcomes.count("done"), outcomes.count("refused_draining")) == (1, 20)


def test_a_second_proxy_on_the_port_says_so_and_fails(spawn: Any) -> None:
    first = spawn("--backend", "http://127.0.0.1:9", "--model", "sharegpt")
    port = first.url.rsplit(":", 1)[1]
    command = [*COMMAND, "proxy", "--backend", "http://127.0.0.1:9"]
    done = subprocess.run(
        [*command, "--port", port, "--model", "sharegpt"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "another --port" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("option", "value"), [("--backend", "nonsense"), ("--policy", "sj"), ("--journal", "/dev/null/j.sqlite")]
)
def test_bad_use_exits_2_and_says_just_that(option: str, value: str) -> None:
    command = [*COMMAND, "proxy", "--port", "0", "--model", "sharegpt", "--backend", "http://127.0.0.1:9"]
    done = subprocess.run([*command, option, value], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    *before, last = done.stderr.splitlines()
    assert last.startswith("error: ")
    assert option.lstrip("-") in last
    # only what can be found out no sooner is told after the loading
    assert [line.split(" ")[0] for line in before] == (["loading"] if option == "--journal" else [])


def test_a_proxy_without_standard_streams_serves_and_ends_well(unused_tcp_port: int) -> None:
    command = [*COMMAND, "proxy", "--backend", "http://127.0.0.1:9", "--model", "sharegpt"]
    line = f'exec "$@" --port {unused_tcp_port} <&- >&- 2>&-'
    process = subprocess.Popen(["sh", "-c", line, "sh", *command])
    try:
        url = f"http://127.0.0.1:{unused_tcp_port}"
        with cl.ProxyClient(url) as client:
            deadline = time.monotonic() + 60.0
            while not client.healthy() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            assert client.healthy()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()


def test_what_takes_time_is_said_first_and_the_ready_line_stands_alone(spawn: Any) -> None:
    proxy = spawn("--backend", "http://127.0.0.1:9", "--model", "sharegpt")
    output, errors = proxy.end()
    assert output == "", "nothing after the ready line"
    assert errors.splitlines()[0].startswith("loading model sharegpt ... ")
