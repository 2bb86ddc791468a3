"""From a journal to a model that serves: what is kept, what is learnt from it, and how it comes into use."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from clairvoyant_lab.cli.app import app
from clairvoyant_lab.errors import (
    DataError,
    ParameterError,
    SchemaMismatchError,
    StarvedDatasetError,
    UpstreamStatusError,
)
from clairvoyant_lab.journal import JournalRow, JournalWriter
from clairvoyant_lab.journal_reader import read_journal
from clairvoyant_lab.predictor import LengthPredictor
from clairvoyant_lab.predictor.ngrams import RICH_HASH, SHAPE_NAMES, scan_many
from clairvoyant_lab.serving import ProxyClient
from clairvoyant_lab.serving.recorder import journal_schema
from clairvoyant_lab.serving.retrain import retrain_from_journal
from clairvoyant_lab.serving.threaded import ThreadedStack

KINDS = [
    ("What is {}?", 40),
    ("Explain {} in three paragraphs, step by step.", 400),
    ("Write a long story about {}", 1500),
]
THINGS = ["a queue", "the sea", "rust", "time", "a lighthouse", "jazz", "the moon", "bread", "an owl", "rain"]


def asked(n: int, seed: int = 5) -> list[tuple[str, int]]:
    """Prompts whose words tell the length, in random order."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        text, tokens = KINDS[int(rng.integers(3))]
        out.append((text.format(THINGS[int(rng.integers(10))]), int(tokens * rng.uniform(0.7, 1.3))))
    return out


def row(k: int, prompt: str, tokens: int, *, words: bool = True, **more: Any) -> JournalRow:
    features, ids = scan_many([prompt])
    fields: dict[str, Any] = {
        "request_id": f"r{k}",
        "arrival_unix_s": 1000.0 + k,
        "path": "/v1/completions",
        "outcome": "done",
        "status": 200,
        "origin": "model",
        "stated": None,
        "p_short": 0.5,
        "p_medium": 0.0,
        "p_long": 0.5,
        "predicted_tokens": 50.0,
        "expected_service_s": 1.0,
        "token_cap": None,
        "prompt_tokens": 3,
        "response_tokens": tokens,
        "wait_s": 0.5,
        "first_token_s": 0.6,
        "service_s": 2.0,
        "promoted": 0,
        "position": 1,
        "policy": "sjf",
        "model": "some-model",
        "stream": 0,
        "features": features[0, :19].astype("<f4").tobytes(),
        "ngrams": ids[0].astype("<i4").tobytes() if words else None,
        "surface": features[0, 19:].astype("<f4").tobytes() if words else None,
    }
    return JournalRow(**{**fields, **more})


def written(path: Path, rows: list[JournalRow], *, ngrams: bool = True) -> Path:
    writer = JournalWriter(path, journal_schema(ngrams=ngrams))
    for item in rows:
        writer.put(item)
    writer.close()
    assert writer.failure is None
    return path


def random_p(n: int) -> list[float]:
    return np.random.default_rng(11).random(n).tolist()


# -- the whole way ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a proxy with the default model, n-grams kept, after 150 requests."""
    path = tmp_path_factory.mktemp("lived") / "log.sqlite"
    options = {"profile": "m1", "speedup": 20000.0}
    with ThreadedStack(emulator=options, journal=str(path), journal_ngrams=True) as stack:
        with ProxyClient(stack.url) as client:
            for prompt, tokens in asked(150):
                client.chat(prompt, emulate={"tokens": tokens})
            client.chat("Tell me the code 482913 of CANARYBIRD", emulate={"tokens": 20})
            client.chat("What is in these?", n=3, emulate={"tokens": 20})
        stack.call(stack.proxy.stop(grace_s=1.0))
    return path


