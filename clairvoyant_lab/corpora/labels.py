"""Labelling: pairs become rows of figures (token counts, language, features), batch by batch."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clairvoyant_lab.corpora.conversations import Pair
from clairvoyant_lab.corpora.language import LanguageFilter
from clairvoyant_lab.prompts.extract import extract_features_batch
from clairvoyant_lab.prompts.lexicon import VARIANTS
from clairvoyant_lab.prompts.schema import NUMERIC_NAMES, VERBS
from clairvoyant_lab.prompts.tokens import TokenCounter

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Labeller", "column_stem", "prompt_digest", "row_id"]

_BATCH = 512
_SALT = b"clairvoyant-lab row 1"


def row_id(key: str, turn: int) -> int:
    """Salted 64-bit id of a row: stable from build to build, and no text can be read off it."""
    digest = hashlib.blake2b(f"{key}\0{turn}".encode("utf-8", "replace"), digest_size=8, salt=_SALT[:16])
    return int.from_bytes(digest.digest(), "little")


def prompt_digest(prompt: str) -> bytes:
    """Sixteen bytes that are equal for prompts that differ only in case, white space or Unicode form."""
    text = " ".join(unicodedata.normalize("NFKC", prompt).casefold().split())
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def column_stem(tokenizer: str) -> str:
    """Part of a column's name that stands for a tokenizer: `llama-like` -> `llama_like`."""
    return "".join(char if char.isalnum() else "_" for char in tokenizer).strip("_")


@dataclass
class Labeller:
    """Turns pairs into Arrow batches.

    Attributes
    ----------
    counters : sequence of TokenCounter
        Each gives `prompt_tokens_<name>` and `response_tokens_<name>`.
    detector : LanguageFilter or None
        Fills `language`; "" without one.
    keep_prompt : bool
        Whether the batch carries the prompt's text.
    """

    counters: Sequence[TokenCounter]
    detector: LanguageFilter | None = None
    keep_prompt: bool = False

    def __post_init__(self) -> None:
        self._codes: dict[bytes, int] = {}
        self._groups: dict[str, int] = {}
        self._rows = 0

    def batches(self, pairs: Iterable[Pair], size: int = _BATCH) -> Iterator[pa.RecordBatch]:
        """Label a stream; memory holds one batch of texts, and 16 bytes a prompt to know duplicates."""
        held: list[Pair] = []
        for pair in pairs:
            held.append(pair)
            if len(held) == size:
                yield self._label(held)
                held = []
        if held:
            yield self._label(held)

    def _label(self, pairs: list[Pair]) -> pa.RecordBatch:
        import pyarrow as pa

        prompts = [pair.prompt for pair in pairs]
        responses = [pair.response for pair in pairs]
        detector = self.detector
        languages = ["" if detector is None or not prompt else detector(prompt) for prompt in prompts]
        columns: dict[str, Any] = {
            "row_id": pa.array([row_id(pair.key, pair.turn) for pair in pairs], pa.uint64()),
            "group": pa.array([self._group(pair.group) for pair in pairs], pa.int32()),
            "turn": pa.array([pair.turn for pair in pairs], pa.int16()),
            "first": pa.array([pair.first for pair in pairs], pa.bool_()),
            "language": pa.array(languages, pa.string()).dictionary_encode(),
            "prompt_code": pa.array([self._code(prompt) for prompt in prompts], pa.int32()),
            "prompt_chars": pa.array([len(prompt) for prompt in prompts], pa.int32()),
            "response_chars": pa.array([len(response) for response in responses], pa.int32()),
        }
        for counter in self.counters:
            stem = column_stem(counter.name)
            columns[f"prompt_tokens_{stem}"] = pa.array(counter.count(prompts), pa.int32())
            columns[f"response_tokens_{stem}"] = pa.array(counter.count(responses), pa.int32())
        for variant in VARIANTS:
            columns |= _feature_columns(prompts, variant)
        if any(pair.response_tokens is not None for pair in pairs):
            columns["response_tokens_reported"] = pa.array([p.response_tokens for p in pairs], pa.int64())
        if any(pair.prompt_tokens is not None for pair in pairs):
            columns["prompt_tokens_reported"] = pa.array([p.prompt_tokens for p in pairs], pa.int64())
        if self.keep_prompt:
            columns["prompt"] = pa.array([_clean(prompt) for prompt in prompts], pa.large_string())
        return pa.RecordBatch.from_pydict(columns)

    def _code(self, prompt: str) -> int:
        """Row at which this prompt was first seen."""
        row = self._rows
        self._rows += 1
        return self._codes.setdefault(prompt_digest(prompt), row) if prompt else row

    def _group(self, group: str) -> int:
        return self._groups.setdefault(group, len(self._groups))


def _feature_columns(prompts: list[str], variant: str) -> dict[str, Any]:
    import pyarrow as pa

    features = extract_features_batch(prompts, variant)
    flags = ("has_code_keyword", "has_length_constraint", "ends_with_question", "has_format_keyword")
    columns: dict[str, Any] = {}
    for index, name in enumerate(NUMERIC_NAMES):
        if name == "prompt_token_len":  # prompt_chars // 4 in both variants
            continue
        kind = pa.bool_() if name in flags else pa.int32()
        values = features[:, index]
        columns[f"{variant}_{name}"] = pa.array(
            values > 0 if name in flags else values.astype(np.int32), kind
        )
    verbs = np.array(VERBS, dtype=object)[features[:, len(NUMERIC_NAMES) :].argmax(axis=1)]
    columns[f"{variant}_verb"] = pa.array(verbs, pa.string()).dictionary_encode()
    return columns


def _clean(text: str) -> str:
    """Parquet holds UTF-8 only, and a broken upload may hold lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")
