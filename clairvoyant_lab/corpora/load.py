"""`load_corpus`: from a name or a file to a tidy table of prompts, token counts, classes and features."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clairvoyant_lab.corpora.conversations import Pair, ReadReport, Reason, Turns, pairs_of
from clairvoyant_lab.corpora.labels import Labeller, column_stem
from clairvoyant_lab.corpora.language import LanguageFilter, language_filter
from clairvoyant_lab.corpora.reference import REFERENCES, read_reference
from clairvoyant_lab.corpora.shapes import Columns
from clairvoyant_lab.corpora.sources import Stream, open_source
from clairvoyant_lab.errors import DataError, ParameterError, unknown_name
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS, check_bounds, classify_lengths
from clairvoyant_lab.prompts.lexicon import VARIANTS, lexicon_identity
from clairvoyant_lab.prompts.schema import FEATURE_NAMES, SCHEMA_HASH, VERBS
from clairvoyant_lab.prompts.tokens import TokenCounter, token_counter

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Recipe", "corpus_frames", "load_corpus"]

DEFAULT_TOKENIZER = "llama-like"


@dataclass(frozen=True)
class Recipe:
    """How a corpus is cut out of a source.

    Attributes
    ----------
    turns : {"first", "all"}
        First prompts of conversations, or every prompt that an answer follows.
    language : str or None
        Keep prompts of this language (ISO 639-1); None keeps all and detects nothing.
    detector : {"py3langid", "langdetect"}
        Who tells the language.
    deduplicate : bool
        Keep the first of prompts that differ only in case and white space.
    tokenizer : str or None
        Who counts the answer's tokens; None: `reported` where the rows carry counts, else `llama-like`.
    variant : {"paper", "authors"}
        Features.
    short_below, long_from : int
        Class bounds in tokens.
    """

    turns: Turns = "first"
    language: str | None = "en"
    detector: str = "py3langid"
    deduplicate: bool = True
    tokenizer: str | None = None
    variant: str = "paper"
    short_below: int = SHORT_BELOW_TOKENS
    long_from: int = LONG_FROM_TOKENS
    details: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.turns not in ("first", "all"):
            raise unknown_name("turns", self.turns, ("first", "all"))
        if self.variant not in VARIANTS:
            raise unknown_name("variant", self.variant, VARIANTS)
        check_bounds(self.short_below, self.long_from)

    def steps(self) -> dict[str, Any]:
        """Every choice, for the fingerprint."""
        version, digest = lexicon_identity()
        return {
            "turns": self.turns,
            "language": self.language,
            "deduplicate": self.deduplicate,
            "tokenizer": self.tokenizer,
            "variant": self.variant,
            "bounds": [self.short_below, self.long_from],
            "lexicon": f"{version}/{digest}",
            "features": SCHEMA_HASH,
            **self.details,
        }


def load_corpus(
    name: str | Path | bytes,
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
    progress: bool = True,
) -> pd.DataFrame:
    """Load a corpus as a tidy table, one row a prompt.

    Parameters
    ----------
    name : str, Path or bytes
        A published corpus (`clairvoyant_lab.corpora.sources.SOURCES`), the path of a file (JSON, JSON
        lines, CSV, parquet, or a proxy's journal), or the content of an upload.
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
    recipe = Recipe(turns, language, detector, deduplicate, tokenizer, variant, short_below, long_from)
    if source not in (None, "derived", "package"):
        raise unknown_name("source", source, ("derived", "package"))
    published = recipe.detector == "py3langid" or recipe.language is None
    if name == "sharegpt" and path is None and columns is None and (published or source is not None):
        return _sharegpt(recipe, with_prompts=source == "package", progress=progress)
    if name in REFERENCES and path is None:
        return _reference(str(name), recipe)
    if source is not None:
        raise ParameterError("source", source, "only sharegpt has a choice of sources; leave it out")
    local = name if path is None else path
    if not isinstance(local, bytes) and Path(local).suffix in (".db", ".sqlite", ".sqlite3"):
        from clairvoyant_lab.corpora.journals import journal_corpus

        return journal_corpus(Path(local), recipe)
    stream = open_source(name, path=path, columns=columns, file_format=file_format, upload_name=upload_name)
    report = ReadReport()
    frames = list(corpus_frames(stream, recipe, report, progress=progress))
    import pandas as pd

    if not frames:
        raise DataError(_nothing_left(report), source=stream.name)
    frame = pd.concat(frames, ignore_index=True)
    recipe = frames[0].attrs["recipe"]
    return _finish(frame, recipe, stream.name, stream.origin, report, stream.notes)


def corpus_frames(
    stream: Stream, recipe: Recipe, report: ReadReport, *, keep_prompt: bool = True, progress: bool = False
) -> Iterator[pd.DataFrame]:
    """Label and filter a stream, table by table; memory does not grow with the file's texts.

    Parameters
    ----------
    stream : Stream
        From `open_source`.
    recipe : Recipe
        What to keep.
    report : ReadReport
        Filled while the stream runs; `rows_read == kept + sum(dropped)` at its end.
    keep_prompt : bool
        Whether the tables carry the texts.
    progress : bool
        Show a bar.

    Yields
    ------
    DataFrame
        Tidy rows; `attrs["recipe"]` is the recipe with the tokenizer that was chosen.
    """
    detector = language_filter(recipe.detector) if recipe.language is not None else None
    pairs = pairs_of(_bar(stream) if progress else stream, recipe.turns, report)
    head = next(pairs, None)
    if head is None:
        return
    reported = recipe.tokenizer == "reported" or (
        recipe.tokenizer is None and head.response_tokens is not None
    )
    counter = None if reported else token_counter(recipe.tokenizer or DEFAULT_TOKENIZER)
    chosen = replace(
        recipe,
        tokenizer="reported" if counter is None else counter.name,
        details=_identities(counter, detector),
    )
    labeller = Labeller([counter] if counter is not None else [], detector, keep_prompt)
    seen: set[int] = set()
    for batch in labeller.batches(_again(head, pairs, report, reported)):
        frame = _refine(batch.to_pandas(), recipe, report, seen)
        if len(frame):
            tidy = _tidy(frame, chosen)
            tidy.attrs["recipe"] = chosen
            yield tidy


def _identities(counter: TokenCounter | None, detector: LanguageFilter | None) -> dict[str, Any]:
    return {
        "tokenizer_identity": "reported" if counter is None else counter.identity,
        "language_identity": None if detector is None else detector.identity,
    }


def _again(head: Pair, rest: Iterator[Pair], report: ReadReport, reported: bool) -> Iterator[Pair]:
    first: Pair | None = head
    while first is not None:
        if reported and first.response_tokens is None:
            report.revoke(Reason.NO_COUNT)
        elif not reported and not first.response:
            report.revoke(Reason.EMPTY_ANSWER)  # counts only, and another tokenizer was asked for
        else:
            yield first
        first = next(rest, None)


def _bar(stream: Stream) -> Iterator[Any]:
    from tqdm.auto import tqdm

    size = stream.size_bytes
    with tqdm(
        total=size, unit="B" if size else " rows", unit_scale=True, desc=stream.name, leave=False
    ) as bar:
        for item in stream:
            yield item
            bar.update(stream.position_bytes - bar.n if size else 1)


def _refine(frame: pd.DataFrame, recipe: Recipe, report: ReadReport, seen: set[int]) -> pd.DataFrame:
    """Drop other languages, then duplicates."""
    if recipe.language is not None:
        # a trace without texts has no language to ask for
        keep = ((frame["language"] == recipe.language) | (frame["prompt_chars"] == 0)).to_numpy()
        report.revoke(Reason.LANGUAGE, int((~keep).sum()))
        frame = frame[keep]
    if recipe.deduplicate:
        fresh = np.ones(len(frame), dtype=bool)
        for position, code in enumerate(frame["prompt_code"].to_list()):
            if code in seen:
                fresh[position] = False
            seen.add(code)
        report.revoke(Reason.DUPLICATE, int((~fresh).sum()))
        frame = frame[fresh]
    return frame


def _tidy(frame: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Shape labelled rows into the public table."""
    import pandas as pd

    assert recipe.tokenizer is not None
    if recipe.tokenizer != "reported" and not (frame["response_chars"] > 0).any():
        raise ParameterError(
            "tokenizer", recipe.tokenizer, "this source holds counts, no texts; use 'reported'"
        )
    if recipe.tokenizer == "chars/4" and "response_tokens_chars_4" not in frame:
        response_tokens = frame["response_chars"].to_numpy(np.int64) // 4
        prompt_tokens = frame["prompt_chars"].to_numpy(np.int64) // 4
    else:
        stem = column_stem(recipe.tokenizer)
        if f"response_tokens_{stem}" not in frame:
            names = [str(name) for name in frame.columns if str(name).startswith("response_tokens_")]
            known = [name.removeprefix("response_tokens_") for name in names]
            raise unknown_name("tokenizer", recipe.tokenizer, ["chars/4", *known])
        response_tokens = frame[f"response_tokens_{stem}"].to_numpy(np.int64)
        # where prompts are not counted, the approximation of section 3.2 stands in
        approximate = frame["prompt_chars"] // 4
        counted = frame.get(f"prompt_tokens_{stem}", approximate)
        prompt_tokens = counted.fillna(approximate).to_numpy(np.int64)
    columns: dict[str, Any] = {"prompt": frame["prompt"].to_numpy()} if "prompt" in frame else {}
    columns |= {
        "response_tokens": response_tokens,
        "length_class": classify_lengths(response_tokens, recipe.short_below, recipe.long_from),
        "prompt_tokens": prompt_tokens,
        "language": frame["language"].astype(str).to_numpy(),
        "group": frame["group"].to_numpy(np.int64),
        "turn": frame["turn"].to_numpy(np.int64),
        "row_id": frame["row_id"].to_numpy(np.uint64),
    }
    if (frame["prompt_chars"] > 0).any():
        columns |= _features(frame, recipe.variant)
    return pd.DataFrame(columns)


def _features(frame: pd.DataFrame, variant: str) -> dict[str, Any]:
    verbs = frame[f"{variant}_verb"].astype(str).to_numpy()
    columns: dict[str, Any] = {
        FEATURE_NAMES[0]: (frame["prompt_chars"].to_numpy(np.int64) // 4).astype(np.float32)
    }
    for name in FEATURE_NAMES[1:6]:
        columns[name] = frame[f"{variant}_{name}"].to_numpy(np.float32)
    for verb in VERBS:
        columns[f"verb_{verb}"] = (verbs == verb).astype(np.float32)
    return columns


def _sharegpt(recipe: Recipe, *, with_prompts: bool, progress: bool) -> pd.DataFrame:
    from clairvoyant_lab.corpora.derived import read_derived, sharegpt_with_prompts

    if recipe.detector != "py3langid" and recipe.language is not None:
        raise ParameterError(
            "detector",
            recipe.detector,
            "the tables hold py3langid's labels; leave source= out to read the package again",
        )
    chosen = replace(recipe, tokenizer=recipe.tokenizer or DEFAULT_TOKENIZER)
    frame, metadata = sharegpt_with_prompts(progress) if with_prompts else read_derived()
    counts = metadata["first_turns" if recipe.turns == "first" else "all_turns"]
    report = ReadReport(counts["rows_read"], counts["kept"])
    report.dropped.update(counts["dropped"])
    if recipe.turns == "first":
        frame = frame[frame["first"].to_numpy()]
    frame = _refine(frame, chosen, report, set())
    chosen.details.update(made_of=metadata["fingerprint"])
    origin = str(metadata["identity"]["source"])
    return _finish(_tidy(frame, chosen), chosen, "sharegpt", origin, report, metadata["notes"])


def _reference(name: str, recipe: Recipe) -> pd.DataFrame:
    frame, source, counts = read_reference(name)
    texts = bool((frame["prompt_chars"] > 0).any())
    chosen = replace(recipe, tokenizer=recipe.tokenizer or (DEFAULT_TOKENIZER if texts else "reported"))
    report = ReadReport(counts["rows_read"], counts["kept"])
    report.dropped.update(counts["dropped"])
    frame = _refine(frame, chosen, report, set())
    return _finish(_tidy(frame, chosen), chosen, name, source, report, [])


def _finish(
    frame: pd.DataFrame, recipe: Recipe, name: str, origin: str, report: ReadReport, notes: list[str]
) -> pd.DataFrame:
    if frame.empty:
        raise DataError(_nothing_left(report), source=name)
    steps = recipe.steps()
    content = sha256(json.dumps({"origin": origin, **steps}, sort_keys=True, default=str).encode())
    content.update(np.ascontiguousarray(frame["row_id"].to_numpy()).tobytes())
    content.update(np.ascontiguousarray(frame["response_tokens"].to_numpy()).tobytes())
    frame.attrs["corpus"] = {
        "name": name,
        "origin": origin,
        "recipe": steps,
        **report.as_dict(),
        "notes": list(notes),
        "fingerprint": content.hexdigest()[:16],
    }
    return frame


def _nothing_left(report: ReadReport) -> str:
    why = ", ".join(f"{count:,} {reason}" for reason, count in report.dropped.most_common())
    return f"no row is left of {report.rows_read:,} read ({why or 'the file holds no record'})"