def test_a_lived_journal_gives_a_model_that_a_running_proxy_takes(lived: Path, tmp_path: Path) -> None:
    new = tmp_path / "own.onnx"
    report = retrain_from_journal(lived, new, hold_out=0.4, n_estimators=10)
    assert (report.kind, report.in_use) == ("rich", "sharegpt-rich")
    assert report.way in report.ranking_in_training
    assert report.why.startswith("151 of 151 requests have n-grams and surface counts; ")
    assert report.ranking_new is not None
    assert report.ranking_new > 0.9
    assert report.verdict in ("better", "no clear difference")
    loaded = LengthPredictor.load(new)
    assert (loaded.info.schema, loaded.info.hyper["way"]) == ("rich", report.way)
    prompt = "Write a long story about a fox"
    with ThreadedStack(emulator={"profile": "m1", "speedup": 20000.0}, model="sharegpt") as stack:
        with ProxyClient(stack.url) as client:
            before = client.chat(prompt, emulate={"tokens": 5})
            said = CliRunner().invoke(app, ["swap", str(new), "--proxy", stack.url, "--json"])
            assert said.exit_code == 0, said.output
            after = client.chat(prompt, emulate={"tokens": 5})
            assert after.p_long == pytest.approx(loaded.p_long(prompt), abs=1e-5)
            assert after.p_long != before.p_long
            broken = tmp_path / "broken.onnx"
            broken.write_bytes(new.read_bytes()[: new.stat().st_size // 2])
            with pytest.raises((ParameterError, UpstreamStatusError), match="cannot be read"):
                client.swap_model(str(broken))
            again = client.chat(prompt, emulate={"tokens": 5})
            assert again.p_long == after.p_long
            client.roll_back_model()
            assert client.chat(prompt, emulate={"tokens": 5}).p_long == before.p_long
        assert stack.proxy.forecaster.failures == 0


def test_no_prompt_text_stands_in_a_journal_with_n_grams(lived: Path) -> None:
    for file in lived.parent.iterdir():
        held = file.read_bytes()
        for text in (b"CANARYBIRD", b"canarybird", b"lighthouse", b"482913"):
            assert text not in held
    journal = read_journal(lived)
    place = next(i for i, n in enumerate(journal.columns["response_tokens"]) if n == 20)
    surface = np.frombuffer(journal.columns["surface"][place], "<f4")
    assert surface.size == len(SHAPE_NAMES)
    known = scan_many(["Tell me the code 482913 of CANARYBIRD"])[0][0, 19:]
    numbers = [SHAPE_NAMES.index(name) for name in ("largest_number", "last_number")]
    assert surface[numbers].tolist() == [480_000.0, 480_000.0], "numbers of a prompt to two digits only"
    assert np.array_equal(np.delete(surface, numbers), np.delete(known, numbers))
    ids = np.frombuffer(journal.columns["ngrams"][place], "<i4")
    assert np.array_equal(ids, np.sort(scan_many(["Tell me the code 482913 of CANARYBIRD"])[1][0]))
    binary = [name for name, cells in journal.columns.items() if isinstance(cells[0], bytes)]
    assert binary == ["features", "ngrams", "surface"]
    words = {cell for cells in journal.columns.values() for cell in cells if isinstance(cell, str)}
    assert not any("canary" in word.lower() or "queue" in word for word in words)
    assert "surface" not in journal.to_frame()


def test_several_answers_at_once_teach_nothing_of_one(lived: Path) -> None:
    rows = read_journal(lived).training_set()
    assert len(rows) == 151
    assert rows.dropped == {"no features": 1}
    assert rows.has_words.all()


# -- older files ------------------------------------------------------------------------------------

FORMAT_1 = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);"
    "CREATE TABLE requests (number INTEGER PRIMARY KEY, request_id TEXT NOT NULL,"
    " arrival_unix_s REAL NOT NULL,"
    " path TEXT NOT NULL, outcome TEXT NOT NULL, status INTEGER NOT NULL, origin TEXT NOT NULL, stated TEXT,"
    " p_short REAL NOT NULL, p_medium REAL NOT NULL, p_long REAL NOT NULL, predicted_tokens REAL NOT NULL,"
    " expected_service_s REAL NOT NULL, token_cap INTEGER, prompt_tokens INTEGER, response_tokens INTEGER,"
    " wait_s REAL NOT NULL, first_token_s REAL, service_s REAL, promoted INTEGER NOT NULL,"
    " position INTEGER NOT NULL, policy TEXT NOT NULL, model TEXT NOT NULL, stream INTEGER NOT NULL,"
    " features BLOB, ngrams BLOB);"
)


