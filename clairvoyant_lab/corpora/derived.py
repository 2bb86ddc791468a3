"""The derived ShareGPT table: figures of every prompt-answer pair, without text (data/sharegpt.parquet).

`clairvoyant-lab corpora build sharegpt` makes it again from the source package: same versions, same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clairvoyant_lab.corpora.conversations import Conversation, Drop, Pair, ReadReport, pairs_of
from clairvoyant_lab.corpora.labels import Labeller
from clairvoyant_lab.corpora.language import language_filter
from clairvoyant_lab.corpora.sources import Stream, open_source
from clairvoyant_lab.errors import DataError
from clairvoyant_lab.paths import cache_dir, data_dir
from clairvoyant_lab.prompts.lexicon import lexicon_identity
from clairvoyant_lab.prompts.schema import SCHEMA_HASH
from clairvoyant_lab.prompts.tokens import TokenCounter, token_counter

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DERIVED_TOKENIZERS", "build_derived", "derived_path", "read_derived", "sharegpt_with_prompts"]

DERIVED_TOKENIZERS = ("llama-like", "tekken")
_METADATA = b"clairvoyant_lab"
# labelled batches held before they are written, when they carry texts
_WITH_TEXTS = 16
# raise it when the same lexicon or tokenizer comes to give other figures
_LAYOUT = 2


def derived_path() -> Path:
    """Where the committed table lies."""
    return data_dir() / "sharegpt.parquet"


def build_derived(
    destination: str | Path | None = None,
    *,
    keep_prompt: bool = False,
    path: str | Path | None = None,
    progress: bool = True,
) -> Path:
    """Build the table from the source package (about two minutes).

    Parameters
    ----------
    destination : str or Path, optional
        Parquet file to write; the committed one by default.
    keep_prompt : bool
        Add the prompts' texts (for a cache, never for the repository).
    path : str or Path, optional
        Another copy of the ShareGPT file.
    progress : bool
        Show a bar.

    Returns
    -------
    Path
        The file written.
    """
    target = Path(destination) if destination is not None else derived_path()
    stream = open_source("sharegpt", path=path)
    counters = [token_counter(name) for name in DERIVED_TOKENIZERS]
    detector = language_filter("py3langid")
    first_turns, all_turns = ReadReport(), ReadReport()
    labeller = Labeller(counters, detector, keep_prompt)
    identity = build_identity(stream, counters, detector.identity)
    pairs = pairs_of(_counting(_watched(stream, progress), first_turns), "all", all_turns)
    _write(labeller, pairs, target, stream, identity, first_turns, all_turns)
    return target


def build_identity(stream: Stream, counters: list[TokenCounter], detector: str) -> dict[str, Any]:
    """Everything that decides the table's content."""
    version, digest = lexicon_identity()
    return {
        "layout": _LAYOUT,
        "source": stream.origin,
        "tokenizers": [counter.identity for counter in counters],
        "language": detector,
        "lexicon": f"{version}/{digest}",
        "features": SCHEMA_HASH,
    }


def fingerprint(identity: dict[str, Any]) -> str:
    """Short hash of an identity."""
    canonical = json.dumps(identity, sort_keys=True, ensure_ascii=False).encode()
    return hashlib.sha256(canonical).hexdigest()[:16]


def read_derived(
    path: str | Path | None = None, *, first_only: bool = False
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a table and what is known of its making.

    Parameters
    ----------
    path : str or Path, optional
        The committed table by default.
    first_only : bool
        Only rows that begin their conversation.

    Returns
    -------
    frame : DataFrame
        One row a pair.
    metadata : dict
        `identity`, `fingerprint`, `notes`, `first_turns` and `all_turns` (rows read, kept, dropped).

    Raises
    ------
    DataError
        When the file is missing or was not made by this project.
    """
    import pyarrow.parquet as pq

    source = Path(path) if path is not None else derived_path()
    if not source.is_file():
        raise DataError(
            "not there; make it with `clairvoyant-lab corpora build sharegpt`", source=source.name
        )
    raw = (pq.read_metadata(source).metadata or {}).get(_METADATA)
    if raw is None:
        raise DataError("no derived corpus (its metadata is missing)", source=source.name)
    table = pq.read_table(source, filters=[("first", "=", True)] if first_only else None)
    return table.to_pandas(), json.loads(raw)


def sharegpt_with_prompts(
    progress: bool = True, *, first_only: bool = False
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read the table with the prompts' texts, from the cache or, the first time, from the source package."""
    stream = open_source("sharegpt")
    counters = [token_counter(name) for name in DERIVED_TOKENIZERS]
    identity = build_identity(stream, counters, language_filter("py3langid").identity)
    cached = cache_dir() / f"sharegpt-{fingerprint(identity)}.parquet"
    if not cached.is_file():
        build_derived(cached, keep_prompt=True, progress=progress)
    return read_derived(cached, first_only=first_only)


def _counting(
    stream: Iterator[Conversation | Drop], first_turns: ReadReport
) -> Iterator[Conversation | Drop]:
    """Count what a first-turn reading would keep and drop, while all turns are read."""
    for item in stream:
        for _ in pairs_of([item], "first", first_turns):
            pass
        yield item


def _watched(stream: Stream, progress: bool) -> Iterator[Conversation | Drop]:
    if not progress:
        yield from stream
        return
    from tqdm.auto import tqdm

    with tqdm(total=stream.size_bytes, unit="B", unit_scale=True, desc=stream.name) as bar:
        for item in stream:
            yield item
            bar.update(stream.position_bytes - bar.n)


def _write(
    labeller: Labeller,
    pairs: Iterator[Pair],
    target: Path,
    stream: Stream,
    identity: dict[str, Any],
    first_turns: ReadReport,
    all_turns: ReadReport,
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    target.parent.mkdir(parents=True, exist_ok=True)
    # its own name, so that two processes can make the same file at once
    unfinished = target.with_suffix(f".{os.getpid()}.unfinished")
    # the committed table is one group, packed as tightly as can be; texts are written as they come
    held = _WITH_TEXTS if labeller.keep_prompt else None
    level = 3 if labeller.keep_prompt else 19
    writer: pq.ParquetWriter | None = None
    batches = labeller.batches(pairs)
    try:
        while group := list(islice(batches, held)):
            table = pa.Table.from_batches(group).unify_dictionaries()
            if writer is None:
                writer = pq.ParquetWriter(
                    unfinished, table.schema, compression="zstd", compression_level=level
                )
            writer.write_table(table, row_group_size=1 << 20)
        if writer is None:
            raise DataError("no pair was found", source=stream.origin)
        metadata = {
            "identity": identity,
            "fingerprint": fingerprint(identity),
            "notes": stream.notes,
            "first_turns": first_turns.as_dict(),
            "all_turns": all_turns.as_dict(),
        }
        writer.add_key_value_metadata({_METADATA: json.dumps(metadata, sort_keys=True).encode()})
    finally:
        if writer is not None:
            writer.close()
    unfinished.replace(target)
