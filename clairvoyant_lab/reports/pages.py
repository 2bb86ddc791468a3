"""HTML pages of a report: one a notebook and an index; all open offline, from a folder, without a server."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from clairvoyant_lab import __version__
from clairvoyant_lab.errors import DataError
from clairvoyant_lab.figures.show import PLOTLY_SCRIPT
from clairvoyant_lab.reports.extract import verdict_counts
from clairvoyant_lab.results import MISSING, counted

if TYPE_CHECKING:
    from clairvoyant_lab.reports.execution import NotebookOutcome

__all__ = ["write_index", "write_page", "write_plotly_script"]

_STYLE = Path(__file__).with_name("report.css")

# Draws the index's figures: each lies in a small script of its own, since a page opened from a folder
# may load scripts but not JSON.
_INDEX_SCRIPT = """
window.clairvoyantFigure = function (name, figure) {
  figure.layout.height = 380; figure.layout.autosize = true;
  window.Plotly.newPlot("figure-" + name, figure.data, figure.layout, {displaylogo: false, responsive: true});
};
"""


def write_page(notebook: Any, path: Path, *, title: str, error: str = "") -> None:
    """Write one executed notebook as an HTML page.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
        The executed notebook.
    path : Path
        Where to write.
    title : str
        For the browser's tab.
    error : str
        Shown on top if the notebook failed.
    """
    import nbconvert
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]

    body, _ = nbconvert.HTMLExporter(template_name="basic").from_notebook_node(notebook)
    failed = f'<pre class="failed">This notebook failed. {escape(error)}</pre>' if error else ""
    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    path.write_text(
        _document(
            title,
            style=_STYLE.read_text(encoding="utf-8") + colours,
            body=(
                '<input type="checkbox" id="code-shown">'
                f'<nav><div><a href="index.html">All notebooks</a><span>{escape(path.stem)}</span>'
                f'<a href="{quote(path.stem)}.ipynb">Executed notebook</a>'
                '<label for="code-shown">Show or hide the code</label></div></nav>'
                f"<main>{failed}{body}</main>"
            ),
        ),
        encoding="utf-8",
    )


def write_index(outcomes: Sequence[NotebookOutcome], folder: Path) -> Path:
    """Write the report's index: each notebook's outcome, settings, main figure and ledger lines.

    Parameters
    ----------
    outcomes : sequence of NotebookOutcome
        Of the run that just ended. Notebooks that earlier runs left in the folder are listed with them.
    folder : Path
        The report's folder; plotly's script and a folder `figures` are put there too.

    Returns
    -------
    Path
        Of the index page.
    """
    write_plotly_script(folder)
    (folder / "figures").mkdir(exist_ok=True)
    listed = _all_outcomes(outcomes, folder)
    scripts = []
    for outcome in listed:
        if outcome.figure:
            script = folder / "figures" / f"{outcome.name}.js"
            script.write_text(
                f"window.clairvoyantFigure({json.dumps(outcome.name)}, {outcome.figure});\n", encoding="utf-8"
            )
            scripts.append(f'<script src="figures/{quote(outcome.name)}.js"></script>')
    good = sum(outcome.ok for outcome in listed)
    rows = "".join(_row(outcome) for outcome in listed)
    head = (
        "<h1>clairvoyant-lab: report</h1>"
        f'<p class="meta">{good} of {counted(len(listed), "notebook")} ran to '
        f"{'its' if len(listed) == 1 else 'their'} end · clairvoyant-lab {escape(__version__)}</p>"
        "<table><thead><tr><th>notebook</th><th>outcome</th><th>run at</th><th>took</th><th>settings</th>"
        f"<th>ledger</th></tr></thead><tbody>{rows}</tbody></table>"
    )
    cards = "".join(_card(outcome) for outcome in listed)
    tail = f'<script src="{PLOTLY_SCRIPT}"></script><script>{_INDEX_SCRIPT}</script>{"".join(scripts)}'
    path = folder / "index.html"
    path.write_text(
        _document(
            "clairvoyant-lab: report",
            style=_STYLE.read_text(encoding="utf-8"),
            body=f'<main>{head}<div class="cards">{cards}</div></main>{tail if scripts else ""}',
        ),
        encoding="utf-8",
    )
    return path


def _all_outcomes(outcomes: Sequence[NotebookOutcome], folder: Path) -> list[NotebookOutcome]:
    """This run's outcomes and those of earlier runs whose page still stands in the folder, by name."""
    from clairvoyant_lab.reports.execution import NotebookOutcome, read_outcome

    found = {outcome.name: outcome for outcome in outcomes}
    for path in sorted(folder.glob("*.ipynb")):
        if path.stem not in found and path.with_suffix(".html").is_file():
            try:
                found[path.stem] = read_outcome(path)
            except DataError as error:  # somebody else's file must not cost this run its index
                found[path.stem] = NotebookOutcome(
                    path.stem, path.stem, False, 0.0, page=path.with_suffix(".html"), error=str(error)
                )
    return [found[name] for name in sorted(found)]


def _settings(outcome: NotebookOutcome) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in outcome.settings.items())


def _row(outcome: NotebookOutcome) -> str:
    state = "ran" if outcome.ok else '<span class="bad">failed</span>'
    kinds = ", ".join(verdict_counts(outcome.ledger))
    cells = (
        f'<a href="#{quote(outcome.name)}">{escape(outcome.name)}</a>',
        state,
        escape(outcome.ran_at or MISSING),
        f"{outcome.seconds:.0f} s",
        escape(_settings(outcome) or "none"),
        escape(kinds or "none"),
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def write_plotly_script(folder: Path) -> Path:
    """Put plotly's script beside the pages, once for all of them."""
    from plotly.offline import get_plotlyjs

    path = folder / PLOTLY_SCRIPT
    text = get_plotlyjs()
    if not path.is_file() or path.stat().st_size != len(text.encode()):
        path.write_text(text, encoding="utf-8")
    return path


def _card(outcome: NotebookOutcome) -> str:
    name = escape(outcome.name)
    heading = escape(outcome.title)
    link = f'<a href="{quote(outcome.name)}.html">{heading}</a>' if outcome.page else heading
    parts = [f'<section class="card" id="{name}"><h2>{link}</h2>', f'<p class="meta">{name}</p>']
    if outcome.error:
        parts.append(f'<pre class="failed">{escape(outcome.error)}</pre>')
    parts += [f'<p class="meta">{escape(note)}</p>' for note in outcome.notes]
    if outcome.figure:
        parts.append(f'<div id="figure-{name}" class="clairvoyant-figure" style="min-height:380px"></div>')
    if outcome.ledger:
        kinds = "".join(
            f'<span class="kind">{escape(kind)}</span>' for kind in verdict_counts(outcome.ledger)
        )
        lines = counted(len(outcome.ledger), "ledger line")
        header = list(outcome.ledger[0])
        head = "".join(f"<th>{escape(column)}</th>" for column in header)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(row.get(column, ''))}</td>" for column in header) + "</tr>"
            for row in outcome.ledger
        )
        parts.append(
            f"<p>{kinds}</p><details><summary>{lines}</summary>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>"
        )
    return "".join(parts) + "</section>"


def _document(title: str, *, style: str, body: str) -> str:
    # an empty icon, so that a browser doesn't ask for one and log that it isn't there
    icon = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'/>").decode()
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>{body}</body></html>\n"
    )
