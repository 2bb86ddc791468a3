"""The process in which one notebook runs: a plan as JSON on stdin, the outcome as JSON on stdout.

A plain `python -m clairvoyant_lab.reports.worker`, not a multiprocessing worker: that one would import the
caller's script again, and a script without an `if __name__ == "__main__"` guard would start over in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clairvoyant_lab.reports.execution import NotebookOutcome, execute

__all__ = ["run_apart"]


def run_apart(source: Path, output: Path, parameters: Mapping[str, Any], threads: int) -> NotebookOutcome:
    """Run one notebook in a process of its own; parameters as for `execute`.

    A process that dies, by the system's memory guard most likely, is an outcome too.
    """
    plan = {"source": str(source), "output": str(output), "parameters": dict(parameters), "threads": threads}
    # -P: a file of the user's folder must not pass for a module of ours
    done = subprocess.run(
        [sys.executable, "-P", "-m", "clairvoyant_lab.reports.worker"],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        record = json.loads(done.stdout)
        files = {name: Path(record[name]) if record[name] else None for name in ("notebook", "page")}
        rows = {name: tuple(record[name]) for name in ("ledger", "notes")}
        return NotebookOutcome(**{**record, **files, **rows})
    ended = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    last = (done.stderr.strip().splitlines() or ["no word"])[-1]
    return NotebookOutcome(
        source.stem, source.stem, False, 0.0, error=f"its process was killed ({ended}; {last})"
    )


def main() -> None:
    """Run the plan on stdin."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed must not end up in the answer
    outcome = execute(**json.load(sys.stdin))
    with answer:
        json.dump(asdict(outcome), answer, default=str)


if __name__ == "__main__":
    main()
