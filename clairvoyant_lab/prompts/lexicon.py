"""The word lists as tables a scanner can walk: a trie of words, automata over words for phrases and openings.

`lexicon.toml` is the definition a person reads; here it is checked and compiled. Nothing in it is a
regular expression, so no list of terms can make the scan slower than linear.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import DataError, unknown_name
from clairvoyant_lab.prompts.schema import VERBS

__all__ = ["VARIANTS", "CompiledLexicon", "compile_lexicon", "lexicon_identity", "load_lexicon"]

VARIANTS = ("paper", "authors")

# Columns of the word trie: 0 is no word character; a-z, 0-9, "_" and any other letter or digit follow.
TRIE_WIDTH = 39
UNDERSCORE, OTHER_LETTER = 37, 38

# Symbols that are no listed word.
UNKNOWN, NUMBER, STARTS_WITH_DIGIT = 0, 1, 2
_FIRST_WORD = 3

CODE_FLAG, LENGTH_FLAG, FORMAT_FLAG = 1, 2, 4

# What stands between two words, as the phrase automaton sees it (columns 0..4; words follow).
SEPARATORS = ("one_space", "spaces", "hyphen", "semicolon", "anything")
_ALLOWED = {
    "any": frozenset(range(5)),
    "space": frozenset((0, 1)),
    "dash": frozenset((0, 2)),
    "semi": frozenset((3,)),
}

# What a word at the opening of a clause means: 0..11 is one of the 12 verbs.
ROLE_OTHER = len(VERBS) - 1
ROLE_NONE = len(VERBS)

SKIP_FILLER, SKIP_POLITE, OPENS_OTHER = 1, 2, 3


@dataclass(frozen=True)
class CompiledLexicon:
    """Tables of one variant.

    Attributes
    ----------
    trie : ndarray of int16, shape (n_states, 39)
        Next state by character column; state 0 is dead, 1 the root.
    symbol : ndarray of int16, shape (n_states,)
        Word symbol where a word ends, else 0.
    flags : ndarray of uint8, shape (n_symbols,)
        Bits set by the single word: 1 code, 2 length, 4 format.
    clause : ndarray of uint8, shape (n_symbols,)
        1 for a word that counts as a clause (paper).
    role : ndarray of int8, shape (n_symbols,)
        Paper: 0..11 one of the 12 verbs, 12 another request, 13 neither. Authors: the index in VERBS.
    rank : ndarray of int8, shape (n_symbols,)
        Authors: position in their order of priority, 127 for none.
    phrase_column : ndarray of int16, shape (n_symbols,)
        Column of the phrase automaton, 0 for a word in no phrase.
    phrase : ndarray of int16, shape (n_phrase_states, 5 + n_columns)
        Automaton over separators and words; state 0 is its start.
    phrase_flags : ndarray of uint8, shape (n_phrase_states,)
        Bits set on entering the state.
    opening : ndarray of int16, shape (n_nodes, n_symbols)
        Trie over words of what may stand before a request; node 0 is the root, -1 no child.
    opening_kind : ndarray of int8, shape (n_nodes,)
        0 unfinished, 1 filler, 2 polite, 3 opens a request that is none of the 12.
    substring : ndarray of int16, shape (n_substring_states, 256)
        Automaton over bytes for terms found inside words (authors); a single state when there are none.
    substring_hit : ndarray of uint8, shape (n_substring_states,)
        1 where a term ends.
    """

    variant: str
    trie: NDArray[np.int16]
    symbol: NDArray[np.int16]
    flags: NDArray[np.uint8]
    clause: NDArray[np.uint8]
    role: NDArray[np.int8]
    rank: NDArray[np.int8]
    phrase_column: NDArray[np.int16]
    phrase: NDArray[np.int16]
    phrase_flags: NDArray[np.uint8]
    opening: NDArray[np.int16]
    opening_kind: NDArray[np.int8]
    substring: NDArray[np.int16]
    substring_hit: NDArray[np.uint8]


def load_lexicon(path: str | Path | None = None) -> dict[str, Any]:
    """Read a lexicon file; the package's own by default.

    Raises
    ------
    DataError
        When it is no TOML or lacks a table.
    """
    source = Path(path) if path is not None else Path(__file__).with_name("lexicon.toml")
    try:
        data = tomllib.loads(source.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"no readable lexicon ({error})", source=source.name) from error
    missing = [name for name in ("version", *VARIANTS) if name not in data]
    if missing:
        raise DataError(f"lexicon lacks {', '.join(missing)}", source=source.name)
    return data


@lru_cache(maxsize=1)
def lexicon_identity() -> tuple[int, str]:
    """Version and hash of the lexicon in use; comments and order of tables don't change the hash."""
    data = load_lexicon()
    canonical = json.dumps(data, sort_keys=True, ensure_ascii=False).encode()
    return int(data["version"]), hashlib.sha256(canonical).hexdigest()[:16]


