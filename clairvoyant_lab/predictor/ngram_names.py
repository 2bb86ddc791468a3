"""The text behind each n-gram id of a prompt: the compiled scan again, in plain Python, keeping the words."""

from __future__ import annotations

import math
import re

from clairvoyant_lab.predictor import ngrams
from clairvoyant_lab.results import counted

__all__ = ["describe_ids"]

_MASK = (1 << 64) - 1
# Words with inner apostrophes, or a run of one mark or line end; the zero byte is a long prompt's cut.
_TOKEN = re.compile(
    rb"[0-9A-Za-z_\x80-\xff]+(?:'[0-9A-Za-z_\x80-\xff]+)*|\x00|(\n)\1*|([!-/:-@\[-^`{-~\x7f])\2*"
)


def describe_ids(prompt: str) -> dict[int, str]:
    """Name each id of a prompt.

    Parameters
    ----------
    prompt : str
        The prompt.

    Returns
    -------
    dict of int to str
        Id -> the first thing in the prompt that has it, in order of appearance: `word`, `two words`,
        `mark ?`, `about 64 words`. The ids are those of `ngrams.scan_prompt`, in its order.
    """
    text = ngrams.window(prompt).tobytes()
    names: dict[int, str] = {}

    def emit(h: int, name: str) -> None:
        names.setdefault(h >> (64 - ngrams.BITS), name)

    words = lines = marks = code_marks = 0
    before, before_name = ngrams.START, "<start>"
    for match in _TOKEN.finditer(text):
        token = match.group()
        first = token[0]
        if token == b"\0":
            before, before_name = ngrams.SALT_MARK, "<cut>"
        elif match.group(1) or match.group(2):
            if match.group(1):
                lines += 1
            else:
                marks += len(token)
                code_marks += len(token) if ngrams.IS_CODE[first] else 0
            run = min(len(token), 4)
            shown = "line end" if first == 10 else f"mark {chr(first)}"
            emit(_mix(_mix(first, ngrams.SALT_MARK), run), shown if run == 1 else f"{shown} ×{run}")
        else:
            words += 1
            h = 14695981039346656037
            for code in token:
                if code != 0x27:
                    h = ((h ^ int(ngrams.LOWER[code])) * 1099511628211) & _MASK
            h = _mix(h, len(token))
            name = token.lower().decode("utf-8", "replace")
            emit(_mix(h, ngrams.SALT_WORD), name)
            if token.replace(b"'", b"").isdigit():
                h, name = _mix(777, len(token)), f"number of {counted(len(token), 'digit')}"
                emit(_mix(h, ngrams.SALT_DIGITS), name)
            emit(_mix(_mix(before, ngrams.SALT_PAIR), h), f"{before_name} {name}")
            before, before_name = h, name
    for salt, count, factor, what in (
        (ngrams.SALT_WORDS, words, 2, "words"),
        (ngrams.SALT_CHARS, len(prompt), 2, "characters"),
        (ngrams.SALT_LINES, lines, 1, "line ends"),
        (ngrams.SALT_CODE, code_marks, 1, "code symbols"),
        (ngrams.SALT_MARKS, marks, 1, "punctuation marks"),
    ):
        size = int(factor * math.log2(count + 1.0))
        emit(_mix(size, salt), f"about {round(2 ** (size / factor) - 1)} {what}" if size else f"no {what}")
    return names


def _mix(a: int, b: int) -> int:
    h = a ^ ((b * 0x9E3779B97F4A7C15) & _MASK)
    h = ((h ^ (h >> 29)) * 0xBF58476D1CE4E5B9) & _MASK
    h = ((h ^ (h >> 32)) * 0x94D049BB133111EB) & _MASK
    return h ^ (h >> 31)
