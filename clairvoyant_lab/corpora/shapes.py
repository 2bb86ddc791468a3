"""Shapes of records: chat lists, instruction tables, prompt-answer tables, and how they are told apart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clairvoyant_lab.corpora.conversations import Conversation, Drop, Reason, Turn, role_of
from clairvoyant_lab.errors import DataError

__all__ = ["Columns", "conversations_of", "guess_columns"]

# Column names in the order in which they are looked for.
_CHAT = ("conversations", "conversation", "messages", "chat", "dialogue")
_PROMPT = (
    "prompt", "instruction", "question", "query", "user", "human_text", "input_text", "article", "input",
    "text",
)  # fmt: skip
_INPUT = ("input", "context")
_RESPONSE = (
    "response", "output", "answer", "completion", "assistant", "assistant_text", "chosen", "highlights",
    "output_text", "target",
)  # fmt: skip
_COUNT = (
    "response_tokens", "actual_output_tokens", "output_tokens", "completion_tokens", "eval_count",
    "output_length", "GeneratedTokens",
)  # fmt: skip
_PROMPT_COUNT = ("prompt_tokens", "input_tokens", "prompt_eval_count", "input_length", "ContextTokens")
_KEY = ("id", "conversation_id", "conversation_hash", "question_id", "instruction_id", "request_id")


@dataclass(frozen=True)
class Columns:
    """Which columns of a record hold what; None for "not there".

    Attributes
    ----------
    chat : str or None
        A list of messages (then `prompt` and `response` are not used).
    prompt, context, response : str or None
        Texts; `context` is put under the prompt, as instruction sets have it.
    response_tokens, prompt_tokens : str or None
        Counts that the file itself reports.
    key, group : str or None
        Id of the row, and of the conversation it belongs to.
    template : str
        Wording around the prompt, with `{prompt}`: summaries of articles need one.
    """

    chat: str | None = None
    prompt: str | None = None
    context: str | None = None
    response: str | None = None
    response_tokens: str | None = None
    prompt_tokens: str | None = None
    key: str | None = None
    group: str | None = None
    template: str = "{prompt}"

    def check(self, record: Mapping[str, Any], source: str) -> None:
        """Refuse columns that a record doesn't have.

        Raises
        ------
        DataError
            The missing column, and those there are.
        """
        for role in (
            "chat",
            "prompt",
            "context",
            "response",
            "response_tokens",
            "prompt_tokens",
            "key",
            "group",
        ):
            name = getattr(self, role)
            if name is not None and name not in record:
                raise DataError(
                    f"no such column for {role}; there are {', '.join(map(str, record))}",
                    source=source,
                    column=name,
                )
        prompts = self.prompt is not None or self.prompt_tokens is not None
        answers = self.response is not None or self.response_tokens is not None
        if self.chat is None and not (prompts and answers):
            raise DataError(
                "name the columns of prompt and response (or of the chat), e.g. columns={'prompt': ..., "
                f"'response': ...}}; there are {', '.join(map(str, record))}",
                source=source,
            )


def guess_columns(record: Mapping[str, Any], source: str = "file") -> Columns:
    """Guess from one record which columns hold what.

    Raises
    ------
    DataError
        When no prompt or no answer can be found; the message lists the columns.
    """
    names = {str(name).lower(): str(name) for name in record}

    def find(candidates: Iterable[str], *taken: str | None) -> str | None:
        return next(
            (names[name.lower()] for name in candidates
             if name.lower() in names and names[name.lower()] not in taken), None,
        )  # fmt: skip

    key = find(_KEY)
    for name in _CHAT:
        column = names.get(name)
        if column is not None and _messages(record[column]) is not None:
            return Columns(chat=column, key=key)
    prompt = find(_PROMPT)
    response = find(_RESPONSE, prompt)
    columns = Columns(
        prompt=prompt,
        context=find(_INPUT, prompt, response),
        response=response,
        response_tokens=find(_COUNT),
        prompt_tokens=find(_PROMPT_COUNT),
        key=key,
    )
    columns.check(record, source)
    return columns


def conversations_of(
    records: Iterable[Any], source: str, columns: Columns | None = None, language: str | None = None
) -> Iterator[Conversation | Drop]:
    """Turn records into conversations.

    Parameters
    ----------
    records : iterable
        Mappings, or bare lists of messages.
    source : str
        For messages and ids.
    columns : Columns, optional
        Guessed from the first whole record when not given.
    language : str, optional
        When rows carry a `language`, keep only this one (as LMSYS-Chat-1M and WildChat name it).

    Yields
    ------
    Conversation or Drop
        One per record.

    Raises
    ------
    DataError
        When the first record shows no usable columns.
    """
    for row, record in enumerate(records):
        key = f"{source}:{row}"
        if isinstance(record, list):
            record = {"conversation": record}
        if not isinstance(record, Mapping) or "_broken" in record:
            yield Drop(key, Reason.UNKNOWN_SHAPE)
            continue
        if columns is None:
            columns = guess_columns(record, source)
        elif row == 0:
            columns.check(record, source)
        if language is not None and str(record.get("language", language)).lower() != language.lower():
            yield Drop(key, Reason.LANGUAGE)
            continue
        yield _conversation(record, columns, key)


def _conversation(record: Mapping[str, Any], columns: Columns, key: str) -> Conversation | Drop:
    if columns.key is not None and record.get(columns.key) is not None:
        key = str(record[columns.key])
    group = str(record[columns.group]) if columns.group is not None and columns.group in record else key
    if columns.chat is not None:
        messages = _messages(record.get(columns.chat))
        if messages is None:
            return Drop(key, Reason.UNKNOWN_SHAPE)
        return Conversation(key, group, tuple(messages))
    try:
        response_tokens = _count(record.get(columns.response_tokens)) if columns.response_tokens else None
        prompt_tokens = _count(record.get(columns.prompt_tokens)) if columns.prompt_tokens else None
    except (TypeError, ValueError):
        return Drop(key, Reason.UNKNOWN_SHAPE)
    prompt = _text(record.get(columns.prompt)) if columns.prompt else ""
    context = _text(record.get(columns.context)) if columns.context else ""
    response = _text(record.get(columns.response)) if columns.response else ""
    if prompt is None or context is None or response is None:
        return Drop(key, Reason.UNKNOWN_SHAPE)
    prompt = columns.template.replace("{prompt}", prompt)
    if context.strip():
        prompt = f"{prompt}\n\n{context}"
    return Conversation(
        key,
        group,
        (Turn("user", prompt, prompt_tokens), Turn("assistant", response, response_tokens)),
    )


def _messages(value: object) -> list[Turn] | None:
    """Messages of a chat, or None when it is none."""
    if isinstance(value, str):  # a CSV or parquet cell that holds JSON
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, list):
        return None
    turns: list[Turn] = []
    for index, message in enumerate(value):
        if isinstance(message, str):  # speakers take turns
            turns.append(Turn("user" if index % 2 == 0 else "assistant", message))
            continue
        if not isinstance(message, Mapping):
            return None
        speaker = next(
            (message[name] for name in ("from", "role", "speaker", "author") if name in message), None
        )
        content = next(
            (message[name] for name in ("value", "content", "text", "message") if name in message), None
        )
        text = _content(content)
        if speaker is None or text is None:
            return None
        turns.append(Turn(role_of(speaker), text))
    return turns


def _content(value: object) -> str | None:
    """Text of a message; content parts are joined, images left out."""
    if value is None:
        return ""
    if isinstance(value, list):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in value]
        return "\n".join(part for part in parts if isinstance(part, str))
    return _text(value)


def _text(value: object) -> str | None:
    if value is None:
        return ""
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    if value is None or value == "":
        return None
    number = float(str(value))
    if number < 0 or number != int(number):
        raise ValueError(f"{value!r} is no token count")
    return int(number)
