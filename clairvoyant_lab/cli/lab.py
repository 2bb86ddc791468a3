"""Commands around the workbench: lab, notebooks, report, doctor."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from clairvoyant_lab.cli.frame import JsonOption, command_errors, print_frame, print_json, refuse
from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.results import counted

__all__ = ["register"]

FIRST_NOTEBOOK = "00_quickstart.ipynb"


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(lab)
    app.command()(notebooks)
    app.command()(report)
    app.command()(doctor)


@command_errors
def lab(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Option("--notebooks", help="Folder of notebooks; the checkout's by default.")
    ] = None,
) -> None:
    """Open JupyterLab on the quickstart.

    Further options go to jupyter lab, as --port 8890 or --no-browser.
    """
    from clairvoyant_lab.paths import checkout_root, notebooks_dir

    root = folder
    if root is None:
        root = notebooks_dir() if checkout_root() is not None else Path("clairvoyant-notebooks")
    if not (root / FIRST_NOTEBOOK).is_file():
        _put_down(root, force=False)
    options = list(context.args)
    # Jupyter refuses to run as root unless told; in a container root is the only user there is.
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in options:
        options.append("--allow-root")
    typer.echo(f"JupyterLab on {root / FIRST_NOTEBOOK}; open the URL it prints below. Stop it with Ctrl-C.")
    # not as a file to open: this way the printed URL leads to the notebook too, which --no-browser needs
    place = [f"--ServerApp.root_dir={root.resolve()}", f"--LabApp.default_url=/lab/tree/{FIRST_NOTEBOOK}"]
    command = [sys.executable, "-m", "jupyterlab", *place, *options]
    sys.stdout.flush()
    os.execv(sys.executable, command)


@command_errors
def notebooks(
    folder: Annotated[Path, typer.Argument(help="Where to put them; made if it isn't there.")],
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Put the notebooks into a folder of your own."""
    put, kept = _put_down(folder, force=force)
    for path in put:
        typer.echo(f"wrote {path}")
    for path in kept:
        typer.echo(f"kept  {path} (--force replaces it)")
    typer.echo(f"open them with: clairvoyant-lab lab --notebooks {folder}")


@command_errors
def report(
    names: Annotated[list[str] | None, typer.Argument(help="Notebooks, as 00_quickstart or 00; all.")] = None,
    parameter: Annotated[
        list[str] | None, typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="May be repeated.")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Run each with fast=True (under 30 s each).")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", help="How many at a time; one a core.")] = None,
    out_dir: Annotated[Path, typer.Option("--out", help="The report's folder.")] = Path("reports"),
    folder: Annotated[
        Path | None, typer.Option("--notebooks", help="Folder of notebooks; the package's by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run notebooks headless; write pages and an index.

    Each leaves an executed .ipynb and an .html. Exit 1 if one failed.
    """
    from clairvoyant_lab.reports.runner import run_notebooks

    outcomes = run_notebooks(
        names, out_dir=out_dir, parameters=_pairs(parameter or []), fast=fast, jobs=jobs, folder=folder
    )
    if as_json:
        print_json(
            [
                {
                    "name": outcome.name,
                    "ok": outcome.ok,
                    "seconds": round(outcome.seconds, 2),
                    "error": outcome.error,
                    "page": None if outcome.page is None else str(outcome.page),
                    "ledger_rows": len(outcome.ledger),
                    "notes": list(outcome.notes),
                }
                for outcome in outcomes
            ]
        )
    else:
        for outcome in outcomes:
            typer.echo(f"{'ran   ' if outcome.ok else 'FAILED'}  {outcome.name}  {outcome.seconds:.1f} s")
            for note in outcome.notes:
                typer.echo(f"        {note}")
        typer.echo(f"report: {out_dir / 'index.html'}")
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if failed:
        lines = "\n".join(f"  {outcome.name}: {outcome.error}" for outcome in failed)
        raise refuse(f"{len(failed)} of {counted(len(outcomes), 'notebook')} failed:\n{lines}")


@command_errors
def doctor(as_json: JsonOption = False) -> None:
    """Say what is installed, and how to get the rest.

    Exit 1 if something needed is missing.
    """
    import pandas as pd

    from clairvoyant_lab.reports.doctor import examine

    findings = examine()
    print_frame(pd.DataFrame([finding._asdict() for finding in findings]), as_json)
    missing = [finding for finding in findings if finding.state == "missing"]
    if missing:
        parts = counted(len(missing), "needed part is", "needed parts are")
        raise refuse(f"{parts} missing: {', '.join(finding.part for finding in missing)}")


def _pairs(texts: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ParameterError("-p", text, "write it as NAME=VALUE")
        values[name.strip()] = value
    return values


def _put_down(folder: Path, *, force: bool) -> tuple[list[Path], list[Path]]:
    from clairvoyant_lab.reports.runner import find_notebooks

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError("folder", str(folder), f"cannot be made ({error.strerror})") from error
    put: list[Path] = []
    kept: list[Path] = []
    for source in find_notebooks():
        target = folder / source.name
        if target.exists() and not force:
            kept.append(target)
            continue
        shutil.copyfile(source, target)
        put.append(target)
    return put, kept
