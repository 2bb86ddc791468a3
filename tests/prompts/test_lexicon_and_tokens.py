"""The lexicon as data, and token counters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.prompts import lexicon_identity
from clairvoyant_lab.prompts.lexicon import compile_lexicon, load_lexicon
from clairvoyant_lab.prompts.schema import VERBS
from clairvoyant_lab.prompts.tokens import token_counter


def test_lexicon_names_the_papers_examples_and_every_verb() -> None:
    paper = load_lexicon()["paper"]
    assert {"function", "class", "implement", "algorithm"} <= set(paper["code"]["words"])
    assert {"brief", "detailed"} <= set(paper["length"]["words"])
    assert {"table", "list", "json", "csv", "markdown"} <= set(paper["format"]["words"])
    assert [*paper["verb"], "other"] == list(VERBS)


def test_identity_is_version_and_hash() -> None:
    version, digest = lexicon_identity()
    assert version >= 1
    assert len(digest) == 16
    int(digest, 16)


def test_compiled_tables_stay_in_bounds() -> None:
    for variant in ("paper", "authors"):
        tables = compile_lexicon(variant)
        assert tables.trie.min() >= 0
        assert tables.trie.max() < tables.trie.shape[0]
        assert tables.phrase.max() < tables.phrase.shape[0] < 2_000
        assert tables.opening.max() < tables.opening.shape[0]
        assert tables.substring.max() < tables.substring.shape[0]


def test_broken_lexicon_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("version = 1\n[paper]\n")
    with pytest.raises(DataError, match=r"mine\.toml.*authors"):
        load_lexicon(path)
    path.write_text("= =")
    with pytest.raises(DataError, match=r"mine\.toml"):
        load_lexicon(path)


TEXTS = ["", "hello world", "naïve café — 東京 2024\n\n  def f(x):\n    return x", "a" * 1_000]


def test_chars_over_four() -> None:
    assert token_counter("chars/4").count(TEXTS).tolist() == [len(text) // 4 for text in TEXTS]


@pytest.mark.parametrize("name", ["llama-like", "tekken"])
def test_bundled_tokenizers(name: str) -> None:
    pytest.importorskip("mistral_common")
    counter = token_counter(name)
    counts = counter.count(TEXTS)
    assert counts.dtype == np.int64
    assert counts[0] == 0
    assert counts[1] in (2, 3)
    assert "mistral-common" in counter.identity
    # tokens cover the text: none stands for more than a few dozen characters
    assert all(len(text) / 64 <= count <= 4 * len(text) for text, count in zip(TEXTS, counts, strict=True))


def test_tekken_equals_its_own_loader() -> None:
    tekken = pytest.importorskip("mistral_common.tokens.tokenizers.tekken")
    import mistral_common

    path = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
    theirs = tekken.Tekkenizer.from_file(str(path))
    texts = [*TEXTS, "<s>[INST] hi [/INST]", "x" * 10, "\u0000\ufffd"]
    counts = token_counter("tekken").count(texts)
    assert counts.tolist() == [len(theirs.encode(text, bos=False, eos=False)) for text in texts]


def test_tokenizer_json_by_path(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"hello": 0, "world": 1, "?": 2}, unk_token="?")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    counter = token_counter(path)
    assert counter.count(["hello world", "hello there you"]).tolist() == [2, 3]
    assert counter.identity.startswith("tokenizer.json/sha256 ")


def test_sentencepiece_by_path(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    import mistral_common

    bundled = Path(mistral_common.__file__).parent / "data" / "tokenizer.model.v1"
    path = tmp_path / "mine.model"
    path.write_bytes(bundled.read_bytes())
    counter = token_counter(path)
    assert counter.name == "mine.model"
    assert counter.count(TEXTS).tolist() == token_counter("llama-like").count(TEXTS).tolist()


def test_bad_tokenizers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="llama-like"):
        token_counter("lama")
    with pytest.raises(ParameterError, match="chars/4"):
        token_counter("reported")
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"no": "tokenizer"}))
    pytest.importorskip("tokenizers")
    with pytest.raises(DataError, match=r"tokenizer\.json"):
        token_counter(path)
    model = tmp_path / "bad.model"
    model.write_bytes(b"nothing")
    pytest.importorskip("sentencepiece")
    with pytest.raises(DataError, match=r"bad\.model"):
        token_counter(model)
