"""One byte per character: what the scanner reads.

ASCII stays as it is. Every other character becomes the byte of what it is to the rules: a letter, a
digit, white space, a line break, a mark that ends a clause, or any other mark. Word characters and white
space are those of Python's `re`, for the Unicode version of the running Python.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["fold"]

_LETTER, _MARK, _BREAK, _SPACE, _NEWLINE, _DIGIT = 0x80, 0x81, 0x82, 0x1F, 0x0A, 0x30

# Dashes, ellipses and full stops of other scripts that end a clause.
_BREAKS = "–—―…。．！？；：،؛؟।॥｡﹒"
_AS_ASCII = {
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u201e": '"',
    "«": '"',
    "»": '"',
    "\u212a": "k",
}
_BLOCK = 1 << 14
_NEWLINES = "\x85\u2028\u2029"


def fold(text: str) -> NDArray[np.uint8]:
    """Bytes of a text, one per character.

    Parameters
    ----------
    text : str
        Any text; lone surrogates are marks.

    Returns
    -------
    ndarray of uint8, shape (len(text),)
        Read-only.
    """
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    folded: NDArray[np.uint8] = _table()[points]
    folded.flags.writeable = False  # one array type for the compiled scan, not two
    return folded


@lru_cache(maxsize=1)
def _table() -> NDArray[np.uint8]:
    table = np.full(sys.maxunicode + 1, _MARK, np.uint8)
    for start in range(0, sys.maxunicode + 1, _BLOCK):  # all at once would take 100 MB for a moment
        block = "".join(map(chr, range(start, start + _BLOCK)))
        for pattern, byte in ((r"\w+", _LETTER), (r"\d+", _DIGIT), (r"\s+", _SPACE)):
            for run in re.finditer(pattern, block):
                table[start + run.start() : start + run.end()] = byte
    table[:128] = np.arange(128)
    for char in _BREAKS:
        table[ord(char)] = _BREAK
    for char in _NEWLINES:
        table[ord(char)] = _NEWLINE
    for char, ascii_char in _AS_ASCII.items():
        table[ord(char)] = ord(ascii_char)
    return table
