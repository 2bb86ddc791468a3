"""The process in which one notebook runs: a plan as a line of JSON on stdin, the outcome as JSON on stdout.

A plain `python -m clairvoyant_lab.reports.worker`, not a multiprocessing worker: that one would import the
caller's script again, and a script without an `if __name__ == "__main__"` guard would start over in it.

Its stdin stays open as long as the outcome is wanted. When that ends, be it that the caller was killed, the
process stops its kernel and ends too.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import IO, Any

from clairvoyant_lab.reports.execution import NotebookOutcome, execute

__all__ = ["Workers"]


class Workers:
    """Runs notebooks, each in a process of its own, from any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lifelines: set[IO[str]] = set()
        self._ended = False

    def run(self, source: Path, output: Path, parameters: Mapping[str, Any], threads: int) -> NotebookOutcome:
        """Run one notebook; parameters as for `execute`.

        A process that dies, by the system's memory guard most likely, is an outcome too.
        """
        plan = {
            "source": str(source),
            "output": str(output),
            "parameters": dict(parameters),
            "threads": threads,
        }
        # -P: a file of the user's folder must not pass for a module of ours
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "clairvoyant_lab.reports.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        lifeline, process.stdin = process.stdin, None  # else communicate() would close it
        assert lifeline is not None
        with self._lock:
            self._lifelines.add(lifeline)
            if self._ended:
                _close(lifeline)
        try:
            lifeline.write(json.dumps(plan) + "\n")
            lifeline.flush()
        except (OSError, ValueError):  # it has died, or was to end: its exit code tells
            _close(lifeline)
        said, complaints = process.communicate()
        with self._lock:
            self._lifelines.discard(lifeline)
        _close(lifeline)
        return _outcome(source, process.returncode, said, complaints)

    def end(self) -> None:
        """Let every process stop its kernel and end, those that begin later too."""
        with self._lock:
            self._ended = True
            for lifeline in self._lifelines:
                _close(lifeline)


def _outcome(source: Path, code: int, said: str, complaints: str) -> NotebookOutcome:
    if code == 0:
        record = json.loads(said)
        files = {name: Path(record[name]) if record[name] else None for name in ("notebook", "page")}
        rows = {name: tuple(record[name]) for name in ("ledger", "notes")}
        return NotebookOutcome(**{**record, **files, **rows})
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    last = (complaints.strip().splitlines() or ["no word"])[-1]
    return NotebookOutcome(
        source.stem, source.stem, False, 0.0, error=f"its process was killed ({ended}; {last})"
    )


def _close(lifeline: IO[str]) -> None:
    with contextlib.suppress(OSError):  # nobody reads it any more
        lifeline.close()


def main() -> None:
    """Run the plan on stdin."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed must not end up in the answer
    signal.signal(signal.SIGINT, _interrupted)
    plan = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with, args=(sys.stdin.fileno(),), daemon=True).start()
    outcome = execute(**plan)
    with answer:
        json.dump(asdict(outcome), answer, default=str)


def _interrupted(number: int, frame: FrameType | None) -> None:
    # Ctrl-C comes from the terminal and from the caller: a second one would break into the kernel's end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with(stdin: int) -> None:
    """Interrupt the main thread when nobody holds the other end of stdin any more."""
    while os.read(stdin, 1):
        pass
    if hasattr(signal, "pthread_kill"):  # wakes a thread that waits for a kernel
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


if __name__ == "__main__":
    main()
