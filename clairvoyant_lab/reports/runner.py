"""Runs notebooks headless, several at a time, into a folder that opens as a report.

```python
from clairvoyant_lab.reports import run_notebooks

outcomes = run_notebooks(["00_quickstart"], out_dir="reports", parameters={"seed": 7}, fast=True)
```

Names and parameters are checked before any kernel starts. A notebook that fails doesn't stop the others.
Each runs in a process of its own; a plain script may call this, it needs no `__main__` guard.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from clairvoyant_lab.errors import DataError, ParameterError, unknown_name
from clairvoyant_lab.paths import notebooks_dir
from clairvoyant_lab.reports.execution import NotebookOutcome, read_notebook, read_parameters
from clairvoyant_lab.reports.parameters import Declaration, check_overrides
from clairvoyant_lab.reports.worker import Workers

__all__ = ["NotebookOutcome", "find_notebooks", "plan_parameters", "run_notebooks"]


def find_notebooks(names: Sequence[str] | None = None, folder: str | Path | None = None) -> list[Path]:
    """Return the notebooks to run, sorted by name.

    Parameters
    ----------
    names : sequence of str, optional
        Whole names (`00_quickstart`), unambiguous beginnings (`00`) or paths of .ipynb; all by default.
    folder : path, optional
        Where they lie; the package's own by default.

    Raises
    ------
    ParameterError
        For a name that fits none or several.
    DataError
        If the folder has no notebook.
    """
    root = notebooks_dir() if folder is None else Path(folder)
    known = {path.stem: path for path in sorted(root.glob("*.ipynb"))}
    found: dict[str, Path] = {}
    for name in names or ():
        own = Path(name)
        if own.suffix == ".ipynb" and own.is_file():
            found[own.stem] = own
            continue
        stem = own.stem if own.suffix == ".ipynb" else name
        fits = [stem] if stem in known else [key for key in known if key.startswith(stem)]
        if len(fits) > 1:
            raise ParameterError("name", name, f"fits {', '.join(fits)}; give more of it")
        if not fits:
            raise unknown_name("notebook", name, known)
        found[fits[0]] = known[fits[0]]
    if not names:
        found = known
    if not found:
        raise DataError("has no notebooks", source=str(root))
    return [found[stem] for stem in sorted(found)]


def plan_parameters(
    notebooks: Sequence[Path], parameters: Mapping[str, Any], fast: bool = False
) -> dict[str, dict[str, Any]]:
    """Check parameters against what the notebooks declare.

    A parameter goes to every notebook that declares it; one that none declares is refused.

    Parameters
    ----------
    notebooks : sequence of Path
        The notebooks to run.
    parameters : mapping
        Name -> value or its text.
    fast : bool
        Set `fast` too.

    Returns
    -------
    dict of str to dict
        Notebook name -> checked parameters.

    Raises
    ------
    ParameterError
        For an unknown name or a value of another type.
    """
    wanted = {**parameters, **({"fast": True} if fast else {})}
    declared: dict[str, dict[str, Declaration]] = {
        path.stem: read_parameters(read_notebook(path), source=path.name) for path in notebooks
    }
    known = sorted({name for table in declared.values() for name in table})
    for name in wanted:
        if name not in known and not (name == "fast" and fast):
            raise unknown_name("parameter", name, known)
    return {
        stem: check_overrides(table, {name: value for name, value in wanted.items() if name in table})
        for stem, table in declared.items()
    }


def run_notebooks(
    names: Sequence[str] | None = None,
    *,
    out_dir: str | Path = "reports",
    parameters: Mapping[str, Any] | None = None,
    fast: bool = False,
    jobs: int | None = None,
    folder: str | Path | None = None,
    progress: bool = True,
) -> list[NotebookOutcome]:
    """Run notebooks in parallel, each in a process of its own, and write .ipynb, .html and an index page.

    Parameters
    ----------
    names : sequence of str, optional
        Which; all by default (see `find_notebooks`).
    out_dir : path
        The report's folder; it is made, and files of the same names are replaced. The index page lists
        these notebooks and those that earlier runs left there.
    parameters : mapping, optional
        Name -> value or its text (see `plan_parameters`).
    fast : bool
        Run every notebook with `fast=True`.
    jobs : int, optional
        How many at a time; the number of cores by default.
    folder : path, optional
        Where the notebooks lie; the package's own by default.
    progress : bool
        Show a progress bar on stderr.

    Returns
    -------
    list of NotebookOutcome
        In the order of the names.

    Raises
    ------
    ParameterError, DataError
        For bad use; nothing has run then.
    """
    from clairvoyant_lab.reports.pages import write_index, write_plotly_script

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = cores if jobs is None else jobs
    if workers < 1:
        raise ParameterError("jobs", jobs, "give at least 1")
    paths = find_notebooks(names, folder)
    plan = plan_parameters(paths, parameters or {}, fast)
    out = Path(out_dir)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError("out_dir", str(out), f"cannot be made ({error.strerror})") from error
    write_plotly_script(out)
    workers = min(workers, len(paths))
    apart = Workers()
    with ThreadPoolExecutor(workers) as pool:
        try:
            outcomes = _collect(pool, apart, paths, plan, out, max(1, cores // workers), progress)
        except BaseException:  # Ctrl-C: what has not begun must not begin now, and what runs must end
            pool.shutdown(wait=False, cancel_futures=True)
            apart.end()
            raise
    write_index(outcomes, out)
    return outcomes


def _collect(
    pool: ThreadPoolExecutor,
    apart: Workers,
    paths: Sequence[Path],
    plan: Mapping[str, Mapping[str, Any]],
    out: Path,
    threads: int,
    progress: bool,
) -> list[NotebookOutcome]:
    from tqdm.auto import tqdm

    futures: dict[Future[NotebookOutcome], str] = {
        pool.submit(apart.run, path, out / path.name, plan[path.stem], threads): path.stem for path in paths
    }
    outcomes: dict[str, NotebookOutcome] = {}
    with tqdm(total=len(paths), unit="notebook", disable=not progress) as bar:
        for future in as_completed(futures):
            stem = futures[future]
            outcomes[stem] = future.result()
            bar.set_postfix_str(f"{stem} {'ran' if outcomes[stem].ok else 'FAILED'}")
            bar.update()
    return [outcomes[path.stem] for path in paths]
