"""The compiled scan: one pass over the bytes of a prompt gives its 19 features (Clairvoyant, section 3.2).

A prompt arrives as one byte per character (`prompts.fold` maps what is not ASCII). Each byte is looked at
once by the word trie; what lies between two words is looked at once more, by the phrase automaton or by
the verb rule. Nothing backs up, so time is linear in length.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.prompts.lexicon import (
    NUMBER,
    OPENS_OTHER,
    OTHER_LETTER,
    ROLE_OTHER,
    SKIP_POLITE,
    UNDERSCORE,
)

__all__ = ["scan_authors", "scan_paper"]

# Kinds of a byte between words.
_OTHER, _SPACE, _NEWLINE, _STOP, _HARD, _COMMA, _COLON, _HYPHEN, _TICK, _QUOTE, _CLOSE, _LESS = range(12)

# Bytes that stand for characters outside ASCII (see prompts.fold).
LETTER_BYTE, MARK_BYTE, BREAK_BYTE, SPACE_BYTE = 0x80, 0x81, 0x82, 0x1F


def _tables() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    column = np.zeros(256, np.uint8)
    for index in range(26):
        column[ord("a") + index] = column[ord("A") + index] = index + 1
    for index in range(10):
        column[ord("0") + index] = 27 + index
    column[ord("_")] = UNDERSCORE
    column[LETTER_BYTE] = OTHER_LETTER
    kind = np.full(256, _OTHER, np.uint8)
    for byte in (*b" \t\x1c\x1d\x1e", SPACE_BYTE):
        kind[byte] = _SPACE
    for byte in b"\n\r\v\f":
        kind[byte] = _NEWLINE
    for byte in (*b"?!;", BREAK_BYTE):
        kind[byte] = _HARD
    single = {".": _STOP, ",": _COMMA, ":": _COLON, "-": _HYPHEN, "`": _TICK, '"': _QUOTE,
              ")": _CLOSE, "]": _CLOSE, "<": _LESS}  # fmt: skip
    for char, value in single.items():
        kind[ord(char)] = value
    return column, kind


_COLUMN, _KIND = _tables()
_QUESTION, _TICK_BYTE, _GREATER, _SLASH = ord("?"), ord("`"), ord(">"), ord("/")

# The verb rule's memory, kept in an int64 array between words.
_MODE, _NODE, _PENDING, _WORDS, _POLITE, _SOFT, _FENCE, _TAG, _LAST, _VERB = range(10)
_OPEN, _PASSED, _DONE = 0, 1, 2


@numba.njit(cache=True, nogil=True)
def _separator(buf: Any, begin: int, end: int) -> int:
    """Classify what stands between two words; columns of the phrase automaton."""
    if end - begin == 1:
        byte = buf[begin]
        if _KIND[byte] == _SPACE or _KIND[byte] == _NEWLINE:
            return 0
        if byte == 45:
            return 2
        if byte == 59:
            return 3
        return 4
    for position in range(begin, end):
        kind = _KIND[buf[position]]
        if kind != _SPACE and kind != _NEWLINE:
            return 4
    return 1


@numba.njit(cache=True, nogil=True)
def _open_clause(memory: Any, soft: int) -> None:
    memory[_MODE] = _OPEN
    memory[_NODE] = 0
    memory[_WORDS] = 0
    memory[_POLITE] = 0
    memory[_SOFT] = soft


@numba.njit(cache=True, nogil=True)
def _between(buf: Any, begin: int, end: int, first: int, last: int, memory: Any) -> None:
    """Follow the verb rule through the bytes [begin, end) between two words of the prompt [first, last)."""
    position = begin
    while position < end:
        byte = buf[position]
        kind = _KIND[byte]
        if kind == _TICK and position + 2 < last and buf[position + 1] == _TICK_BYTE \
                and buf[position + 2] == _TICK_BYTE:  # fmt: skip
            memory[_FENCE] = 1 - memory[_FENCE]
            _open_clause(memory, 0)
            position += 3
            continue
        if memory[_FENCE] == 0:
            if memory[_TAG] == 1:
                if byte == _GREATER or kind == _NEWLINE:
                    memory[_TAG] = 0
                if kind == _NEWLINE:
                    _open_clause(memory, 0)
                position += 1
                continue
            following = buf[position + 1] if position + 1 < last else 32
            letter_follows = _COLUMN[following] != 0
            digit_follows = 48 <= following <= 57
            before = buf[position - 1] if position > first else 32
            space_follows = _KIND[following] == _SPACE or _KIND[following] == _NEWLINE
            if kind in (_NEWLINE, _HARD):
                _open_clause(memory, 0)
            elif kind == _STOP:
                if not letter_follows or (memory[_WORDS] == 1 and memory[_LAST] == NUMBER
                                          and not digit_follows):  # fmt: skip
                    _open_clause(memory, 0)
            elif kind == _COMMA:
                if not digit_follows:
                    _open_clause(memory, 1)
            elif kind == _COLON:
                if space_follows or (memory[_WORDS] == 1 and letter_follows and not digit_follows
                                     and before != 58):  # fmt: skip
                    _open_clause(memory, 0)
            elif kind == _HYPHEN:
                if space_follows and (_KIND[before] == _SPACE or _KIND[before] == _NEWLINE):
                    _open_clause(memory, 0)
            elif kind == _CLOSE:
                if memory[_WORDS] == 1:
                    _open_clause(memory, 0)
            elif memory[_MODE] == _OPEN and memory[_WORDS] == 0:
                if kind == _TICK or (kind == _QUOTE and memory[_SOFT] == 1):
                    memory[_MODE] = _PASSED  # inline code, or quoted speech, asks for nothing
                elif kind == _LESS and (letter_follows or following == _SLASH):
                    memory[_TAG] = 1
        position += 1


@numba.njit(cache=True, nogil=True)
def _looks_like_code(buf: Any, end: int, last: int) -> bool:
    """`list(x)`, `list[0]`, `list = 3`, `list.append`: a name, not a request."""
    if end >= last:
        return False
    byte = buf[end]
    if byte == 32 and end + 1 < last:
        return bool(buf[end + 1] == 61)
    return bool(
        byte == 40
        or byte == 91
        or byte == 61
        or (byte == 46 and end + 1 < last and _COLUMN[buf[end + 1]] != 0)
    )


@numba.njit(cache=True, nogil=True)
def _settle(memory: Any, role: int, is_code: bool) -> None:
    """Decide by the word that opens the clause."""
    if role < ROLE_OTHER and not is_code:
        memory[_VERB] = role
        memory[_MODE] = _DONE
    elif (role == ROLE_OTHER and not is_code) or memory[_POLITE] == 1:
        memory[_MODE] = _DONE
    else:
        memory[_MODE] = _PASSED


@numba.njit(cache=True, nogil=True)
def _word(memory: Any, symbol: int, role: Any, opening: Any, kinds: Any, is_code: bool) -> None:
    """Follow the verb rule through one word."""
    memory[_WORDS] += 1
    memory[_LAST] = symbol
    if memory[_MODE] != _OPEN:
        return
    node = memory[_NODE]
    if node != 0:
        child = opening[node, symbol]
        if child < 0:
            kind = kinds[node]
            if kind == 0:  # the opening was not what it looked like: its first word decides
                _settle(memory, memory[_PENDING], False)
                return
            if kind == SKIP_POLITE:
                memory[_POLITE] = 1
            node = 0
            memory[_NODE] = 0
        else:
            node = child
    if node == 0:
        child = opening[0, symbol]
        if child < 0:
            if symbol != NUMBER:
                _settle(memory, role[symbol], is_code)
            return
        memory[_PENDING] = role[symbol]
        node = child
    if kinds[node] == OPENS_OTHER:
        memory[_MODE] = _DONE
        return
    memory[_NODE] = node


@numba.njit(cache=True, nogil=True)
def _ends_with_question(buf: Any, first: int, last: int) -> bool:
    position = last - 1
    while position >= first and (_KIND[buf[position]] == _SPACE or _KIND[buf[position]] == _NEWLINE):
        position -= 1
    return bool(position >= first and buf[position] == _QUESTION)


@numba.njit(cache=True, nogil=True)
def scan_paper(
    buf: Any, bounds: Any, out: Any, trie: Any, symbol_of: Any, flags_of: Any, clause_of: Any, role_of: Any,
    column_of: Any, phrase: Any, phrase_flags: Any, opening: Any, opening_kind: Any,
) -> None:  # fmt: skip
    """Fill out[i] for the prompt in bytes bounds[i] to bounds[i + 1], by the paper's definitions."""
    memory = np.empty(10, np.int64)
    for row in range(bounds.size - 1):
        first = bounds[row]
        last = bounds[row + 1]
        memory[:] = 0
        memory[_VERB] = ROLE_OTHER
        flags = 0
        clauses = 0
        state = 0
        position = first
        while True:
            gap = position
            while position < last and _COLUMN[buf[position]] == 0:
                position += 1
            if position == last:
                break
            begin = position
            node = 1
            while position < last:
                column = _COLUMN[buf[position]]
                if column == 0:
                    break
                node = trie[node, column]
                position += 1
            symbol = symbol_of[node]
            if symbol != 0 or state != 0:
                flags |= flags_of[symbol]
                clauses += clause_of[symbol]
                if state != 0:
                    state = phrase[state, _separator(buf, gap, begin)]
                state = phrase[state, 5 + column_of[symbol]]
                flags |= phrase_flags[state]
            if memory[_MODE] != _DONE:
                _between(buf, gap, begin, first, last, memory)
                if memory[_FENCE] == 0 and memory[_TAG] == 0:
                    if memory[_MODE] == _OPEN and (buf[begin] == 95 or buf[position - 1] == 95):
                        symbol = _trimmed(buf, begin, position, trie, symbol_of)
                    _word(memory, symbol, role_of, opening, opening_kind,
                          _looks_like_code(buf, position, last))  # fmt: skip
        out[row, :] = 0.0
        out[row, 0] = (last - first) // 4
        out[row, 1] = flags & 1
        out[row, 2] = (flags >> 1) & 1
        out[row, 3] = _ends_with_question(buf, first, last)
        out[row, 4] = (flags >> 2) & 1
        out[row, 5] = clauses
        out[row, 6 + memory[_VERB]] = 1.0


