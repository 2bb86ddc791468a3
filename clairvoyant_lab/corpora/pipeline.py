"""The pipeline: a stream of pairs becomes tidy tables, step by step, each choice in one recipe.

pairs -> token counts, language, features -> language filter -> duplicates -> classes. Every step counts what
it drops, and the recipe with the content gives the fingerprint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from clairvoyant_lab.corpora.conversations import Pair, ReadReport, Reason, Turns, pairs_of
from clairvoyant_lab.corpora.labels import Labeller, column_stem
from clairvoyant_lab.corpora.language import LanguageFilter, language_filter
from clairvoyant_lab.corpora.sources import Stream
from clairvoyant_lab.errors import DataError, ParameterError, unknown_name
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS, check_bounds, classify_lengths
from clairvoyant_lab.prompts.lexicon import VARIANTS, lexicon_identity
from clairvoyant_lab.prompts.schema import FEATURE_NAMES, SCHEMA_HASH, VERBS
from clairvoyant_lab.prompts.tokens import TokenCounter, token_counter

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DEFAULT_TOKENIZER", "CorpusStream", "Recipe", "finish", "refine", "tidy"]

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


class CorpusStream:
    """Tidy tables of a stream, one after another; memory does not grow with the file's texts.

    Parameters
    ----------
    stream : Stream
        From `open_source`.
    recipe : Recipe
        What to keep.
    keep_prompt : bool
        Whether the tables carry the texts.
    progress : bool
        Show a bar.

    Attributes
    ----------
    recipe : Recipe
        Once iterated, with the tokenizer that was chosen.
    report : ReadReport
        `rows_read == kept + sum(dropped)` once iterated to the end.
    """

    def __init__(
        self, stream: Stream, recipe: Recipe, *, keep_prompt: bool = True, progress: bool = False
    ) -> None:
        self.stream = stream
        self.recipe = recipe
        self.report = ReadReport()
        self._keep_prompt = keep_prompt
        self._progress = progress

    def __iter__(self) -> Iterator[pd.DataFrame]:
        recipe, report = self.recipe, self.report
        detector = language_filter(recipe.detector) if recipe.language is not None else None
        pairs = pairs_of(_bar(self.stream) if self._progress else self.stream, recipe.turns, report)
        head = next(pairs, None)
        if head is None:
            return
        reported = recipe.tokenizer == "reported" or (
            recipe.tokenizer is None and head.response_tokens is not None
        )
        counter = None if reported else token_counter(recipe.tokenizer or DEFAULT_TOKENIZER)
        self.recipe = replace(
            recipe,
            tokenizer="reported" if counter is None else counter.name,
            details=_identities(counter, detector),
        )
        labeller = Labeller([counter] if counter is not None else [], detector, self._keep_prompt)
        seen: set[int] = set()
        for batch in labeller.batches(_countable(head, pairs, report, self.recipe.tokenizer)):
            frame = refine(batch.to_pandas(), recipe, report, seen)
            if len(frame):
                yield tidy(frame, self.recipe)

    def to_frame(self) -> pd.DataFrame:
        """All tables as one, with `attrs["corpus"]`."""
        import pandas as pd

        frames = list(self)
        if not frames:
            raise DataError(_nothing_left(self.report), source=self.stream.name)
        stream = self.stream
        return finish(
            pd.concat(frames, ignore_index=True), self.recipe, stream.name, stream.origin, self.report,
            stream.notes,
        )  # fmt: skip


def _identities(counter: TokenCounter | None, detector: LanguageFilter | None) -> dict[str, Any]:
    return {
        "tokenizer_identity": "reported" if counter is None else counter.identity,
        "language_identity": None if detector is None else detector.identity,
    }


def _countable(head: Pair, rest: Iterator[Pair], report: ReadReport, tokenizer: str | None) -> Iterator[Pair]:
    reported = tokenizer == "reported"
    first: Pair | None = head
    texts, counts = 0, 0
    while first is not None:
        texts += bool(first.response)
        counts += first.response_tokens is not None
        if reported and first.response_tokens is None:
            report.revoke(Reason.NO_COUNT)
        elif not reported and not first.response:
            report.revoke(Reason.EMPTY_ANSWER)  # counts only, and another tokenizer was asked for
        else:
            yield first
        first = next(rest, None)
    if not reported and counts and not texts:
        raise ParameterError("tokenizer", tokenizer, "this source holds counts, no texts; use 'reported'")


def _bar(stream: Stream) -> Iterator[Any]:
    from tqdm.auto import tqdm

    size = stream.size_bytes
    with tqdm(
        total=size, unit="B" if size else " rows", unit_scale=True, desc=stream.name, leave=False
    ) as bar:
        for item in stream:
            yield item
            bar.update(stream.position_bytes - bar.n if size else 1)


def refine(frame: pd.DataFrame, recipe: Recipe, report: ReadReport, seen: set[int]) -> pd.DataFrame:
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


def tidy(frame: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Shape labelled rows into the public table."""
    import pandas as pd

    assert recipe.tokenizer is not None
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
    texts = bool((frame["prompt_chars"] > 0).any())
    columns: dict[str, Any] = {"prompt": frame["prompt"].to_numpy()} if texts and "prompt" in frame else {}
    columns |= {
        "response_tokens": response_tokens,
        "length_class": classify_lengths(response_tokens, recipe.short_below, recipe.long_from),
        "prompt_tokens": prompt_tokens,
        "language": frame["language"].astype(str).to_numpy(),
        "group": frame["group"].to_numpy(np.int64),
        "turn": frame["turn"].to_numpy(np.int64),
        "row_id": frame["row_id"].to_numpy(np.uint64),
    }
    if texts:
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


def finish(
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
