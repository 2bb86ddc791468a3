"""Sweeps: policy x τ x ρ x C_s² x seeds in one call, on any executor, resumable.

All policies of a cell (ρ, C_s², seed) run on the same trace: common random numbers. With a store, each cell
is written as soon as it is done; a sweep that was killed goes on where it stopped, and one with more
policies computes only those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.results import summary_html, summary_text
from clairvoyant_lab.scheduling.serial import SerialPolicy, serial_policy
from clairvoyant_lab.simulation.replicates import mean_interval
from clairvoyant_lab.simulation.serial import simulate_serial
from clairvoyant_lab.simulation.service_times import ServiceModel, gamma, lognormal
from clairvoyant_lab.simulation.sweep_store import SweepStore, cell_key
from clairvoyant_lab.simulation.workloads import paper_mix, poisson_trace

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SweepResult", "sweep"]

SERVICES: dict[str, Callable[[float], ServiceModel]] = {
    "paper_mix": paper_mix,
    "gamma": lambda cs2: gamma(6.2, cs2),
    "lognormal": lambda cs2: lognormal(6.2, cs2),
}
_QUANTILES = (50, 95, 99)
_AXES = ["policy", "promotion", "tau_s", "rho", "cs2", "slots", "class"]


@dataclass(frozen=True)
class _Cell:
    """What one task computes: some policies on one trace."""

    service: ServiceModel
    n: int
    rho: float
    cs2: float
    seed: int
    accuracy: float | None
    slots: int
    policies: tuple[SerialPolicy, ...]


@dataclass(frozen=True, repr=False, eq=False)
class SweepResult:
    """Rows of a sweep; make tables of it with `to_frame`, `means` and `differences`.

    Attributes
    ----------
    rows : tuple of dict
        One a policy, cell and class.
    cells_computed, cells_reused : int
        Pairs (cell, policy) that were computed now, and that the store had.
    """

    rows: tuple[dict[str, Any], ...]
    cells_computed: int
    cells_reused: int
    parameters: dict[str, Any] = field(default_factory=dict)

    def to_frame(self) -> pd.DataFrame:
        """Tidy frame: policy, promotion, tau_s (NaN: no limit), rho, cs2, seed, slots, class, requests,
        mean and percentiles of sojourn and wait in seconds, promoted_share, throughput_per_s.
        """
        import pandas as pd

        return pd.DataFrame(self.rows)

    def means(self, column: str = "p50_sojourn_s") -> pd.DataFrame:
        """Mean over seeds and its 95 % interval, one row a policy, τ, ρ, C_s² and class."""
        return self._over_seeds(self.to_frame(), column)

    def differences(self, base: str = "fcfs", column: str = "p50_sojourn_s") -> pd.DataFrame:
        """Paired differences against a base policy over seeds, in the column's unit and in percent.

        Raises
        ------
        ParameterError
            If the sweep has no such policy.
        """
        frame = self.to_frame()
        match = ["rho", "cs2", "slots", "class", "seed"]
        other = frame[frame["policy"] == base]
        if other.empty:
            raise unknown_name("base", base, list(dict.fromkeys(frame["policy"])))
        # a policy with several τ can't be a base: its rows would pair more than once
        if other.duplicated(match).any():
            raise ParameterError("base", base, "has several settings in this sweep; give one with a single τ")
        pairs = frame[frame["policy"] != base].merge(
            other[[*match, column]], on=match, suffixes=("", "_base")
        )
        pairs["difference"] = pairs[column] - pairs[f"{column}_base"]
        pairs["change_pct"] = 100.0 * (pairs[column] / pairs[f"{column}_base"] - 1.0)
        first = self._over_seeds(pairs, "difference")
        second = self._over_seeds(pairs, "change_pct").drop(columns="seeds")
        return first.merge(second, on=_AXES)

    @staticmethod
    def _over_seeds(frame: pd.DataFrame, column: str) -> pd.DataFrame:
        import pandas as pd

        if column not in frame.columns:
            raise unknown_name("column", column, list(frame.columns))
        rows = []
        for axes, part in frame.groupby(_AXES, dropna=False, sort=False):
            mean, low, high = mean_interval(part[column].to_numpy(dtype=np.float64))
            row = dict(zip(_AXES, axes, strict=True))
            rows.append(
                row | {column: mean, f"{column}_low": low, f"{column}_high": high, "seeds": len(part)}
            )
        return pd.DataFrame(rows)

    def summary(self) -> dict[str, Any]:
        """Return how much was computed and how much came from the store."""
        return {
            "rows": len(self.rows),
            "cells_computed": self.cells_computed,
            "cells_reused": self.cells_reused,
            **{key: str(value) for key, value in self.parameters.items()},
        }

    def __repr__(self) -> str:
        return summary_text("SweepResult", self.summary())

    def _repr_html_(self) -> str:
        return summary_html("Sweep", self.summary())


def sweep(
    policies: Sequence[SerialPolicy | str] = ("fcfs", "sjf"),
    taus_s: Sequence[float | None] = (None,),
    rhos: Sequence[float] = (0.74,),
    cs2s: Sequence[float] = (1.0,),
    seeds: Iterable[int] = range(5),
    *,
    promotions: Sequence[str] = ("oldest",),
    service: str | ServiceModel = "paper_mix",
    n: int = 2000,
    accuracy: float | None = 0.95,
    slots: int = 1,
    executor: Any = None,
    store: str | Path | None = None,
    progress: bool = False,
) -> SweepResult:
    """Simulate every combination under Poisson arrivals.

    Parameters
    ----------
    policies : sequence of SerialPolicy or str
        A name is combined with every τ and promotion rule (`fcfs` and `srpt` come once, without τ); a
        `SerialPolicy` is taken as it is.
    taus_s : sequence of float or None
        Starvation timeouts in seconds; None: no limit.
    rhos, cs2s : sequence of float
        Loads, and squared coefficients of variation (within a class for `paper_mix`).
    seeds : iterable of int
    promotions : sequence of str
    service : str or ServiceModel
        `paper_mix`, `gamma` or `lognormal` (mean 6.2 s) with each of `cs2s`; a model fixes its own C_s².
    n : int
        Requests a cell.
    accuracy : float, optional
        Ranking accuracy of the score; None for models without classes.
    slots : int
    executor : Executor or Dask client, optional
        Anything with the `submit` of `concurrent.futures`, or a Dask `Client`. None: in this process.
    store : str or Path, optional
        An SQLite file for finished cells.
    progress : bool
        Show a progress bar.

    Returns
    -------
    SweepResult
    """
    chosen = _expand(policies, taus_s, promotions)
    cells = list(_cells(chosen, rhos, cs2s, list(seeds), service, n, accuracy, slots))
    kept = SweepStore(store) if store is not None else None
    done: dict[str, list[dict[str, Any]]] = {}
    tasks: list[_Cell] = []
    try:
        for cell in cells:
            keys = {key_of(cell, policy): policy for policy in cell.policies}
            found = kept.read(list(keys)) if kept is not None else {}
            done |= found
            missing = tuple(policy for key, policy in keys.items() if key not in found)
            if missing:
                tasks.append(_with_policies(cell, missing))
        reused = len(done)
        for cell, results in _finished(tasks, executor, progress):
            fresh = {key_of(cell, p): rows for p, rows in zip(cell.policies, results, strict=True)}
            if kept is not None:
                kept.write(fresh)
            done |= fresh
    finally:
        if kept is not None:
            kept.close()
    rows = [row for cell in cells for policy in cell.policies for row in done[key_of(cell, policy)]]
    parameters = {
        "n": n,
        "accuracy": accuracy,
        "service": service if isinstance(service, str) else service.name,
    }
    return SweepResult(tuple(rows), len(done) - reused, reused, parameters)


def key_of(cell: _Cell, policy: SerialPolicy) -> str:
    """Name of a pair (cell, policy) in a store: everything that its result depends on."""
    return cell_key(
        cell.service.parts, cell.n, cell.rho, cell.cs2, cell.seed, cell.accuracy, cell.slots, policy=policy
    )


def _with_policies(cell: _Cell, policies: tuple[SerialPolicy, ...]) -> _Cell:
    return _Cell(cell.service, cell.n, cell.rho, cell.cs2, cell.seed, cell.accuracy, cell.slots, policies)


def _expand(
    policies: Sequence[SerialPolicy | str], taus_s: Sequence[float | None], promotions: Sequence[str]
) -> tuple[SerialPolicy, ...]:
    chosen: dict[SerialPolicy, None] = {}
    for policy in policies:
        if isinstance(policy, SerialPolicy):
            chosen[policy] = None
        elif policy in ("fcfs", "srpt"):
            chosen[serial_policy(policy)] = None
        else:
            for tau in taus_s:
                # without a limit the promotion rule has no effect
                for promotion in promotions if tau is not None else promotions[:1]:
                    chosen[serial_policy(policy, tau, promotion=promotion)] = None
    if not chosen:
        raise ParameterError("policies", list(policies), "give at least one policy and one τ")
    return tuple(chosen)


def _cells(
    policies: tuple[SerialPolicy, ...],
    rhos: Sequence[float],
    cs2s: Sequence[float],
    seeds: Sequence[int],
    service: str | ServiceModel,
    n: int,
    accuracy: float | None,
    slots: int,
) -> Iterator[_Cell]:
    if isinstance(service, ServiceModel):
        models = [(service.cs2, service)]
    elif service in SERVICES:
        models = [(float(cs2), SERVICES[service](float(cs2))) for cs2 in cs2s]
    else:
        raise unknown_name("service", service, SERVICES)
    if not (rhos and models and seeds):
        raise ParameterError("rhos", list(rhos), "give at least one load, one C_s² and one seed")
    if accuracy is not None and not models[0][1].has_classes:
        raise ParameterError(
            "accuracy", accuracy, "the service model has no classes: give None, and `oracle`"
        )
    for rho in rhos:
        for cs2, model in models:
            for seed in seeds:
                yield _Cell(model, n, float(rho), cs2, int(seed), accuracy, slots, policies)


def _finished(
    tasks: Sequence[_Cell], executor: Any, progress: bool
) -> Iterator[tuple[_Cell, list[list[dict[str, Any]]]]]:
    """Results as they come; on an interrupt what has not begun is cancelled."""
    from tqdm.auto import tqdm

    with tqdm(total=len(tasks), disable=not progress, desc="sweep", unit="cell") as bar:
        if executor is None:
            for task in tasks:
                yield task, _run_cell(task)
                bar.update()
            return
        pool: Executor = executor.get_executor() if hasattr(executor, "get_executor") else executor
        pending: dict[Future[Any], _Cell] = {pool.submit(_run_cell, task): task for task in tasks}
        try:
            while pending:
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    yield pending.pop(future), future.result()
                    bar.update()
        finally:
            for future in pending:
                future.cancel()


def _run_cell(cell: _Cell) -> list[list[dict[str, Any]]]:
    """Rows of each policy of a cell; runs in a worker."""
    trace = poisson_trace(cell.n, cell.service, rho=cell.rho, seed=cell.seed, accuracy=cell.accuracy)
    groups: list[LengthClass | None] = [None]
    if trace.length_class is not None:
        groups += [c for c in LengthClass if np.any(trace.length_class == c)]
    results = []
    for policy in cell.policies:
        run = simulate_serial(trace, policy, cell.slots)
        rows = []
        for group in groups:
            own = slice(None) if group is None else trace.length_class == int(group)
            row: dict[str, Any] = {
                "policy": policy.name, "promotion": policy.promotion,
                "tau_s": np.nan if policy.starvation_timeout_s is None else policy.starvation_timeout_s,
                "rho": cell.rho, "cs2": cell.cs2, "seed": cell.seed, "slots": cell.slots,
                "class": "all" if group is None else group.label,
            }  # fmt: skip
            for what in ("sojourn_s", "wait_s"):
                values = getattr(run, what)[own]
                row["requests"] = int(values.size)
                row[f"mean_{what}"] = float(values.mean())
                cuts = np.percentile(values, _QUANTILES)
                row |= {f"p{q}_{what}": float(cut) for q, cut in zip(_QUANTILES, cuts, strict=True)}
            row["promoted_share"] = float(run.promoted[own].mean())
            row["throughput_per_s"] = run.throughput_per_s
            rows.append(row)
        results.append(rows)
    return results