def old_journal(path: Path, n: int) -> Path:
    """A journal as format 1 had it, with n-grams and no surface counts."""
    schema = journal_schema()
    with sqlite3.connect(path) as connection:
        connection.executescript(FORMAT_1)
        meta = {
            "format_version": "1",
            "schema_name": schema.name,
            "schema_hash": schema.hash,
            "feature_names": json.dumps(schema.feature_names),
            "short_below": "200",
            "long_from": "800",
            "created_unix_s": "1.0",
        }
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        for k, (prompt, tokens) in enumerate(asked(n)):
            cells = astuple(row(k, prompt, tokens))[:-1]
            marks = ", ".join("?" * (len(cells) + 1))
            connection.execute(f"INSERT INTO requests VALUES ({marks})", (k + 1, *cells))
    connection.close()
    return path


def test_an_old_journal_is_read_as_it_is_and_grows_when_it_is_continued(tmp_path: Path) -> None:
    path = old_journal(tmp_path / "old.sqlite", 60)
    before = path.read_bytes()
    rows = read_journal(path).training_set()
    assert (len(rows), rows.has_words.sum(), rows.words_hash) == (60, 0, None)
    report = retrain_from_journal(path, tmp_path / "a.onnx", n_estimators=5)
    assert report.kind == "lexical"
    assert "none of its 60 requests has n-grams and surface counts" in report.why
    assert path.read_bytes() == before, "who reads changes nothing"
    more = asked(60, seed=6)
    written(path, [row(100 + k, prompt, tokens) for k, (prompt, tokens) in enumerate(more)])
    written(path, [row(200, "What is time?", 30, words=False)], ngrams=False)
    journal = read_journal(path)
    assert (len(journal), journal.meta["format_version"], journal.meta["words_hash"]) == (121, "2", RICH_HASH)
    assert journal.columns["surface"][:60] == [None] * 60
    assert journal.summary()["with_ngrams"] == 60
    rows = journal.training_set()
    assert rows.has_words.tolist() == [False] * 60 + [True] * 60 + [False]
    report = retrain_from_journal(path, tmp_path / "b.onnx", n_estimators=5)
    assert (report.kind, report.n_train + report.n_held_out) == ("rich", 60)


def test_a_later_format_and_other_n_grams_are_not_written_into(tmp_path: Path) -> None:
    path = written(tmp_path / "j.sqlite", [row(0, "What is time?", 30)])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = 'feedbeef' WHERE name = 'words_hash'")
    connection.close()
    with pytest.raises(SchemaMismatchError, match=f"feedbeef.*{RICH_HASH}"):
        JournalWriter(path, journal_schema(ngrams=True))
    JournalWriter(path, journal_schema()).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '3' WHERE name = 'format_version'")
    connection.close()
    with pytest.raises(SchemaMismatchError, match="format 3; this version writes 2"):
        JournalWriter(path, journal_schema())


def test_a_damaged_cell_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "j.sqlite", [row(k, "What is time?", 30) for k in range(3)])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE requests SET surface = x'0000' WHERE number = 2")
    connection.close()
    with pytest.raises(DataError, match="row 1, column 'surface': has 2 bytes where 56 belong"):
        read_journal(path).training_set()


# -- what is chosen, and what is refused ---------------------------------------------------------------


