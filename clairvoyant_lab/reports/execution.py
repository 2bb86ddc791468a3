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

from clairvoyant_lab import __version__
from clairvoyant_lab.errors import DataError
from clairvoyant_lab.reports.parameters import Declaration, declared_parameters

__all__ = [
    "MAX_FILE_BYTES",
    "NotebookOutcome",
    "execute",
    "main_figure",
    "read_notebook",
    "read_outcome",
    "read_parameters",
]

MAX_FILE_BYTES = 1_000_000
_CELL_TIMEOUT_S = 900
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_FIGURE = "application/vnd.plotly.v1+json"
# key of the executed notebook's metadata under which a run is described, for the index of later runs
_RUN = "clairvoyant_report"
_RUN_KINDS: dict[str, type | tuple[type, ...]] = {
    "title": str,
    "ok": bool,
    "seconds": (int, float),
    "error": str,
    "ran_at": str,
    "settings": dict,
    "version": str,
}
_ALWAYS_NAMED = ("fast", "seed")


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
    ran_at : str
        When it was started, as local time with its zone; empty if that isn't known.
    settings : mapping
        Values of `seed`, of `fast` and of every parameter that was set from outside.
    version : str
        Of this package.
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
    ran_at: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""


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
    about: dict[str, Any] = {
        "title": name,
        "ran_at": time.strftime("%Y-%m-%d %H:%M %Z"),
        "settings": dict(parameters),
        "version": __version__,
    }
    path, page = Path(output), Path(output).with_suffix(".html")
    began = time.perf_counter()
    error = ""
    said: list[str] = []
    try:
        for old in (path, page):  # of an earlier run: they must not pass for this one's if it dies
            old.unlink(missing_ok=True)
        notebook = read_notebook(Path(source))
        about |= {"title": title_of(notebook, name), "settings": _settings(notebook, name, parameters)}
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
    about |= {"seconds": time.perf_counter() - began, "ok": not error}
    about["error"] = error.splitlines()[0] if error else ""
    if not path.is_file():
        return NotebookOutcome(**{**about, "name": name, "ok": False, "error": error or "wrote no file"})

    from clairvoyant_lab.reports.pages import write_page

    try:
        executed = read_notebook(path)
        clean(executed)
        executed.metadata[_RUN] = about
        text = json.dumps(executed, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        nbformat.validate(executed)
        path.write_text(text, encoding="utf-8")
        write_page(executed, page, title=about["title"], error=error)
    except Exception as failure:
        wrong = f"report not written: {type(failure).__name__}: {failure}"
        return NotebookOutcome(
            **{**about, "name": name, "ok": False, "notebook": path, "error": about["error"] or wrong}
        )
    return _outcome(path, executed, about)


def read_outcome(path: Path) -> NotebookOutcome:
    """Read back what came of a run from the executed notebook that it left.

    Parameters
    ----------
    path : Path
        An executed notebook in a report's folder.

    Returns
    -------
    NotebookOutcome
        As `execute` returned it. Of a notebook that plain papermill ran, what its own metadata say.

    Raises
    ------
    DataError
        If it is no notebook, or cannot be understood.
    """
    executed = read_notebook(path)
    about = executed.metadata.get(_RUN)
    if about is None:
        about = _plain_run(executed, path)
    elif not isinstance(about, dict) or not all(isinstance(about.get(n), k) for n, k in _RUN_KINDS.items()):
        raise DataError("tells of its run what this version does not understand", source=str(path))
    return _outcome(path, executed, {name: about[name] for name in _RUN_KINDS})


def _plain_run(executed: Any, path: Path) -> dict[str, Any]:
    """What plain papermill wrote of a run."""
    marks = executed.metadata.get("papermill")
    marks = marks if isinstance(marks, dict) else {}
    ended = marks.get("end_time") is not None and not marks.get("exception")
    seconds, parameters = marks.get("duration"), marks.get("parameters")
    return {
        "title": title_of(executed, path.stem),
        "ok": ended,
        "seconds": float(seconds) if isinstance(seconds, int | float) else 0.0,
        "error": "" if ended else "it did not run to its end",
        "ran_at": str(marks.get("start_time") or "")[:16].replace("T", " "),
        "settings": _settings(executed, path.name, parameters if isinstance(parameters, dict) else {}),
        "version": "",
    }


def _outcome(path: Path, executed: Any, about: Mapping[str, Any]) -> NotebookOutcome:
    from clairvoyant_lab.reports.extract import ledger_rows

    page = path.with_suffix(".html")
    files = [file for file in (path, page) if file.is_file()]
    notes = tuple(
        f"{file.name} has {file.stat().st_size / 1e6:.2f} MB; the limit is {MAX_FILE_BYTES / 1e6:.0f} MB"
        for file in files
        if file.stat().st_size > MAX_FILE_BYTES
    )
    return NotebookOutcome(
        **about,
        name=path.stem,
        notebook=path,
        page=page if page in files else None,
        figure=main_figure(executed),
        ledger=tuple(ledger_rows(executed)),
        notes=notes,
    )


def _settings(notebook: Any, source: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Values of `fast`, of `seed` and of what was set from outside, in the order they are declared."""
    declared = read_parameters(notebook, source=source)
    named = {
        name: parameters.get(name, declaration.default)
        for name, declaration in declared.items()
        if name in parameters or name in _ALWAYS_NAMED
    }
    return {**named, **{name: value for name, value in parameters.items() if name not in named}}


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
            if not isinstance(spec, Mapping) or "data" not in spec:
                continue
            text = json.dumps({"data": spec["data"], "layout": spec.get("layout", {})}, separators=(",", ":"))
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
