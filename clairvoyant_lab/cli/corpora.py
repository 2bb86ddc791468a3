"""Commands on prompts and corpora: `features`, `corpora list`, `corpora build`, `corpora starvation`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clairvoyant_lab.cli.frame import JsonOption, command_errors, print_frame, print_json, print_record

if TYPE_CHECKING:
    from clairvoyant_lab.corpora.sources import Source
    from clairvoyant_lab.corpora.starvation import Starvation

__all__ = ["register"]

corpora = typer.Typer(
    name="corpora", help="Prompt-answer corpora: what there is, what it is good for.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("features")(features)
    app.add_typer(corpora)


@command_errors
def features(
    prompt: Annotated[str, typer.Argument(help="The prompt; - reads it from standard input.")],
    variant: Annotated[str, typer.Option(help="paper, or authors for their model and files.")] = "paper",
    as_json: JsonOption = False,
) -> None:
    """Print the 19 lexical features of a prompt."""
    from clairvoyant_lab.prompts import FEATURE_NAMES, extract_features

    text = typer.get_text_stream("stdin").read() if prompt == "-" else prompt
    values = extract_features(text, variant)
    print_record({name: int(value) for name, value in zip(FEATURE_NAMES, values, strict=True)}, as_json)


@corpora.command("list")
@command_errors
def list_corpora(as_json: JsonOption = False) -> None:
    """List the corpora by name, and how to get each."""
    import pandas as pd

    from clairvoyant_lab.corpora.sources import SOURCES

    rows = [
        {
            "name": source.name,
            "title": source.title,
            "here": "figures" if source.name == "sharegpt" else "no",
            "get it": _how_to_get(source),
            "licence": source.licence,
        }
        for source in SOURCES.values()
    ]
    print_frame(pd.DataFrame(rows), as_json)


def _how_to_get(source: Source) -> str:
    if source.name == "sharegpt":
        return "committed; again: clairvoyant-lab corpora build sharegpt"
    gate = f"; {source.gated}" if source.gated else ""
    return f"pip install 'clairvoyant-lab[hub]'{gate}; or --path FILE"


@corpora.command("build")
@command_errors
def build(
    name: Annotated[str, typer.Argument(help="sharegpt, a corpus of `corpora list`, or a file.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Parquet file to write.")] = None,
    path: Annotated[Path | None, typer.Option(help="A local copy of the named corpus.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="chars/4, llama-like, tekken, or a file.")] = None,
    turns: Annotated[str, typer.Option(help="first or all.")] = "first",
    language: Annotated[str, typer.Option(help="ISO code, or any.")] = "en",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Make a corpus' table of figures.

    Token counts, classes, features; no text.
    """
    from clairvoyant_lab.corpora.derived import build_derived
    from clairvoyant_lab.corpora.load import load_corpus
    from clairvoyant_lab.errors import ParameterError

    if name == "sharegpt":
        own = {"tokenizer": (tokenizer, None), "turns": (turns, "first"), "language": (language, "en")}
        for field, (value, default) in own.items():
            if value != default:
                raise ParameterError(field, value, "the committed table has its own: leave it out")
        written = build_derived(output, path=path, progress=not quiet)
    else:
        frame = load_corpus(
            name,
            path=path,
            tokenizer=tokenizer,
            turns=turns,  # type: ignore[arg-type]
            language=None if language == "any" else language,
            progress=not quiet,
        )
        written = output or Path(f"{Path(name).stem}.parquet")
        frame.drop(columns="prompt", errors="ignore").to_parquet(written, index=False)
        print_record({key: value for key, value in frame.attrs["corpus"].items() if key != "recipe"})
    typer.echo(f"{written}  {written.stat().st_size:,} bytes")


@corpora.command("starvation")
@command_errors
def starvation(
    names: Annotated[
        list[str], typer.Argument(help="Files, journals, or corpora of `corpora list`; several are compared.")
    ],
    path: Annotated[Path | None, typer.Option(help="A local copy of the one corpus named.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="chars/4, llama-like, tekken, or a file.")] = None,
    turns: Annotated[str, typer.Option(help="first or all.")] = "first",
    language: Annotated[str, typer.Option(help="ISO code, or any.")] = "en",
    keep_duplicates: Annotated[
        bool, typer.Option("--keep-duplicates", help="Keep prompts that were asked before.")
    ] = False,
    short_below: Annotated[int, typer.Option(help="Short has fewer tokens.")] = 200,
    long_from: Annotated[int, typer.Option(help="Long has at least so many tokens.")] = 800,
    prompt_column: Annotated[str | None, typer.Option(help="Column of the prompt in a file.")] = None,
    response_column: Annotated[str | None, typer.Option(help="Column of the answer in a file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say if corpora hold enough long answers.

    Enough to learn a predictor from, that is.
    """
    from clairvoyant_lab.corpora.compare import starvation_table
    from clairvoyant_lab.corpora.starvation import starvation_report
    from clairvoyant_lab.errors import ParameterError

    if (prompt_column is None) != (response_column is None):
        raise ParameterError("prompt_column", prompt_column, "name both columns, or neither")
    if path is not None and len(names) > 1:
        raise ParameterError("path", str(path), "a local copy belongs to one name; give files as arguments")
    columns = None if prompt_column is None else {"prompt": prompt_column, "response": response_column}
    reports = {
        name: starvation_report(
            name,
            path=path,
            tokenizer=tokenizer,
            turns=turns,
            language=None if language == "any" else language,
            deduplicate=not keep_duplicates,
            columns=columns,
            progress=not as_json,
            short_below=short_below,
            long_from=long_from,
        )
        for name in names
    }
    if as_json:
        found = [_as_record(report) for report in reports.values()]
        print_json(found[0] if len(names) == 1 else found)
    elif len(names) == 1:
        _print_report(reports[names[0]])
    else:
        print_frame(starvation_table(reports))


def _as_record(report: Starvation) -> dict[str, object]:
    classes = report.to_frame().to_dict(orient="records")
    return {**report.summary(), "classes": classes, "source": report.provenance}


def _print_report(report: Starvation) -> None:
    print_record(report.summary())
    facts = report.provenance
    dropped = ", ".join(f"{rows:,} {reason}" for reason, rows in facts["dropped"].items()) or "none"
    typer.echo(f"read {facts['rows_read']:,}, kept {facts['kept']:,}; dropped: {dropped}")
    for note in facts["notes"]:
        typer.echo(f"note: {note}")