def test_auto_takes_rich_where_the_journal_can_teach_it_and_says_why(tmp_path: Path) -> None:
    texts = asked(90)
    some = [row(k, prompt, tokens, words=k >= 85) for k, (prompt, tokens) in enumerate(texts)]
    path = written(tmp_path / "some.sqlite", some)
    report = retrain_from_journal(path, tmp_path / "a.onnx", n_estimators=5)
    assert (report.kind, report.way) == ("lexical", None)
    assert report.why.startswith("of its 5 requests with n-grams the first 4 are to learn from")
    with pytest.raises(StarvedDatasetError, match="let the proxy serve more, or retrain with kind lexical"):
        retrain_from_journal(path, tmp_path / "b.onnx", kind="rich")
    rich = written(tmp_path / "all.sqlite", [row(k, *text) for k, text in enumerate(texts)])
    report = retrain_from_journal(rich, tmp_path / "c.onnx", n_estimators=5)
    assert report.kind == "rich"
    assert report.why.startswith("90 of 90 requests have n-grams and surface counts; the words of sharegpt")
    assert LengthPredictor.load(tmp_path / "c.onnx").info.schema == "rich"
    assert retrain_from_journal(rich, tmp_path / "d.onnx", kind="lexical", n_estimators=5).why == "asked for"
    assert LengthPredictor.load(tmp_path / "d.onnx").info.schema == "lexical-19"


def test_what_cannot_be_learnt_from_names_the_remedy(tmp_path: Path) -> None:
    short = written(tmp_path / "short.sqlite", [row(k, "What is time?", 30) for k in range(40)])
    with pytest.raises(StarvedDatasetError, match=r"0 of those are .*let the proxy serve more"):
        retrain_from_journal(short, tmp_path / "a.onnx")
    plain = written(tmp_path / "plain.sqlite", [row(k, *t, words=False) for k, t in enumerate(asked(40))])
    with pytest.raises(DataError, match=r"none of its 40 .*proxy --journal-ngrams"):
        retrain_from_journal(plain, tmp_path / "a.onnx", kind="rich")
    for wrong, field in (
        ({"kind": "richer"}, "kind"),
        ({"hold_out": 1.0}, "hold_out"),
        ({"base": "nothing-of-the-kind"}, "model"),
        ({"base": "sharegpt"}, "base"),
    ):
        full = written(tmp_path / f"{field}.sqlite", [row(k, *t) for k, t in enumerate(asked(60))])
        with pytest.raises(ParameterError, match=field):
            retrain_from_journal(full, tmp_path / "a.onnx", **wrong)
    with pytest.raises(ParameterError, match="its folder does not exist"):
        retrain_from_journal(plain, tmp_path / "no" / "a.onnx")
    with pytest.raises(ParameterError, match=r"ends in \.onnx"):
        retrain_from_journal(plain, tmp_path / "a.bin")
    assert not list(tmp_path.glob("*.onnx"))


def test_words_learnt_from_the_same_requests_are_no_base(tmp_path: Path) -> None:
    path = written(tmp_path / "j.sqlite", [row(k, *text) for k, text in enumerate(asked(90))])
    first = retrain_from_journal(path, tmp_path / "own.onnx", base=None, n_estimators=5)
    assert first.way == "own"
    with pytest.raises(ParameterError, match="learnt its words from requests of the same time"):
        retrain_from_journal(path, tmp_path / "again.onnx", base=tmp_path / "own.onnx")
    later = [row(k, *text, arrival_unix_s=5000.0 + k) for k, text in enumerate(asked(60, seed=8))]
    next_one = written(tmp_path / "later.sqlite", later)
    report = retrain_from_journal(
        next_one, tmp_path / "next.onnx", base=tmp_path / "own.onnx", n_estimators=5
    )
    assert report.kind == "rich"
    if report.way != "own":
        learnt = LengthPredictor.load(tmp_path / "next.onnx").info.hyper["words_learnt_unix_s"]
        assert learnt == [1000.0, 1071.0]


# -- better, worse, or noise ----------------------------------------------------------------------------


def report_of(tmp_path: Path, rows: list[JournalRow]) -> Any:
    path = written(tmp_path / "j.sqlite", rows)
    return retrain_from_journal(path, tmp_path / "new.onnx", kind="lexical", n_estimators=20)


