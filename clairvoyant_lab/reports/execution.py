"""Runs one notebook in a kernel of its own and leaves a clean file behind."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clairvoyant_lab.errors import DataError
from clairvoyant_lab.reports.parameters import Declaration, declared_parameters

__all__ = ["MAX_FILE_BYTES", "NotebookOutcome", "execute", "main_figure", "read_notebook", "read_parameters"]

MAX_FILE_BYTES = 1_000_000
_CELL_TIMEOUT_S = 900
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_FIGURE = "application/vnd.plotly.v1+json"


@dataclass(frozen=True)
class NotebookOutcome:
    """What came of one notebook.

    Parameters
    ----------
    name : str
        The notebook's name without suffix.
    title : str
        Its first heading.
    ok : bool
        Whether every cell ran.
    seconds : float
        Wall time of the run, kernel start included.
    notebook, page : Path or None
        The executed notebook and its HTML page, where they could be written.
    error : str
        One line saying which cell failed with what; empty if `ok`.
    figure : str
        The main figure as plotly JSON; empty if there is none.
    ledger : tuple of mapping
        The rows of its ledger tables, column -> text.
    notes : tuple of str
        What a reader should know, as a file above 1 MB.
    """

    name: str
    title: str
    ok: bool
    seconds: float
    notebook: Path | None = None
    page: Path | None = None
    error: str = ""
    figure: str = ""
    ledger: tuple[Mapping[str, str], ...] = ()
    notes: tuple[str, ...] = field(default=())


def read_notebook(path: Path) -> Any:
    """Read a notebook file.

    Raises
    ------
    DataError
        If it is no notebook.
    """
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", source=str(path)) from error
    except Exception as error:  # nbformat raises kinds of its own, and json's
        raise DataError(f"is no notebook ({error})", source=str(path)) from error


def read_parameters(notebook: Any, *, source: str) -> dict[str, Declaration]:
    """Return what a notebook's cell tagged `parameters` declares; nothing if it has none."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and "parameters" in cell.metadata.get("tags", []):
            return declared_parameters(cell.source, where=f"{source}, parameters cell")
    return {}


def title_of(notebook: Any, default: str) -> str:
    """Return the first heading of a notebook."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for line in cell.source.splitlines():
                if line.startswith("#"):
                    return line.lstrip("# ").strip()
    return default


def execute(source: str, output: str, parameters: Mapping[str, Any], threads: int) -> NotebookOutcome:
    """Run one notebook through papermill; a failure becomes part of the outcome, never an exception.

    Meant for a worker process of its own: it sets the environment that the kernel inherits.

    Parameters
    ----------
    source, output : str
        Paths of the notebook and of the executed copy.
    parameters : mapping
        Checked values, as `check_overrides` gives them.
    threads : int
        How many threads numerical libraries in the kernel may take.
    """
    import nbformat
    import papermill
    from papermill.exceptions import PapermillExecutionError

    os.environ["CLAIRVOYANT_DISPLAY"] = "static"
    os.environ.pop("JPY_SESSION_NAME", None)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, str(threads))
    name = Path(source).stem
    title = name
    began = time.perf_counter()
    error = ""
    said: list[str] = []
    try:
        title = title_of(read_notebook(Path(source)), name)
        with _kernel_stderr(said):
            papermill.execute_notebook(
                source,
                output,
                parameters=dict(parameters),
                kernel_name="python3",
                progress_bar=False,
                execution_timeout=_CELL_TIMEOUT_S,
                store_widget_state=False,
            )
    except PapermillExecutionError as failure:
        error = f"In [{failure.exec_count}]: {failure.ename}: {failure.evalue}"
    except Exception as failure:  # a dead kernel, a time-out, a full disk: the others still run
        error = f"{type(failure).__name__}: {failure} {_last_words(said)}".strip()
    seconds = time.perf_counter() - began
    path = Path(output)
    if not path.is_file():
        return NotebookOutcome(name, title, False, seconds, error=error or "wrote no file")

    from clairvoyant_lab.reports.extract import ledger_rows
    from clairvoyant_lab.reports.pages import write_page

    try:
        executed = read_notebook(path)
        clean(executed)
        text = json.dumps(executed, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        nbformat.validate(executed)
        path.write_text(text, encoding="utf-8")
        page = path.with_suffix(".html")
        write_page(executed, page, title=title, error=error)
    except Exception as failure:
        error = error or f"report not written: {type(failure).__name__}: {failure}"
        return NotebookOutcome(name, title, False, seconds, notebook=path, error=error)
    notes = tuple(
        f"{file.name} has {file.stat().st_size / 1e6:.2f} MB; the limit is {MAX_FILE_BYTES / 1e6:.0f} MB"
        for file in (path, page)
        if file.stat().st_size > MAX_FILE_BYTES
    )
    return NotebookOutcome(
        name=name,
        title=title,
        ok=not error,
        seconds=seconds,
        notebook=path,
        page=page,
        error=error.splitlines()[0] if error else "",
        figure=main_figure(executed),
        ledger=tuple(ledger_rows(executed)),
        notes=notes,
    )


@contextlib.contextmanager
def _kernel_stderr(said: list[str]) -> Iterator[None]:
    """Keep what a kernel says on stderr off the progress bar, for the error message if it dies."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            said += file.read().decode(errors="replace").splitlines()


def _last_words(said: list[str]) -> str:
    lines = [line for line in said if line.strip() and "without encryption" not in line]
    return f"(kernel: {lines[-1]})" if lines else ""


def clean(notebook: Any) -> None:
    """Drop in place what only a live front end can show: widget state, widget views, NaN in JSON."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        kept = []
        for output in cell.outputs:
            data = output.get("data", {})
            if _WIDGET_VIEW in data:
                continue
            for kind, value in data.items():
                if kind.endswith("json"):
                    data[kind] = _finite(value)
            kept.append(output)
        cell.outputs = kept


def main_figure(notebook: Any) -> str:
    """Return the figure shown with `main=True`, else the first one, as plotly JSON; empty without any."""
    first = ""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            spec = output.get("data", {}).get(_FIGURE)
            if spec is None:
                continue
            text = json.dumps({"data": spec["data"], "layout": spec["layout"]}, separators=(",", ":"))
            if output.get("metadata", {}).get("clairvoyant", {}).get("main"):
                return text
            first = first or text
    return first


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