@lru_cache(maxsize=4)
def compile_lexicon(variant: str) -> CompiledLexicon:
    """Compile the package's lexicon for a variant (kept, so later calls are free).

    Raises
    ------
    ParameterError
        For an unknown variant.
    """
    if variant not in VARIANTS:
        raise unknown_name("variant", variant, VARIANTS)
    tables: Mapping[str, Any] = load_lexicon()[variant]
    symbols = _Symbols()
    numbers = frozenset((NUMBER, *map(symbols.of, tables["numbers"]["words"])))
    flag_words: list[tuple[int, int]] = []
    phrases: list[_Phrase] = []
    for name, flag in (("code", CODE_FLAG), ("length", LENGTH_FLAG), ("format", FORMAT_FLAG)):
        for table in (name, f"{name}_dash", f"{name}_semi"):
            entry = tables.get(table, {})
            flag_words += [(symbols.of(word), flag) for word in entry.get("words", ())]
            between = entry.get("between", "any")
            phrases += [_phrase(text, between, flag, symbols, numbers) for text in entry.get("phrases", ())]
    clause_words = [symbols.of(word) for word in tables.get("clause", {}).get("words", ())]
    roles: dict[int, int] = {}
    ranks: dict[int, int] = {}
    for rank, (verb, forms) in enumerate(tables["verb"].items()):
        for form in forms:
            roles[symbols.of(form)] = VERBS.index(verb) if verb in VERBS else ROLE_OTHER
            ranks[symbols.of(form)] = rank
    other = tables.get("verb_other", {})
    for word in (*other.get("imperatives", ()), *other.get("questions", ())):
        roles.setdefault(symbols.of(word), ROLE_OTHER)
    skip = tables.get("verb_skip", {})
    openings = [
        ([[symbols.of(w) for w in token.split("|")] for token in text.split()], kind)
        for texts, kind in (
            (skip.get("filler", ()), SKIP_FILLER),
            (skip.get("polite", ()), SKIP_POLITE),
            (other.get("phrases", ()), OPENS_OTHER),
        )
        for text in texts
    ]
    n_symbols = symbols.count
    trie, symbol = _trie(symbols.words)
    column, phrase, phrase_flags = _phrase_automaton(phrases, n_symbols)
    opening, opening_kind = _opening_trie(openings, n_symbols)
    substring, substring_hit = _substring_automaton(tables["format"].get("substrings", ()))
    flags = np.zeros(n_symbols, np.uint8)
    for word_symbol, flag in flag_words:
        flags[word_symbol] |= flag
    clause = np.zeros(n_symbols, np.uint8)
    clause[clause_words] = 1
    role = np.full(n_symbols, ROLE_NONE, np.int8)
    rank_of = np.full(n_symbols, 127, np.int8)
    for word_symbol, value in roles.items():
        role[word_symbol] = value
    for word_symbol, value in ranks.items():
        rank_of[word_symbol] = value
    return CompiledLexicon(
        variant, trie, symbol, flags, clause, role, rank_of, column, phrase, phrase_flags,
        opening, opening_kind, substring, substring_hit,
    )  # fmt: skip