@numba.njit(cache=True, nogil=True)
def _trimmed(buf: Any, begin: int, end: int, trie: Any, symbol_of: Any) -> int:
    """Symbol of a word without the underscores of `_emphasis_` around it."""
    while begin < end and buf[begin] == 95:
        begin += 1
    while end > begin and buf[end - 1] == 95:
        end -= 1
    node = 1
    for position in range(begin, end):
        node = trie[node, _COLUMN[buf[position]]]
    return int(symbol_of[node])


@numba.njit(cache=True, nogil=True)
def scan_authors(
    buf: Any, bounds: Any, out: Any, trie: Any, symbol_of: Any, flags_of: Any, role_of: Any, rank_of: Any,
    column_of: Any, phrase: Any, phrase_flags: Any, substring: Any, substring_hit: Any,
) -> None:  # fmt: skip
    """Fill out[i] for the prompt in bytes bounds[i] to bounds[i + 1], as the authors' published code does."""
    for row in range(bounds.size - 1):
        first = bounds[row]
        last = bounds[row + 1]
        flags = 0
        found = 0
        clauses = 0
        state = 0
        inside = 0
        best = 127
        verb = ROLE_OTHER
        end_and = end_but = end_because = first
        position = first
        while True:
            gap = position
            while position < last and _COLUMN[buf[position]] == 0:
                byte = buf[position]
                clauses += (byte == 44) | (byte == 59)
                inside = substring[inside, byte]
                found |= substring_hit[inside]
                position += 1
            if position == last:
                break
            begin = position
            node = 1
            while position < last:
                byte = buf[position]
                column = _COLUMN[byte]
                if column == 0:
                    break
                node = trie[node, column]
                inside = substring[inside, byte]
                found |= substring_hit[inside]
                position += 1
            length = position - begin
            # " and ", " but ", " because ", counted as str.count does: matches share no blank
            if (length == 3 or length == 7) and position < last and buf[position] == 32 \
                    and begin > first and buf[begin - 1] == 32:  # fmt: skip
                if length == 3 and _is(buf, begin, _AND) and begin - 1 >= end_and:
                    clauses += 1
                    end_and = position + 1
                elif length == 3 and _is(buf, begin, _BUT) and begin - 1 >= end_but:
                    clauses += 1
                    end_but = position + 1
                elif length == 7 and _is(buf, begin, _BECAUSE) and begin - 1 >= end_because:
                    clauses += 1
                    end_because = position + 1
            symbol = symbol_of[node]
            if symbol != 0 or state != 0:
                flags |= flags_of[symbol]
                if rank_of[symbol] < best:
                    best = rank_of[symbol]
                    verb = role_of[symbol]
                if state != 0:
                    state = phrase[state, _separator(buf, gap, begin)]
                state = phrase[state, 5 + column_of[symbol]]
                flags |= phrase_flags[state]
        out[row, :] = 0.0
        out[row, 0] = (last - first) // 4
        out[row, 1] = flags & 1
        out[row, 2] = (flags >> 1) & 1
        out[row, 3] = _ends_with_question(buf, first, last)
        out[row, 4] = found
        out[row, 5] = clauses
        out[row, 6 + verb] = 1.0


_AND = np.frombuffer(b"and", np.uint8)
_BUT = np.frombuffer(b"but", np.uint8)
_BECAUSE = np.frombuffer(b"because", np.uint8)


@numba.njit(cache=True, nogil=True)
def _is(buf: Any, begin: int, word: Any) -> bool:
    same = True
    for offset in range(word.size):
        same = same and buf[begin + offset] == word[offset]
    return same
