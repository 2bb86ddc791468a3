"""What a source yields: conversations, and the prompt-answer pairs in them, with a reason for each drop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

__all__ = ["Conversation", "Drop", "Pair", "ReadReport", "Reason", "Turn", "Turns", "pairs_of", "role_of"]

Turns = Literal["first", "all"]

# Names seen in published files, by who speaks.
_ROLES = {
    "user": ("human", "user", "prompter", "question", "instruction"),
    "assistant": ("gpt", "assistant", "chatgpt", "bing", "bard", "model", "bot", "ai", "answer", "claude"),
    "system": ("system", "developer", "tool", "function", "context"),
}
_ROLE_OF = {name: role for role, names in _ROLES.items() for name in names}


class Reason(StrEnum):
    """Why a row gave no pair."""

    NO_TURNS = "no turns"
    CONTINUATION = "a later part of a conversation"
    ANSWER_FIRST = "starts with an answer"
    NO_ANSWER = "no answer follows"
    EMPTY_PROMPT = "empty prompt"
    EMPTY_ANSWER = "empty answer"
    UNKNOWN_SHAPE = "no known shape"
    NO_COUNT = "no reported token count"
    LANGUAGE = "other language"
    DUPLICATE = "duplicate prompt"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: `user`, `assistant` or `system`, its text, and its tokens when the file tells."""

    role: str
    text: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation as a source has it.

    Attributes
    ----------
    key : str
        The source's own id of this row.
    group : str
        Id shared by all rows of the same conversation; splits keep a group together.
    turns : tuple of Turn
        In order.
    continues : bool
        True when this row is a later part, so its first turn is not the conversation's first.
    """

    key: str
    group: str
    turns: tuple[Turn, ...]
    continues: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """A prompt and its answer.

    Attributes
    ----------
    key, group : str
        See `Conversation`.
    turn : int
        0 for the conversation's first prompt; counted within the row.
    prompt, response : str
        The texts; empty where the source holds counts only, as a trace does.
    response_tokens, prompt_tokens : int or None
        Counts that the source itself reports.
    first : bool
        True when nothing came before it in the conversation.
    """

    key: str
    group: str
    turn: int
    prompt: str
    response: str
    response_tokens: int | None = None
    prompt_tokens: int | None = None
    first: bool = True


@dataclass(frozen=True, slots=True)
class Drop:
    """A row that gave no pair."""

    key: str
    reason: Reason
    detail: str = ""


@dataclass
class ReadReport:
    """What was read and what became of it: `rows_read == kept + sum(dropped.values())`.

    Attributes
    ----------
    rows_read : int
        Candidate pairs: one a conversation for first turns, one a prompt for all turns (a conversation
        without any prompt counts once).
    kept : int
        Pairs handed on.
    dropped : Counter
        Reason -> rows.
    """

    rows_read: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        """Rows read, kept, and dropped by reason, as plain JSON."""
        return {
            "rows_read": self.rows_read,
            "kept": self.kept,
            "dropped": dict(sorted(self.dropped.items())),
        }

    def keep(self) -> None:
        """Count a kept row."""
        self.rows_read += 1
        self.kept += 1

    def drop(self, reason: Reason) -> None:
        """Count a dropped row."""
        self.rows_read += 1
        self.dropped[reason.value] += 1

    def revoke(self, reason: Reason, rows: int = 1) -> None:
        """Turn rows that were kept so far into dropped ones (a later step refused them)."""
        if rows:
            self.kept -= rows
            self.dropped[reason.value] += rows


def role_of(name: object) -> str:
    """Speaker of a turn: `user`, `assistant` or `system`; an unknown name is a system turn."""
    return _ROLE_OF.get(str(name).strip().lower(), "system")


def pairs_of(
    conversations: Iterable[Conversation | Drop], turns: Turns, report: ReadReport
) -> Iterator[Pair]:
    """Turn conversations into pairs and count what is dropped.

    Parameters
    ----------
    conversations : iterable of Conversation or Drop
        A source's stream; a `Drop` is a row that could not be understood.
    turns : {"first", "all"}
        Only each conversation's first prompt, or every prompt that an answer follows.
    report : ReadReport
        Filled while the stream runs.

    Yields
    ------
    Pair
    """
    for item in conversations:
        if isinstance(item, Drop):
            report.drop(item.reason)
            continue
        results = _first(item) if turns == "first" else _all(item)
        for result in results:
            if isinstance(result, Drop):
                report.drop(result.reason)
            else:
                report.keep()
                yield result


def _first(conversation: Conversation) -> Iterator[Pair | Drop]:
    spoken = [turn for turn in conversation.turns if turn.role != "system"]
    if not spoken:
        yield Drop(conversation.key, Reason.NO_TURNS)
    elif conversation.continues:
        yield Drop(conversation.key, Reason.CONTINUATION)
    elif spoken[0].role != "user":
        yield Drop(conversation.key, Reason.ANSWER_FIRST)
    else:
        yield _pair(conversation, spoken, 0, 0)


def _all(conversation: Conversation) -> Iterator[Pair | Drop]:
    spoken = [turn for turn in conversation.turns if turn.role != "system"]
    prompts = [index for index, turn in enumerate(spoken) if turn.role == "user"]
    if not spoken:
        yield Drop(conversation.key, Reason.NO_TURNS)
    elif not prompts:
        yield Drop(conversation.key, Reason.ANSWER_FIRST)
    for number, index in enumerate(prompts):
        yield _pair(conversation, spoken, index, number)


def _pair(conversation: Conversation, spoken: list[Turn], index: int, number: int) -> Pair | Drop:
    prompt = spoken[index]
    answer = spoken[index + 1] if index + 1 < len(spoken) else None
    if not prompt.text.strip() and (prompt.text or prompt.tokens is None):
        return Drop(conversation.key, Reason.EMPTY_PROMPT)
    if answer is None or answer.role != "assistant":
        return Drop(conversation.key, Reason.NO_ANSWER)
    if not answer.text.strip() and answer.tokens is None:
        return Drop(conversation.key, Reason.EMPTY_ANSWER)
    return Pair(
        conversation.key,
        conversation.group,
        number,
        prompt.text,
        answer.text,
        answer.tokens,
        prompt.tokens,
        first=index == 0 and not conversation.continues,
    )