class _Symbols:
    """Gives each listed word a number."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}

    @property
    def count(self) -> int:
        return _FIRST_WORD + len(self.words)

    def of(self, word: str) -> int:
        if not word or any(_column(char) == 0 for char in word) or word[0].isdigit() or word != word.lower():
            raise DataError(
                f"lexicon term {word!r}: give a lower-case ASCII word that starts with no digit",
                source="lexicon",
            )
        return self.words.setdefault(word, self.count)


@dataclass(frozen=True)
class _Phrase:
    elements: tuple[frozenset[int], ...]
    repeats: tuple[bool, ...]
    between: frozenset[int]
    flag: int


def _phrase(text: str, between: str, flag: int, symbols: _Symbols, numbers: frozenset[int]) -> _Phrase:
    if between not in _ALLOWED:
        raise unknown_name("between", between, _ALLOWED)
    elements: list[frozenset[int]] = []
    repeats: list[bool] = []
    for token in text.split():
        if token == "<n>":
            elements.append(numbers)
        elif token == "<n>*":
            elements.append(frozenset((NUMBER, STARTS_WITH_DIGIT)))
        else:
            elements.append(frozenset(symbols.of(word) for word in token.split("|")))
        repeats.append(token == "<n>" and between == "any")
    return _Phrase(tuple(elements), tuple(repeats), _ALLOWED[between], flag)


def _column(char: str) -> int:
    if "a" <= char <= "z":
        return ord(char) - ord("a") + 1
    if "0" <= char <= "9":
        return ord(char) - ord("0") + 27
    return UNDERSCORE if char == "_" else 0


def _trie(words: Mapping[str, int]) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    rows = [[0] * TRIE_WIDTH for _ in range(4)]
    symbols = [UNKNOWN, UNKNOWN, NUMBER, STARTS_WITH_DIGIT]
    for column in range(1, TRIE_WIDTH):
        digit = 27 <= column <= 36
        rows[1][column] = 2 if digit else 0
        rows[2][column] = 2 if digit else 3
        rows[3][column] = 3
    for word, word_symbol in words.items():
        state = 1
        for char in word:
            column = _column(char)
            if rows[state][column] == 0:
                rows[state][column] = len(rows)
                rows.append([0] * TRIE_WIDTH)
                symbols.append(UNKNOWN)
            state = rows[state][column]
        symbols[state] = word_symbol
    return np.array(rows, np.int16), np.array(symbols, np.int16)


def _phrase_automaton(
    phrases: Sequence[_Phrase], n_symbols: int
) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.uint8]]:
    """Subset construction over (phrase, words seen, separator seen?); every phrase may begin anywhere."""
    used = sorted({symbol for phrase in phrases for element in phrase.elements for symbol in element})
    column_of = np.zeros(n_symbols, np.int16)
    for index, symbol in enumerate(used):
        column_of[symbol] = index + 1
    # An item (p, k, ready): k words of phrase p were seen; ready once the separator after them was, too.
    Item = tuple[int, int, bool]
    start: frozenset[Item] = frozenset()
    states: dict[frozenset[Item], int] = {start: 0}
    todo = [start]
    rows: list[list[int]] = []
    flags = [0]
    while todo:
        current = todo.pop(0)
        row: list[int] = []
        for move in range(5 + 1 + len(used)):
            following: set[Item] = set()
            if move < 5:
                following = {(p, k, True) for p, k, _ in current if move in phrases[p].between}
            elif move > 5:
                symbol = used[move - 6]
                for p, phrase in enumerate(phrases):
                    if symbol in phrase.elements[0]:
                        following.add((p, 1, False))
                for p, k, ready in current:
                    phrase = phrases[p]
                    if ready and k < len(phrase.elements) and symbol in phrase.elements[k]:
                        following.add((p, k + 1, False))
                    if ready and phrase.repeats[k - 1] and symbol in phrase.elements[k - 1]:
                        following.add((p, k, False))
            key = frozenset(following)
            if key not in states:
                states[key] = len(states)
                todo.append(key)
                hit = 0
                for p, k, _ in key:
                    if k == len(phrases[p].elements):
                        hit |= phrases[p].flag
                flags.append(hit)
            row.append(states[key])
        rows.append(row)
    return column_of, np.array(rows, np.int16), np.array(flags, np.uint8)


def _opening_trie(
    openings: Iterable[tuple[list[list[int]], int]], n_symbols: int
) -> tuple[NDArray[np.int16], NDArray[np.int8]]:
    children: list[dict[int, int]] = [{}]
    kinds = [0]

    def add(node: int, tokens: list[list[int]], kind: int) -> None:
        if not tokens:
            kinds[node] = max(kinds[node], kind)
            return
        for symbol in tokens[0]:
            if symbol not in children[node]:
                children[node][symbol] = len(children)
                children.append({})
                kinds.append(0)
            add(children[node][symbol], tokens[1:], kind)

    for tokens, kind in openings:
        add(0, tokens, kind)
    table = np.full((len(children), n_symbols), -1, np.int16)
    for node, branch in enumerate(children):
        for symbol, child in branch.items():
            table[node, symbol] = child
    return table, np.array(kinds, np.int8)


def _substring_automaton(terms: Sequence[str]) -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
    """Aho-Corasick over bytes, upper case folded; state 0 is the start."""
    goto: list[dict[int, int]] = [{}]
    hit = [0]
    for term in terms:
        state = 0
        for byte in term.encode("ascii"):
            if byte not in goto[state]:
                goto[state][byte] = len(goto)
                goto.append({})
                hit.append(0)
            state = goto[state][byte]
        hit[state] = 1
    table = np.zeros((len(goto), 256), np.int16)
    fail = [0] * len(goto)
    queue = [0]
    while queue:
        state = queue.pop(0)
        hit[state] |= hit[fail[state]]
        for byte in range(256):
            folded = byte + 32 if 65 <= byte <= 90 else byte
            child = goto[state].get(folded)
            if child is None:
                table[state, byte] = table[fail[state], byte] if state else 0
                continue
            table[state, byte] = child
            if folded == byte:
                fail[child] = int(table[fail[state], byte]) if state else 0
                queue.append(child)
    return table, np.array(hit, np.uint8)