def test_retraining_learns_what_the_traffic_shows_and_compares_on_the_tail(tmp_path: Path) -> None:
    p = random_p(360)
    report = report_of(tmp_path, [row(k, *text, p_long=p[k]) for k, text in enumerate(asked(360))])
    assert (report.n_train, report.n_held_out) == (288, 72)
    assert report.ranking_new == 1.0
    assert report.ranking_in_use is not None
    assert 0.25 < report.ranking_in_use < 0.75
    assert (report.better, report.verdict, report.in_use) == (True, "better", "some-model")
    assert report.ranking_gain == pytest.approx(report.ranking_new - report.ranking_in_use)
    new = LengthPredictor.load(tmp_path / "new.onnx")
    assert new.p_long("Write a long story about a word") > 0.8 > 0.2 > new.p_long("What is a word?")
    assert {"ranking_new_interval_low", "ranking_gain_interval_low", "advice"} <= set(report.summary())


def test_a_model_that_is_as_good_or_worse_is_not_advised(tmp_path: Path) -> None:
    texts = asked(240)
    perfect = [row(k, *text, p_long=text[1] / 2000) for k, text in enumerate(texts)]
    same = report_of(tmp_path, perfect)
    assert (same.better, same.verdict) == (False, "no clear difference")
    assert "do not swap" in same.advice
    # from the tail on, what was long is short, and the model in use knows
    turned = [(text, 30 if tokens > 800 else 1200 if tokens < 200 else tokens) for text, tokens in texts]
    rows = perfect[:192] + [row(k, *turned[k], p_long=turned[k][1] / 2000) for k in range(192, 240)]
    (tmp_path / "j.sqlite").unlink()
    worse = report_of(tmp_path, rows)
    assert (worse.better, worse.verdict) == (False, "worse")


def test_few_long_answers_on_the_tail_prove_nothing(tmp_path: Path) -> None:
    texts = asked(120)
    tail = [("Write a long story about rain", 1500)] * 3 + [("What is rain?", 30)] * 21
    rows = [row(k, *text, p_long=0.5) for k, text in enumerate([*texts[:96], *tail])]
    report = report_of(tmp_path, rows)
    assert (report.n_short, report.n_long, report.better) == (21, 3, None)
    assert report.verdict == "too few to compare"
    assert report.ranking_new == 1.0


def test_the_comparison_is_made_under_the_caps_and_only_where_a_model_was_asked(tmp_path: Path) -> None:
    texts = asked(150)
    rows = [row(k, *text, p_long=text[1] / 2000) for k, text in enumerate(texts[:120])]
    for k, (prompt, tokens) in enumerate(texts[120:], start=120):
        if tokens < 200:  # a cap that no long answer fits in: P(Long) was 0 for the model in use
            rows.append(row(k, prompt, tokens, p_long=0.0, token_cap=500))
        else:
            rows.append(row(k, prompt, tokens, p_long=tokens / 2000))
    for k in range(150, 170):  # clients that said "short" and got 1,500 tokens
        rows.append(
            row(k, "Write a long story about rain", 1500, p_long=0.0, origin="stated", stated="short")
        )
    report = report_of(tmp_path, rows)
    assert report.n_train == 136
    assert report.n_held_out == 14
    assert (report.ranking_new, report.ranking_in_use) == (1.0, 1.0)


def test_the_command_says_no_with_exit_code_1_and_what_to_do(tmp_path: Path) -> None:
    rows = [row(k, *text, p_long=text[1] / 2000) for k, text in enumerate(asked(120))]
    path = written(tmp_path / "j.sqlite", rows)
    new = str(tmp_path / "new.onnx")
    half = ["retrain", str(path), new, "--hold-out", "0.5", "--json"]
    said = CliRunner().invoke(app, half)
    assert said.exit_code == 1
    assert "do not swap" in said.stderr
    record = json.loads(said.stdout)
    assert (record["kind"], record["verdict"]) == ("rich", "no clear difference")
    said = CliRunner().invoke(app, [*half, "--kind", "rich", "--base", "none"])
    assert json.loads(said.stdout)["way"] == "own"
    said = CliRunner().invoke(app, [*half, "--kind", "best"])
    assert (said.exit_code, "auto, lexical, rich" in said.stderr) == (2, True)
