"""Assembles the command from its groups."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from clairvoyant_lab import __version__

__all__ = ["app", "main"]

# Each module has `register(app)`; what a command needs is imported when it runs, so --help stays quick.
GROUPS = ("batch", "corpora", "lab", "ledger", "predictor", "serial", "serial_bench", "serving")

app = typer.Typer(
    name="clairvoyant-lab",
    help="Workbench for scheduling LLM inference: predict, simulate, replay, and run the proxy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"clairvoyant-lab {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Hold the options that stand before any command."""


for _group in GROUPS:
    import_module(f"clairvoyant_lab.cli.{_group}").register(app)


def main() -> None:
    """Run the command (entry point)."""
    app()
