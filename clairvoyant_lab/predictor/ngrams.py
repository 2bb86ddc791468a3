"""From a prompt to hashed n-gram ids and counts of its surface, in one compiled pass.

Ids are numbers in a table of 2^18 places: single words, pairs of neighbouring words, runs of a
punctuation mark, and the order of magnitude of the prompt's size. The same text gives the same ids on
every machine. Words are runs of ASCII letters, digits, underscores and non-ASCII characters; ASCII is
folded to lower case; a number is known by its digits as a word and by how many digits it has in a pair.
Of a long prompt the first 3,072 and the last 1,024 characters are read, so that a scan takes bounded
time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numba as nb
import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.prompts.schema import FEATURE_NAMES

__all__ = [
    "N_BUCKETS",
    "RICH_HASH",
    "RICH_NAMES",
    "RICH_VERSION",
    "SHAPE_NAMES",
    "fill_row",
    "pad_ids",
    "scan_many",
    "scan_prompt",
    "score_prompt",
    "window",
]

BITS = 18
N_BUCKETS = 1 << BITS
HEAD_CHARS = 3072
TAIL_CHARS = 1024

SHAPE_NAMES: tuple[str, ...] = (
    "n_chars",
    "n_words",
    "n_lines",
    "n_capitals",
    "n_punctuation",
    "n_code_symbols",
    "n_numbers",
    "largest_number",
    "last_number",
    "mean_word_chars",
    "capital_share",
    "punctuation_share",
    "code_symbol_share",
    "words_per_line",
)
RICH_VERSION = 1
RICH_NAMES: tuple[str, ...] = FEATURE_NAMES + SHAPE_NAMES
RICH_HASH = hashlib.sha256(
    f"rich/{RICH_VERSION}:{','.join(RICH_NAMES)};words+pairs+marks+sizes@{BITS};{HEAD_CHARS}+{TAIL_CHARS}".encode()
).hexdigest()[:16]

_N_SHAPE = len(SHAPE_NAMES)

_SPACE, _WORD, _LINE, _MARK, _CUT = 0, 1, 2, 3, 4


def _byte_kinds() -> NDArray[np.uint8]:
    kinds = np.full(256, _MARK, np.uint8)
    for code in range(256):
        if code >= 128 or chr(code).isalnum() or code == ord("_"):
            kinds[code] = _WORD
        elif code == ord("\n"):
            kinds[code] = _LINE
        elif code == 0:
            kinds[code] = _CUT
        elif code <= 32:
            kinds[code] = _SPACE
    return kinds


_KIND = _byte_kinds()
LOWER = np.array([code + 32 if 65 <= code <= 90 else code for code in range(256)], np.uint8)
IS_CODE = np.isin(np.arange(256), [ord(mark) for mark in "{}()[];=<>/\\|&*#$@^~`"])
_APOSTROPHE = ord("'")

# Kinds of id: each has a salt of its own, so that the word "7" and the size 7 don't meet.
SALT_WORD, SALT_DIGITS, SALT_PAIR, SALT_MARK = 11, 12, 21, 71
SALT_WORDS, SALT_CHARS, SALT_LINES, SALT_CODE, SALT_MARKS = 91, 92, 93, 94, 95
START = 1


@nb.njit(cache=True, inline="always")
def _mix(a: int | np.uint64, b: int | np.uint64) -> np.uint64:
    # Finaliser of a 64-bit hash: every input bit reaches the top bits, which become the id.
    h = np.uint64(a) ^ (np.uint64(b) * np.uint64(0x9E3779B97F4A7C15))
    h = (h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@nb.njit(cache=True, inline="always")
def _emit(h: np.uint64, seen: NDArray[np.uint64], ids: NDArray[np.int32], n: int) -> int:
    place = np.int64(np.uint64(h) >> np.uint64(64 - BITS))
    word, bit = place >> 6, np.uint64(1) << np.uint64(place & 63)
    if seen[word] & bit:
        return n
    seen[word] |= bit
    ids[n] = place
    return n + 1


@nb.njit(cache=True)
def _scan(text: NDArray[np.uint8], n_chars: int, ids: NDArray[np.int32], shape: NDArray[np.float32]) -> int:
    """Fill `ids` and `shape`; return how many ids there are. Each id stands once, in order of appearance."""
    seen = np.zeros(N_BUCKETS >> 6, np.uint64)
    size = text.size
    n = 0
    words = lines = capitals = marks = code_marks = numbers = word_bytes = 0
    largest = last = 0.0
    before = np.uint64(START)
    i = 0
    while i < size:
        kind = _KIND[text[i]]
        if kind == _SPACE:
            i += 1
        elif kind == _WORD:
            h = np.uint64(14695981039346656037)
            all_digits = True
            value = 0.0
            j = i
            while j < size:
                c = text[j]
                if _KIND[c] != _WORD:
                    if c == _APOSTROPHE and j + 1 < size and _KIND[text[j + 1]] == _WORD:
                        j += 1
                        continue
                    break
                if 65 <= c <= 90:
                    capitals += 1
                if 48 <= c <= 57:
                    value = value * 10 + (c - 48)
                else:
                    all_digits = False
                h = (h ^ np.uint64(LOWER[c])) * np.uint64(1099511628211)
                j += 1
            length = j - i
            h = _mix(h, length)
            words += 1
            word_bytes += length
            n = _emit(_mix(h, SALT_WORD), seen, ids, n)
            if all_digits:
                # In a pair "500 words" and "800 words" are the same thing: a three-digit number of words.
                h = _mix(np.uint64(777), length)
                n = _emit(_mix(h, SALT_DIGITS), seen, ids, n)
                numbers += 1
                if length < 7:
                    last = value
                    largest = max(largest, value)
            n = _emit(_mix(_mix(before, SALT_PAIR), h), seen, ids, n)
            before = h
            i = j
        elif kind == _CUT:
            before = np.uint64(SALT_MARK)
            i += 1
        else:
            c = text[i]
            j = i
            while j < size and text[j] == c:
                j += 1
            run = j - i
            if kind == _LINE:
                lines += 1
            else:
                marks += run
                if IS_CODE[c]:
                    code_marks += run
            n = _emit(_mix(_mix(np.uint64(c), SALT_MARK), min(run, 4)), seen, ids, n)
            i = j
    n = _emit(_mix(np.uint64(int(2 * np.log2(words + 1.0))), SALT_WORDS), seen, ids, n)
    n = _emit(_mix(np.uint64(int(2 * np.log2(n_chars + 1.0))), SALT_CHARS), seen, ids, n)
    n = _emit(_mix(np.uint64(int(np.log2(lines + 1.0))), SALT_LINES), seen, ids, n)
    n = _emit(_mix(np.uint64(int(np.log2(code_marks + 1.0))), SALT_CODE), seen, ids, n)
    n = _emit(_mix(np.uint64(int(np.log2(marks + 1.0))), SALT_MARKS), seen, ids, n)
    shape[0] = n_chars
    shape[1] = words
    shape[2] = lines
    shape[3] = capitals
    shape[4] = marks
    shape[5] = code_marks
    shape[6] = numbers
    shape[7] = largest
    shape[8] = last
    shape[9] = word_bytes / max(words, 1)
    shape[10] = capitals / max(size, 1)
    shape[11] = marks / max(size, 1)
    shape[12] = code_marks / max(size, 1)
    shape[13] = words / (lines + 1)
    return n


@nb.njit(cache=True)
def _scan_one(
    text: NDArray[np.uint8], n_chars: int, features: NDArray[np.float32], first: int
) -> NDArray[np.int32]:
    # A number of one digit gives the most ids a byte can: word, digits, pair.
    ids = np.empty(3 * text.size + 8, np.int32)
    n = _scan(text, n_chars, ids, features[first:])
    return ids[:n].copy()


@nb.njit(cache=True)
def _score_one(
    text: NDArray[np.uint8], n_chars: int, weights: NDArray[np.int16], shape: NDArray[np.float32]
) -> tuple[int, int, int]:
    ids = np.empty(3 * text.size + 8, np.int32)
    n = _scan(text, n_chars, ids, shape)
    first = second = 0
    for place in range(n):
        first += weights[ids[place], 0]
        second += weights[ids[place], 1]
    return first, second, n


@nb.njit(cache=True)
def _fill_row(
    text: NDArray[np.uint8],
    n_chars: int,
    weights: NDArray[np.int16],
    scale: NDArray[np.float32],
    intercept: NDArray[np.float32],
    tail: NDArray[np.float32],
) -> None:
    first, second, n = _score_one(text, n_chars, weights, tail)
    root = np.float32(np.sqrt(np.float32(max(n, 1))))
    tail[_N_SHAPE] = np.float32(first) / root * scale[0] + intercept[0]
    tail[_N_SHAPE + 1] = np.float32(second) / root * scale[1] + intercept[1]


def window(prompt: str) -> NDArray[np.uint8]:
    """Bytes of the part of a prompt that is read, with a zero byte where the middle was left out."""
    if len(prompt) > HEAD_CHARS + TAIL_CHARS:
        prompt = f"{prompt[:HEAD_CHARS]}\0{prompt[-TAIL_CHARS:]}"
    return np.frombuffer(prompt.encode("utf-8", "replace"), np.uint8)


def scan_prompt(prompt: str, features: NDArray[np.float32], first: int) -> NDArray[np.int32]:
    """Ids of one prompt; its surface counts go to `features[first:]`.

    Parameters
    ----------
    prompt : str
        The prompt.
    features : ndarray of float32, shape (>= first + 14,)
        Row to fill.
    first : int
        Where `SHAPE_NAMES` begin.

    Returns
    -------
    ndarray of int32
        Distinct ids in order of appearance.
    """
    return _scan_one(window(prompt), len(prompt), features, first)


def score_prompt(prompt: str, weights: NDArray[np.int16]) -> tuple[int, int, int]:
    """Sums of both weights of a prompt's ids, exact, and how many ids there are."""
    return _score_one(window(prompt), len(prompt), weights, np.empty(_N_SHAPE, np.float32))


