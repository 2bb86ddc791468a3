"""Model cards: what a committed model is, how good, from what, and the command that makes it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clairvoyant_lab.predictor.export import ExportReport
from clairvoyant_lab.predictor.model_info import library_versions
from clairvoyant_lab.results import format_value

__all__ = ["ModelCard"]


@dataclass(frozen=True)
class ModelCard:
    """A card, written as markdown beside the model.

    Attributes
    ----------
    name, title, what, limits : str
        Text.
    metrics : mapping of str to float
        Figures on held-out rows; shares between 0 and 1.
    report : ExportReport
        File, size, hash and parity proof.
    fingerprint, corpus_fingerprint : str
        Hash of the training rows, and of the corpus they were cut from.
    needs : str
        What must be installed before the command runs; empty if nothing.
    """

    name: str
    title: str
    what: str
    limits: str
    metrics: Mapping[str, float]
    report: ExportReport
    fingerprint: str
    corpus_fingerprint: str
    needs: str

    def to_markdown(self) -> str:
        """Return the card as markdown; the same model gives the same text."""
        versions = ", ".join(f"{name} {version}" for name, version in library_versions().items())
        figures = "\n".join(f"| {name} | {format_value(value)} |" for name, value in self.metrics.items())
        again = f"{self.needs}`clairvoyant-lab export {self.name} --to FOLDER`"
        return f"""# {self.name}

{self.title}.

{self.what}

## Figures on held-out rows

| figure | value |
|---|---:|
{figures}

{self.limits}

## Origin

- Make it again: {again}
- File: {self.report.n_bytes:,} bytes, sha256 `{self.report.sha256}`; the same versions on one
  thread of the same kind of processor give the same bytes: {versions}.
- Training rows `{self.fingerprint}`, cut from corpus `{self.corpus_fingerprint}` (ShareGPT V3,
  labelled with a Llama-like tokenizer).
- Held out: a fifth of the conversations, the same for every model
  (`clairvoyant_lab.predictor.sharegpt_rows`).
- Parity with the trained model: largest |Δp| {self.report.max_abs_difference:.2g} over
  {self.report.rows_checked:,} rows (training rows, random rows, rows on split thresholds).
"""
