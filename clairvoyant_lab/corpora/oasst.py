"""OASST1: a tree of messages; each prompter message with its best answer is a pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clairvoyant_lab.corpora.conversations import Conversation, Drop, Reason, Turn
from clairvoyant_lab.errors import DataError

__all__ = ["is_oasst", "oasst_conversations"]


def is_oasst(record: object) -> bool:
    """Tell a message row or a whole tree of OASST1 by its columns."""
    return isinstance(record, Mapping) and (
        {"message_id", "parent_id", "role", "text"} <= set(record)
        or {"message_tree_id", "prompt"} <= set(record)
    )


def oasst_conversations(
    records: Iterable[Any], source: str = "oasst1", language: str | None = "en"
) -> Iterator[Conversation | Drop]:
    """Read the flat table of messages, or the export with one tree a line.

    Every prompter message that has answers gives one conversation of two turns: itself and each of its
    answers' best (rank 0, else the first), so first-turn pairs are those at the root.

    Parameters
    ----------
    records : iterable of mapping
        Rows with message_id, parent_id, message_tree_id, role, text, lang, rank, deleted; or trees with
        `prompt.replies`. The flat table lists parents before children within a tree and keeps each tree
        together, so memory holds one tree at a time.
    source : str
        For messages.
    language : str or None
        Keep prompts whose `lang` is this; None keeps all.

    Yields
    ------
    Conversation or Drop
        One per prompter message.

    Raises
    ------
    DataError
        For a row of another shape, or when the rows of a tree lie apart.
    """
    tree: dict[str, Mapping[str, Any]] = {}
    current: str | None = None
    seen: set[str] = set()
    for row, record in enumerate(records):
        if not is_oasst(record):
            raise DataError("no OASST1 message or tree", source=source, row=row)
        if "prompt" in record and "message_id" not in record:
            yield from _pairs({m["message_id"]: m for m in _flatten(record["prompt"], None)},
                              str(record["message_tree_id"]), language)  # fmt: skip
            continue
        of = str(record.get("message_tree_id") or record["message_id"])
        if of != current and tree:
            yield from _pairs(tree, str(current), language)
            tree = {}
        if of != current:
            if of in seen:
                raise DataError(
                    "the rows of a tree lie apart; sort the file by message_tree_id", source=source, row=row
                )
            seen.add(of)
        current = of
        tree[str(record["message_id"])] = record
    if tree:
        yield from _pairs(tree, str(current), language)


def _flatten(message: Mapping[str, Any], parent: str | None) -> Iterator[dict[str, Any]]:
    # an explicit stack: a thread can be deeper than Python's
    stack: list[tuple[Mapping[str, Any], str | None]] = [(message, parent)]
    while stack:
        node, above = stack.pop()
        yield {**{k: v for k, v in node.items() if k != "replies"}, "parent_id": above}
        stack += [(reply, str(node["message_id"])) for reply in reversed(node.get("replies") or [])]


def _pairs(
    tree: dict[str, Mapping[str, Any]], group: str, language: str | None
) -> Iterator[Conversation | Drop]:
    answers: dict[str, list[Mapping[str, Any]]] = {}
    for message in tree.values():
        parent = message.get("parent_id")
        if parent is not None and message["role"] == "assistant" and not message.get("deleted"):
            answers.setdefault(str(parent), []).append(message)
    for key, message in tree.items():
        if message["role"] != "prompter" or message.get("deleted"):
            continue
        if language is not None and message.get("lang", language) != language:
            yield Drop(key, Reason.LANGUAGE)
            continue
        candidates = answers.get(key, [])
        if not candidates:
            yield Drop(key, Reason.NO_ANSWER)
            continue
        best = min(candidates, key=lambda one: one["rank"] if one.get("rank") is not None else 1 << 30)
        yield Conversation(
            key,
            group,
            (Turn("user", message["text"]), Turn("assistant", best["text"])),
            continues=message.get("parent_id") is not None,
        )
