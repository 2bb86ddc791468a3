"""The registry of published numbers, read from `published_clairvoyant.toml` and `published_isjl.toml`.

A file is a list of blocks, one a table, figure or section:

    [[block]]
    prefix = "clairvoyant.table10"          # keys are prefix + "." + cell name
    source = "Table 10"
    unit = "s"                              # default unit of its cells
    tolerance = 0.3                         # in the cell's unit, or
    relative = 0.05                         # as a fraction of the published value (the larger counts)
    why = "five seeds"                      # why that much
    how = "clairvoyant-lab ..."             # gets ours where it is not run here; default: the ledger itself;
                                            # {row} stands for the first part of a cell's name
    needs = "an Apple M1"                   # what that takes
    reason = "..."                          # what is known to make ours differ
    labels = { "cs2_0.5" = "C_s² = 0.5" }   # words for parts of cell names
    [block.cells]
    "cs2_0.5.fcfs.p50_s" = "10.71"          # as printed: value, digits, relation, range, spread are read
    "cs2_0.5.tau_1x.change_pct" = { text = "-17.6%", relative = 0 }    # a cell may override its block

A cell that repeats another, as an abstract does, names it: `same_as = "clairvoyant.section3_3.model_a_ms"`.

Printed forms: `10.71`, `52,002`, `-17.6%`, `<0.02%`, `~240`, `62–96%`, `229.5 ± 12.3`, `30,000×`. What the
parser can't read (a fraction, a word) takes its `value` beside the text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from clairvoyant_lab.errors import DataError, unknown_name
from clairvoyant_lab.papers.verdicts import Published, Relation

__all__ = ["PAPERS", "load_published", "parse_printed", "published_keys", "published_value"]

# short name -> title
PAPERS: Mapping[str, str] = MappingProxyType(
    {
        "clairvoyant": "Clairvoyant: Predictive Shortest-Job-First Admission for Serial LLM Inference",
        "isjl": "Efficiency and Cost Alignment in Batched LLM Serving via Resource-Fair Scheduling",
    }
)

_NUMBER = r"[+\-−]?\d[\d,]*(?:\.\d+)?"
_PRINTED = re.compile(
    rf"^(?P<relation>~|≈|<=|≤|>=|≥|<|>)?\s*(?P<value>{_NUMBER})(?:\s*[–]\s*(?P<upper>{_NUMBER}))?"
    rf"(?:\s*±\s*(?P<spread>{_NUMBER}))?\s*(?P<unit>%|×|pp|ms|s|GB|tokens|req/s)?$"
)
_RELATIONS: Mapping[str | None, Relation] = {
    None: "=", "~": "~", "≈": "~", "<": "<", "<=": "<=", "≤": "<=", ">": ">", ">=": ">=", "≥": ">=",
}  # fmt: skip
_BLOCK_FIELDS = {
    "prefix",
    "source",
    "unit",
    "tolerance",
    "relative",
    "why",
    "how",
    "needs",
    "reason",
    "labels",
    "cells",
}
_CELL_FIELDS = {
    *("text", "value", "upper", "unit", "relation", "tolerance", "relative", "why", "how", "reason"),
    *("needs", "cell", "decimals", "spread", "same_as"),
}
# words for parts of cell names that many tables share; a block's labels come first
_WORDS = {
    "fcfs": "FCFS",
    "sjf": "SJF",
    "mean_s": "mean",
    "p50_s": "P50",
    "p95_s": "P95",
    "p99_s": "P99",
    "long_pct": "share of Long",
}
# "about" in print: what a reader allows
_ABOUT = 0.10


def parse_printed(text: str) -> dict[str, Any]:
    """Read a number as printed.

    Parameters
    ----------
    text : str
        For example ``229.5 ± 12.3`` or ``62–96%``.

    Returns
    -------
    dict
        value, upper (or None), spread (or None), relation, unit (or None), decimals.

    Raises
    ------
    DataError
        The text is not one of the printed forms.
    """
    match = _PRINTED.match(text.strip())
    if match is None:
        raise DataError(f"{text!r} is not a printed number; give its value beside the text")

    def number(name: str) -> float | None:
        found = match[name]
        return None if found is None else float(found.replace(",", "").replace("−", "-"))

    digits = match["value"].partition(".")[2]
    return {
        "value": number("value"),
        "upper": number("upper"),
        "spread": number("spread"),
        "relation": _RELATIONS[match["relation"]],
        "unit": match["unit"],
        "decimals": len(digits),
    }


@cache
def load_published() -> Mapping[str, Published]:
    """Return every published number by key, in the order of the papers.

    Raises
    ------
    DataError
        A file of the package is malformed: which block and cell, and why.
    """
    numbers: dict[str, Published] = {}
    for paper in PAPERS:
        path = Path(__file__).with_name(f"published_{paper}.toml")
        with path.open("rb") as file:
            blocks = tomllib.load(file)["block"]
        for row, block in enumerate(blocks):
            for number in _read_block(block, paper, path.name, row):
                if number.key in numbers:
                    raise DataError("key stands twice", source=path.name, row=row, column=number.key)
                numbers[number.key] = number
    for number in numbers.values():
        if number.same_as and number.same_as not in numbers:
            raise DataError(f"same_as names no number: {number.same_as}", column=number.key)
    return MappingProxyType(numbers)


def published_keys(prefix: str = "") -> tuple[str, ...]:
    """Return the keys that are `prefix` or lie below it (``clairvoyant.table10``), in the papers' order."""
    found = tuple(
        key for key in load_published() if not prefix or key == prefix or key.startswith(f"{prefix}.")
    )
    if not found:
        raise unknown_name("prefix", prefix, sorted({key.rpartition(".")[0] for key in load_published()}))
    return found


