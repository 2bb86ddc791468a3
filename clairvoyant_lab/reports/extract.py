"""Reads the ledger tables out of an executed notebook: any table headed `published` and `verdict`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from typing import Any

from clairvoyant_lab.papers.verdicts import VerdictKind, count_of_kind

__all__ = ["ledger_rows", "verdict_counts"]


class _Tables(HTMLParser):
    """Collects every table of a fragment as rows of cell texts; the first row is the header."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[list[list[str]]] = []
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._cell = []

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            if self.tables and self.tables[-1]:
                self.tables[-1][-1].append(" ".join("".join(self._cell).split()))
            self._cell = None


def ledger_rows(notebook: Any) -> Iterator[dict[str, str]]:
    """Yield the ledger's rows, column name -> text, in the order they stand in the notebook."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            html = output.get("data", {}).get("text/html", "")
            text = html if isinstance(html, str) else "".join(html)
            if "<table" not in text or "verdict" not in text.lower():
                continue
            parser = _Tables()
            parser.feed(text)
            for table in parser.tables:
                header = [name.lower() for name in table[0]] if table else []
                if "published" in header and "verdict" in header:
                    yield from (
                        dict(zip(header, row, strict=True)) for row in table[1:] if len(row) == len(header)
                    )


def verdict_counts(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """Count rows by the kind of their verdict, its first words: `["4 reproduced", "1 contradiction"]`."""
    begins: dict[str, VerdictKind] = {
        "reproduced": "reproduced",
        "differs": "differs",
        "the paper contradicts itself": "contradiction",
        "not run here": "not run here",
    }
    count = Counter(
        next((kind for start, kind in begins.items() if row["verdict"].startswith(start)), None)
        for row in rows
    )
    told = [count_of_kind(count[kind], kind) for kind in begins.values() if count[kind]]
    return told + ([f"{count[None]} other"] if count[None] else [])
