"""Benchmarks of serial policies: burst, Poisson and trace replay on a hardware profile, and their reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.lazy import lazy_names

if TYPE_CHECKING:
    from clairvoyant_lab.bench.report import BenchReport as BenchReport
    from clairvoyant_lab.bench.report import BenchSample as BenchSample
    from clairvoyant_lab.bench.simulated import bench_burst as bench_burst
    from clairvoyant_lab.bench.simulated import bench_poisson as bench_poisson
    from clairvoyant_lab.bench.simulated import bench_replay as bench_replay

__all__ = ["BenchReport", "BenchSample", "bench_burst", "bench_poisson", "bench_replay"]

__getattr__ = lazy_names(
    __name__,
    {
        "BenchReport": "report",
        "BenchSample": "report",
        "bench_burst": "simulated",
        "bench_poisson": "simulated",
        "bench_replay": "simulated",
    },
)