def published_value(key: str) -> float:
    """Return one published value, in its own unit."""
    numbers = load_published()
    if key not in numbers:
        raise unknown_name("key", key, list(numbers))
    return numbers[key].value


def _read_block(block: dict[str, Any], paper: str, source: str, row: int) -> list[Published]:
    unknown = set(block) - _BLOCK_FIELDS
    if unknown:
        raise DataError(f"unknown fields {sorted(unknown)}", source=source, row=row)
    prefix = block["prefix"]
    if prefix.partition(".")[0] != paper:
        raise DataError(f"prefix {prefix!r} must begin with {paper!r}", source=source, row=row)
    numbers = []
    for name, given in block["cells"].items():
        cell: dict[str, Any] = {"text": given} if isinstance(given, str) else dict(given)
        unknown = set(cell) - _CELL_FIELDS
        if unknown or "text" not in cell:
            raise DataError(
                f"unknown fields {sorted(unknown)}" if unknown else "no text",
                source=source,
                row=row,
                column=name,
            )
        printed = _printed(cell, source, row, name)
        settings: dict[str, Any] = {
            key: block[key]
            for key in ("unit", "tolerance", "relative", "why", "how", "needs", "reason")
            if key in block
        }
        settings.update(cell)
        value = float(printed["value"])
        relative = float(settings.get("relative", _ABOUT if printed["relation"] == "~" else 0.0))
        numbers.append(
            Published(
                key=f"{prefix}.{name}",
                paper=paper,
                table=block["source"],
                cell=settings.get("cell", _words(name, block.get("labels", {}))),
                value=value,
                unit=cell.get("unit", printed["unit"] or settings.get("unit", "")),
                text=cell["text"],
                relation=cast("Relation", printed["relation"]),
                upper=printed["upper"],
                spread=printed["spread"],
                tolerance=max(float(settings.get("tolerance", 0.0)), relative * abs(value)),
                tolerance_why=settings.get("why", ""),
                decimals=int(printed["decimals"]),
                how=settings.get("how", "clairvoyant-lab ledger").replace("{row}", name.split(".")[0]),
                needs=settings.get("needs", ""),
                reason=settings.get("reason", ""),
                same_as=cell.get("same_as", ""),
            )
        )
    return numbers


def _printed(cell: Mapping[str, Any], source: str, row: int, name: str) -> dict[str, Any]:
    """Read the text, or take what stands beside it."""
    fields = ("upper", "spread", "relation", "decimals")
    if "value" in cell:
        printed: dict[str, Any] = {"upper": None, "spread": None, "relation": "=", "unit": None}
        printed |= {"value": cell["value"], "decimals": len(str(cell["value"]).partition(".")[2])}
    else:
        try:
            printed = parse_printed(cell["text"])
        except DataError as error:
            raise DataError(error.reason, source=source, row=row, column=name) from error
    printed |= {field: cell[field] for field in fields if field in cell}
    if printed["relation"] not in set(_RELATIONS.values()):
        raise DataError(f"relation {printed['relation']!r} is unknown", source=source, row=row, column=name)
    return printed


def _words(name: str, labels: Mapping[str, str]) -> str:
    """Put a cell's name in words: parts at dots that aren't decimal points, by the block's labels."""
    parts = re.split(r"(?<!\d)\.|\.(?!\d)", name)
    return ", ".join(labels.get(part, _WORDS.get(part, part.replace("_", " "))) for part in parts)
