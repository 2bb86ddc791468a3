"""Run every benchmark in one process and print one table: ours, the peer's, the ratio, the target.

    python benchmarks/run.py [NAME ...] [--json PATH]

Each `bench_NAME.py` beside this file has `run() -> list[dict]` with the keys bench, ours, peer, ratio, unit,
target, note. Figures are medians of one run on one machine: compare ratios, not single times.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COLUMNS = ("bench", "ours", "peer", "ratio", "unit", "target", "note")


def _load(path: Path) -> Callable[[], list[dict[str, Any]]]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and pickling look a module up by name
    spec.loader.exec_module(module)
    return module.run  # type: ignore[no-any-return]


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def main(argv: list[str] | None = None) -> int:
    """Run the chosen benchmarks; exit 1 if one could not run."""
    available = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"which of: {', '.join(available)} (default: all)")
    parser.add_argument("--json", type=Path, default=HERE.parent / "bench-results" / "latest.json")
    options = parser.parse_args(argv)
    unknown = sorted(set(options.names) - set(available))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(available)}")

    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    for name in options.names or available:
        began = time.perf_counter()
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            rows += [{"room": name, **row} for row in _load(available[name])()]
        except Exception as error:  # one benchmark that cannot run must not hide the others' figures
            failed.append(f"{name}: {type(error).__name__}: {error}")
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)

    cells = [COLUMNS, *[tuple(_cell(row.get(column)) for column in COLUMNS) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(COLUMNS))]
    for row in cells:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())

    python = platform.python_version()
    machine = {"python": python, "processor": platform.machine(), "cores": os.cpu_count()}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": machine, "rows": rows, "failed": failed}, indent=2) + "\n")
    print(f"\n{platform.machine()}, {os.cpu_count()} cores, Python {python}; also as {options.json}")
    for line in failed:
        print(f"could not run: {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
