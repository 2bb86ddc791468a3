"""`clairvoyant-lab ledger`: published numbers, ours, verdicts."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from clairvoyant_lab.cli.frame import JsonOption, command_errors, print_frame, print_json
from clairvoyant_lab.results import counted

__all__ = ["register"]


class LedgerFormat(StrEnum):
    """How to print the ledger."""

    MD = "md"
    CSV = "csv"
    HTML = "html"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ledger")(ledger)


@command_errors
def ledger(
    output_format: Annotated[
        LedgerFormat | None, typer.Option("--format", help="md, csv or html; aligned text if left out.")
    ] = None,
    as_json: JsonOption = False,
    fast: Annotated[bool, typer.Option("--fast", help="Fewer seeds, smaller runs, wider intervals.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random draw.")] = 42,
    topic: Annotated[
        list[str] | None, typer.Option(help="Run only this topic (may be repeated): datasets, serial, ...")
    ] = None,
    reference_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="CLAIRVOYANT_REFERENCE_DIR",
            show_envvar=True,
            help="Folder of the authors' files; numbers that need them are else 'not run here'.",
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file.")] = None,
    keys: Annotated[
        str | None,
        typer.Option(help="Run nothing; list the published numbers below a prefix ('all' for all)."),
    ] = None,
) -> None:
    """Re-run the papers' numbers and compare.

    Prints published, ours with interval, and the computed verdict.
    """
    if keys is not None:
        _print_keys(keys, as_json)
        return
    from clairvoyant_lab.papers.document import html_document, markdown_document
    from clairvoyant_lab.papers.runner import run_ledger

    rows = run_ledger(
        fast=fast,
        seed=seed,
        topics=topic or None,
        tell=lambda name: typer.echo(f"running {name} ...", err=True),
        reference_dir=reference_dir,
    )
    parts = [
        "clairvoyant-lab ledger",
        *(f"--topic {name}" for name in topic or ()),
        *(["--fast"] if fast else []),
        # the folder's path is the machine's own business
        *(["--reference-dir DIR"] if reference_dir is not None else []),
    ]
    made_by = " ".join([*parts, f"--seed {seed}"])
    frame = rows.to_frame()
    if output_format is LedgerFormat.MD:
        text = markdown_document(rows, made_by)
    elif output_format is LedgerFormat.HTML:
        text = html_document(rows, made_by)
    elif output_format is LedgerFormat.CSV:
        text = frame.to_csv(index=False)
    elif as_json and output is None:
        print_json({"made_by": made_by, "summary": rows.summary(), "rows": frame.to_dict(orient="records")})
        return
    elif as_json:
        text = frame.to_json(orient="records", indent=2, force_ascii=False)
    else:
        short = frame[["key", "variant", "published_text", "verdict_text"]]
        if output is None:
            print_frame(short)
            print_summary(rows.summary())
            return
        text = short.to_string(index=False) + "\n"
    if output is None:
        typer.echo(text, nl=False)
        return
    output.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {output}", err=True)


def print_summary(summary: dict[str, int]) -> None:
    """Print the number of verdicts of each kind on one line."""
    from clairvoyant_lab.papers.verdicts import VERDICT_KINDS, count_of_kind

    kinds = [count_of_kind(summary[kind], kind) for kind in VERDICT_KINDS]
    typer.echo(", ".join([counted(summary["rows"], "row"), *kinds, f"{summary['weak']} weak"]))


def _print_keys(prefix: str, as_json: bool) -> None:
    import pandas as pd

    from clairvoyant_lab.papers.published import load_published, published_keys

    numbers = load_published()
    chosen = published_keys("" if prefix == "all" else prefix)
    print_frame(
        pd.DataFrame(
            [
                (key, numbers[key].text, numbers[key].unit, numbers[key].table, numbers[key].cell)
                for key in chosen
            ],
            columns=["key", "published", "unit", "table", "cell"],
        ),
        as_json,
    )
