"""The ledger as a document: markdown and HTML with one section a table or section of the papers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

from clairvoyant_lab.papers.ledger import Ledger, LedgerRow
from clairvoyant_lab.papers.published import PAPERS
from clairvoyant_lab.papers.verdicts import VERDICT_KINDS

__all__ = ["html_document", "markdown_document"]

_TITLE = "Published, ours, verdict"
_MEANING = {
    "reproduced": "ours lies within the tolerance stated beside the published value (or, where the text says "
    "so, the published value lies within our interval)",
    "differs": "ours lies further off; the text says by how much and, where known, why",
    "contradiction": "other numbers of the same paper exclude it; the text says which",
    "not run here": "it needs hardware, weights or data that were not at hand; the text says how to get it",
}
# columns of the counts: "reproduced" is followed by how many of these rest on a wide interval
_KINDS = ("reproduced", "weak", "differs", "contradiction", "not run here")
_HEADS = ("reproduced", "of these weakly", "differs", "contradiction", "not run here")


def markdown_document(ledger: Ledger, made_by: str) -> str:
    """Return the ledger as a markdown document.

    Parameters
    ----------
    ledger : Ledger
        What to print.
    made_by : str
        The command that made it.

    Returns
    -------
    str
        Title, how it was made, counts by paper, then a table for each table or section of a paper.
    """
    lines = [
        f"# {_TITLE}",
        "",
        f"Made by `{made_by}`; every verdict is computed, none is written by hand.",
        "",
    ]
    lines += [f"- **{kind}**: {_MEANING[kind]}." for kind in VERDICT_KINDS]
    lines += ["", f"| paper | numbers | rows | {' | '.join(_HEADS)} |", f"|---|{'---:|' * 7}"]
    for paper, part in _by_paper(ledger):
        summary = part.summary()
        numbers = len({row.published.key for row in part})
        counts = " | ".join(str(summary[kind]) for kind in _KINDS)
        lines.append(f"| {paper} | {numbers} | {summary['rows']} | {counts} |")
    for paper, part in _by_paper(ledger):
        lines += ["", f"## {PAPERS.get(paper, paper)}"]
        for table, section in _by_table(part):
            lines += [
                "",
                f"### {table}",
                "",
                section.to_markdown(with_source=False, with_counts=False).rstrip(),
            ]
    return "\n".join(lines) + "\n"


def html_document(ledger: Ledger, made_by: str) -> str:
    """Return the ledger as one HTML page that needs nothing else; parameters as for `markdown_document`."""
    body = [f"<h1>{escape(_TITLE)}</h1>", f"<p>Made by <code>{escape(made_by)}</code>.</p><ul>"]
    body += [f"<li><b>{escape(kind)}</b>: {escape(_MEANING[kind])}.</li>" for kind in VERDICT_KINDS]
    body.append("</ul>")
    for paper, part in _by_paper(ledger):
        body.append(f"<h2>{escape(PAPERS.get(paper, paper))}</h2>")
        for table, section in _by_table(part):
            body.append(f"<h3>{escape(table)}</h3>{section.to_html(with_source=False)}")
    style = (
        "body{font:14px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem}"
        "table{border-collapse:collapse;margin-bottom:1rem;width:100%}tr{border-bottom:1px solid #ddd}"
        "th:nth-child(1){width:20%}th:nth-child(2),th:nth-child(3){width:12%}th:nth-child(4){width:5%}"
        "th:nth-child(6){width:18%}"
    )
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(_TITLE)}</title>"
        f"<style>{style}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _by_paper(ledger: Ledger) -> Iterator[tuple[str, Ledger]]:
    return _grouped(ledger, lambda row: row.published.paper)


def _by_table(ledger: Ledger) -> Iterator[tuple[str, Ledger]]:
    return _grouped(ledger, lambda row: row.published.table)


def _grouped(ledger: Ledger, name: Callable[[LedgerRow], str]) -> Iterator[tuple[str, Ledger]]:
    groups: dict[str, list[LedgerRow]] = {}
    for row in ledger:
        groups.setdefault(name(row), []).append(row)
    for title, rows in groups.items():
        yield title, Ledger(tuple(rows))
