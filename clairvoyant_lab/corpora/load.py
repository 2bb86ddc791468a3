"""`load_corpus`: from a name or a file to a tidy table of prompts, token counts, classes and features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clairvoyant_lab.corpora.conversations import ReadReport, Turns
from clairvoyant_lab.corpora.pipeline import DEFAULT_TOKENIZER, CorpusStream, Recipe, finish, refine, tidy
from clairvoyant_lab.corpora.shapes import Columns
from clairvoyant_lab.corpora.sources import open_source
from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["load_corpus"]


def load_corpus(
    name: str | Path | bytes | Mapping[str, Any],
    *,
    source: str | None = None,
    path: str | Path | bytes | None = None,
    turns: Turns = "first",
    language: str | None = "en",
    detector: str = "py3langid",
    deduplicate: bool = True,
    tokenizer: str | None = None,
    variant: str = "paper",
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
    columns: dict[str, str] | Columns | None = None,
    file_format: str | None = None,
    upload_name: str = "upload",
    keep_prompt: bool = True,
    progress: bool = True,
) -> pd.DataFrame:
    """Load a corpus as a tidy table, one row a prompt.

    Parameters
    ----------
    name : str, Path or bytes
        A published corpus (`clairvoyant_lab.corpora.sources.SOURCES`), the path of a file (JSON, JSON
        lines, CSV, parquet, or a proxy's journal), the content of an upload, or an item of an ipywidgets
        FileUpload's value.
    source : {"derived", "package"}, optional
        For `sharegpt`: the committed figures without text (default), or the source package with the
        column `prompt` (two minutes the first time, then from the cache).
    path : str, Path or bytes, optional
        A local copy of the named corpus in its publishers' schema.
    turns, language, detector, deduplicate, tokenizer, variant, short_below, long_from
        See `Recipe`.
    columns : dict or Columns, optional
        Which columns of a file hold what, e.g. `{"prompt": "q", "response": "a"}`; guessed else.
    file_format, upload_name : str
        See `clairvoyant_lab.corpora.readers.read_records`.
    keep_prompt : bool
        Whether the table of a file carries the texts; without them a large file needs little memory.
    progress : bool
        Show a bar while reading a file.

    Returns
    -------
    DataFrame
        `prompt` (str, where the source has texts), `response_tokens` (int64), `length_class` (int8),
        `prompt_tokens` (int64), `language`, `group` (rows of one conversation share it), `turn`, `row_id`,
        then the 19 features (float32; not for a
        trace without texts). `attrs["corpus"]` holds the recipe, the rows read, kept and dropped
        by reason, notes on the file, and a fingerprint.

    Raises
    ------
    ParameterError, DataError, MissingExtraError
        For unknown names, unusable files, and packages that are not installed.
    """
    if isinstance(name, Mapping):
        upload_name = str(name["name"])
        name = bytes(name["content"])
    recipe = Recipe(turns, language, detector, deduplicate, tokenizer, variant, short_below, long_from)
    if source not in (None, "derived", "package"):
        raise unknown_name("source", source, ("derived", "package"))
    published = recipe.detector == "py3langid" or recipe.language is None
    if name == "sharegpt" and path is None and columns is None and (published or source is not None):
        return _sharegpt(recipe, with_prompts=source == "package", progress=progress)
    if source is not None:
        raise ParameterError("source", source, "only sharegpt has a choice of sources; leave it out")
    local = name if path is None else path
    if not isinstance(local, bytes) and Path(local).suffix in (".db", ".sqlite", ".sqlite3"):
        from clairvoyant_lab.corpora.journals import journal_corpus

        return journal_corpus(Path(local), recipe)
    stream = open_source(name, path=path, columns=columns, file_format=file_format, upload_name=upload_name)
    return CorpusStream(stream, recipe, keep_prompt=keep_prompt, progress=progress).to_frame()


def _sharegpt(recipe: Recipe, *, with_prompts: bool, progress: bool) -> pd.DataFrame:
    from clairvoyant_lab.corpora.derived import read_derived, sharegpt_with_prompts

    if recipe.detector != "py3langid" and recipe.language is not None:
        raise ParameterError(
            "detector",
            recipe.detector,
            "the tables hold py3langid's labels; leave source= out to read the package again",
        )
    chosen = replace(recipe, tokenizer=recipe.tokenizer or DEFAULT_TOKENIZER)
    first = recipe.turns == "first"
    frame, metadata = (
        sharegpt_with_prompts(progress, first_only=first) if with_prompts else read_derived(first_only=first)
    )
    counts = metadata["first_turns" if first else "all_turns"]
    report = ReadReport(counts["rows_read"], counts["kept"])
    report.dropped.update(counts["dropped"])
    frame = refine(frame, chosen, report, set())
    chosen.details.update(made_of=metadata["fingerprint"])
    origin = str(metadata["identity"]["source"])
    return finish(tidy(frame, chosen), chosen, "sharegpt", origin, report, metadata["notes"])