def fill_row(
    prompt: str,
    weights: NDArray[np.int16],
    scale: NDArray[np.float32],
    intercept: NDArray[np.float32],
    tail: NDArray[np.float32],
) -> None:
    """Surface counts and both linear scores of a prompt, in one pass.

    Parameters
    ----------
    prompt : str
        The prompt.
    weights, scale, intercept
        Of `LinearScores`, with two scores.
    tail : ndarray of float32, shape (16,)
        Filled with `SHAPE_NAMES` and the scores, to the bit those of `LinearScores.scores`.
    """
    _fill_row(window(prompt), len(prompt), weights, scale, intercept, tail)


def scan_many(prompts: Sequence[str]) -> tuple[NDArray[np.float32], list[NDArray[np.int32]]]:
    """Features of the rich schema (`RICH_NAMES`) and ids of many prompts.

    Returns
    -------
    features : ndarray of float32, shape (n, 33)
    ids : list of ndarray of int32
    """
    from clairvoyant_lab.prompts import extract_features_batch

    first = len(FEATURE_NAMES)
    features = np.empty((len(prompts), len(RICH_NAMES)), np.float32)
    features[:, :first] = extract_features_batch(prompts)
    ids = [scan_prompt(prompt, features[row], first) for row, prompt in enumerate(prompts)]
    return features, ids


def pad_ids(ids: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Ids as one table; short rows are filled with the id past the end, whose weight is 0."""
    width = max((row.size for row in ids), default=0)
    table = np.full((len(ids), width), N_BUCKETS, np.int32)
    for place, row in enumerate(ids):
        table[place, : row.size] = row
    return table
