"""CPU of the proxy a request, against a bare aiohttp pass-through: both as processes, in one run.

The row of what is not scheduled tells the price of relaying; the rest of a scheduled request's is half its
prediction, whose code and weights are cold after each wait for the network, and half small steps. Rounds of
both take turns and are short, so that a busy machine hits both.

Run: python benchmarks/bench_proxy.py
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

TARGET = 1.3
REQUESTS = {
    "one JSON answer": 300,
    "one JSON answer, fast form": 300,
    "one JSON answer, not scheduled": 300,
    "stream of 128 tokens": 40,
}
ROUNDS = 15
AT_ONCE = 4

BARE = """
import sys
import aiohttp
from aiohttp import web

HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}

async def session(app):
    app["http"] = aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None),
                                        connector=aiohttp.TCPConnector(limit=0))
    yield
    await app["http"].close()

async def relay(request):
    headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP}
    body = await request.read()
    http, url = request.app["http"], sys.argv[1] + request.path_qs
    async with http.request(request.method, url, headers=headers, data=body, allow_redirects=False) as answer:
        drop = HOP - {"content-length"}
        kept = {k: v for k, v in answer.headers.items() if k.lower() not in drop}
        reply = web.StreamResponse(status=answer.status, reason=answer.reason, headers=kept)
        await reply.prepare(request)
        async for piece in answer.content.iter_any():
            await reply.write(piece)
        await reply.write_eof()
        return reply

app = web.Application(client_max_size=2**30)
app.cleanup_ctx.append(session)
app.router.add_route("*", "/{tail:.*}", relay)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), access_log=None, print=None)
"""

# What stands behind both: a stream of 128 tokens, a millisecond apart, or one JSON document.
BACKEND = """
import asyncio, json, sys

PIECE = json.dumps({"choices": [{"index": 0, "delta": {"content": "word "}}]}).encode()
PIECE = b"data: " + PIECE + b"\\n\\n"
CHUNK = b"%x\\r\\n%s\\r\\n" % (len(PIECE), PIECE)
END = b"e\\r\\ndata: [DONE]\\n\\n\\r\\n0\\r\\n\\r\\n"
WHOLE = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 64}}],
                    "usage": {"prompt_tokens": 12, "completion_tokens": 64}}).encode()

async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\\r\\n")[0])
            body = await reader.readexactly(length)
            if b'"stream": true' in body:
                writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\n"
                             b"Transfer-Encoding: chunked\\r\\n\\r\\n")
                for _ in range(128):
                    writer.write(CHUNK)
                    await asyncio.sleep(0.001)
                writer.write(END)
            else:
                writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n"
                             b"Content-Length: %d\\r\\n\\r\\n%s" % (len(WHOLE), WHOLE))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    async with server:
        await server.serve_forever()

asyncio.run(main())
"""

PROMPT = (
    "Could you explain how a serial inference server orders its queue, and why short questions wait? " * 3
)


def run() -> list[dict[str, Any]]:
    """Rows of the table: CPU a request of both, for whole answers (scheduled or not) and for streams."""
    return asyncio.run(_run())


async def _run() -> list[dict[str, Any]]:
    ports = {name: _free_port() for name in ("backend", "bare", "ours", "fast")}
    backend = f"http://127.0.0.1:{ports['backend']}"
    processes = {
        "backend": subprocess.Popen([sys.executable, "-c", BACKEND, str(ports["backend"])]),
        "bare": subprocess.Popen([sys.executable, "-c", BARE, backend, str(ports["bare"])]),
        "ours": _proxy(backend, ports["ours"], "sharegpt-rich"),
        "fast": _proxy(backend, ports["fast"], "sharegpt-rich:fast"),
    }
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            return [
                await _compare(http, what, requests, ports, processes) for what, requests in REQUESTS.items()
            ]
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def _proxy(backend: str, port: int, model: str) -> subprocess.Popen[bytes]:
    main = "from clairvoyant_lab.cli import main; main()"
    options = ["--backend", backend, "--port", str(port), "--slots", str(AT_ONCE), "--model", model]
    process = subprocess.Popen(
        [sys.executable, "-c", main, "proxy", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    process.stdout.readline()  # it says when it listens
    return process


async def _compare(
    http: aiohttp.ClientSession,
    what: str,
    requests: int,
    ports: dict[str, int],
    processes: dict[str, subprocess.Popen[bytes]],
) -> dict[str, Any]:
    pair = ("bare", "fast" if what.endswith("fast form") else "ours")
    for name in pair:
        await _until_up(http, ports[name])
        await _load(http, ports[name], what, requests)
    spent_ms: dict[str, list[float]] = {name: [] for name in pair}
    for _ in range(ROUNDS):
        for name in pair:
            before = _cpu_s(processes[name].pid)
            await _load(http, ports[name], what, requests)
            spent_ms[name].append((_cpu_s(processes[name].pid) - before) / requests * 1000)
    bare, ours = (np.array(spent_ms[name]) for name in pair)
    low, high = np.percentile(ours / bare, [25, 75])
    return {
        "bench": f"proxy CPU a request, {what}",
        "ours": float(np.median(ours)),
        "peer": float(np.median(bare)),
        "ratio": float(np.median(ours / bare)),
        "unit": "ms CPU",
        "target": f"<= {TARGET}",
        "note": f"peer: bare aiohttp pass-through; {ROUNDS} rounds of {requests}, {AT_ONCE} at once, "
        f"half of the rounds {low:.2f} to {high:.2f}",
    }


async def _load(http: aiohttp.ClientSession, port: int, what: str, n: int) -> None:
    stream = what.startswith("stream")
    path = "/v1/other" if what.endswith("not scheduled") else "/v1/chat/completions"
    body = {"model": "m", "messages": [{"role": "user", "content": PROMPT}], "stream": stream}
    left = iter(range(n))

    async def worker() -> None:
        for _ in left:
            async with http.post(f"http://127.0.0.1:{port}{path}", json=body) as answer:
                assert answer.status == 200
                assert len(await answer.read()) > 300

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def _until_up(http: aiohttp.ClientSession, port: int) -> None:
    deadline = time.monotonic() + 30.0
    while True:
        try:
            await _load(http, port, "one JSON answer", 1)
            return
        except aiohttp.ClientError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)


def _cpu_s(pid: int) -> float:
    """CPU of all threads of a process so far, by the scheduler's own count of nanoseconds (Linux)."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text(encoding="ascii").split()[0]) for file in threads) / 1e9


def _free_port() -> int:
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _show(rows: list[dict[str, Any]], echo: Callable[[str], None] = print) -> None:
    for row in rows:
        echo(
            f"{row['bench']}: ours {row['ours']:.3f}, peer {row['peer']:.3f} {row['unit']}, "
            f"ratio {row['ratio']:.2f} (target {row['target']}); {row['note']}"
        )


if __name__ == "__main__":
    _show(run())
