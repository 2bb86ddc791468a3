"""Files as they come: whole, cut, empty, mixed in encoding, and of every shape we claim to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clairvoyant_lab.corpora.conversations import Conversation, Drop, ReadReport, Reason, pairs_of
from clairvoyant_lab.corpora.readers import read_records
from clairvoyant_lab.corpora.shapes import Columns, guess_columns
from clairvoyant_lab.corpora.sources import SOURCES, open_source
from clairvoyant_lab.errors import DataError, MissingExtraError, ParameterError

ROWS = [{"prompt": f"question {i} é", "response": f"answer {i}, with a comma"} for i in range(5)]


def pairs(source, turns="first", **options):
    report = ReadReport()
    found = list(pairs_of(open_source(source, **options), turns, report))
    assert report.rows_read == report.kept + sum(report.dropped.values())
    assert report.kept == len(found)
    return found, report


def write(path: Path, file_format: str, rows=ROWS) -> Path:
    import pandas as pd

    if file_format == "json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    elif file_format == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    elif file_format == "csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        pd.DataFrame(rows).to_parquet(path)
    return path


@pytest.mark.parametrize("file_format", ["json", "jsonl", "csv", "parquet"])
@pytest.mark.parametrize("as_upload", [False, True])
def test_every_format_gives_the_same_records(tmp_path: Path, file_format: str, as_upload: bool) -> None:
    path = write(tmp_path / f"mine.{file_format}", file_format)
    source = path.read_bytes() if as_upload else path
    assert list(read_records(source, name=path.name)) == ROWS
    assert list(read_records(path.read_bytes(), name="no suffix")) == ROWS


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 400), bom=st.booleans())
def test_a_cut_json_array_gives_its_whole_items_and_says_so(cut: int, bom: bool) -> None:
    text = json.dumps(ROWS, ensure_ascii=False, indent=1).encode()
    data = (b"\xef\xbb\xbf" if bom else b"") + text[: max(len(text) - cut, 0)]
    ends = [len(json.dumps(ROWS[: i + 1], ensure_ascii=False, indent=1).encode()) - 2 for i in range(5)]
    whole = sum(end <= len(text) - cut for end in ends)
    if whole == 0:
        with pytest.raises(DataError):
            list(read_records(data, "json"))
        return
    records = read_records(data, "json")
    assert list(records) == ROWS[:whole]
    assert bool(records.notes) == (cut > 0)
    if cut:
        assert f"{whole:,} whole items" in records.notes[0]
        assert f"byte {len(data):,}" in records.notes[0]


@pytest.mark.parametrize("indent", [None, 1])
def test_records_inside_an_object(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "mine.json"
    text = json.dumps({"version": 1, "data": ROWS}, indent=indent)
    path.write_text(text)
    assert list(read_records(path)) == ROWS
    path.write_text(text[:-80])
    records = read_records(path)
    assert list(records) == ROWS[: len(list(records))]
    assert "cut off" in records.notes[0]


def test_json_lines_under_the_name_json(tmp_path: Path) -> None:
    rows = [{**row, "padding": "x" * 9_000, "conversations": []} for row in ROWS]
    path = tmp_path / "mine.json"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert list(read_records(path)) == rows


def test_empty_files_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"  \n", b"\xef\xbb\xbf"):
        path = tmp_path / "empty.json"
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"empty\.json: the file is empty"):
            read_records(path)
    path.write_bytes(b"[]")
    with pytest.raises(DataError, match="no records"):
        pairs(path)
    with pytest.raises(DataError, match="no such file"):
        read_records(tmp_path / "gone.json")
    with pytest.raises(DataError, match="no such file"):
        open_source(str(tmp_path / "gone.json"))
    with pytest.raises(ParameterError, match=r"shargpt.*sharegpt"):
        open_source("shargpt")


def test_garbage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(b"[nonsense")
    with pytest.raises(DataError, match=r"bad\.json"):
        list(read_records(path))
    path = tmp_path / "bad.parquet"
    path.write_bytes(b"PAR1 but not really")
    with pytest.raises(DataError, match=r"bad\.parquet"):
        list(read_records(path))
    with pytest.raises(ParameterError, match="xlsx"):
        read_records(b"x,y\n1,2", "xlsx")
    with pytest.raises(DataError, match="first line"):
        list(read_records(b"a,a\n1,2\n", "csv"))


@pytest.mark.parametrize("file_format", ["json", "jsonl", "csv"])
def test_mixed_encoding_is_repaired_and_counted(tmp_path: Path, file_format: str) -> None:
    path = write(tmp_path / f"mixed.{file_format}", file_format,
                 [{"prompt": "UTF-8 here", "response": "caf__"}, *ROWS])  # fmt: skip
    path.write_bytes(path.read_bytes().replace(b"caf__", b"caf\xe9\x80"))
    records = read_records(path)
    found = list(records)
    assert found[0]["response"] == "café€"
    assert found[1:] == ROWS
    assert records.notes == ["2 bytes were not UTF-8; they were read as Windows-1252"]


def test_utf_16_is_read_by_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "wide.json"
    path.write_text(json.dumps(ROWS, ensure_ascii=False), encoding="utf-16")
    assert list(read_records(path)) == ROWS


def test_a_broken_line_is_dropped_with_a_reason(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", "jsonl")
    path.write_text(path.read_text() + '{"prompt": "cut he', encoding="utf-8")
    found, report = pairs(path)
    assert len(found) == 5
    assert report.dropped == {Reason.UNKNOWN_SHAPE.value: 1}
    path = write(tmp_path / "mine.csv", "csv")
    path.write_text(path.read_text() + "only one cell\n", encoding="utf-8")
    found, report = pairs(path)
    assert (len(found), report.rows_read) == (5, 6)


# ------------------------------------------------------------------ upstream schemas

SHAREGPT = [
    {"id": "abc_0", "conversations": [{"from": "system", "value": "be kind"},
                                      {"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"},
                                      {"from": "user", "value": "more"}, {"from": "chatgpt", "value": "ok"}]},
    {"id": "abc_1", "conversations": [{"from": "human", "value": "later"}, {"from": "bing", "value": "yes"}]},
    {"id": "def_0", "conversations": [{"from": "gpt", "value": "I start"}, {"from": "human", "value": "q"},
                                      {"from": "bard", "value": "a"}]},
    {"id": "ghi_0", "conversations": []},
    {"id": "jkl_0", "conversations": [{"from": "human", "value": "no answer"}]},
    {"id": "mno_0", "conversations": [{"from": "human", "value": "  "}, {"from": "gpt", "value": "a"}]},
    {"id": "pqr_0", "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": ""}]},
]  # fmt: skip


def test_sharegpt_first_and_all_turns(tmp_path: Path) -> None:
    path = write(tmp_path / "s.json", "json", SHAREGPT)
    for options in ({"name": "sharegpt", "path": path}, {"name": path}):
        name = options.pop("name")
        found, report = pairs(name, **options)
        assert [(p.prompt, p.response, p.group) for p in found] == [("hi", "hello", "abc")]
        assert report.dropped == {
            Reason.CONTINUATION.value: 1,
            Reason.ANSWER_FIRST.value: 1,
            Reason.NO_TURNS.value: 1,
            Reason.NO_ANSWER.value: 1,
            Reason.EMPTY_PROMPT.value: 1,
            Reason.EMPTY_ANSWER.value: 1,
        }
        found, report = pairs(name, "all", **options)
        assert [(p.prompt, p.turn, p.first) for p in found] == [
            ("hi", 0, True), ("more", 1, False), ("later", 0, False), ("q", 0, False),
        ]  # fmt: skip
        assert {p.group for p in found[:3]} == {"abc"}


OASST_FLAT = [
    {"message_id": "p1", "parent_id": None, "message_tree_id": "p1", "text": "root", "role": "prompter",
     "lang": "en", "rank": None, "deleted": False},
    {"message_id": "a1", "parent_id": "p1", "message_tree_id": "p1", "text": "worse", "role": "assistant",
     "lang": "en", "rank": 1, "deleted": False},
    {"message_id": "a2", "parent_id": "p1", "message_tree_id": "p1", "text": "best", "role": "assistant",
     "lang": "en", "rank": 0, "deleted": False},
    {"message_id": "p2", "parent_id": "a2", "message_tree_id": "p1", "text": "follow-up", "role": "prompter",
     "lang": "en", "rank": None, "deleted": False},
    {"message_id": "a3", "parent_id": "p2", "message_tree_id": "p1", "text": "deep", "role": "assistant",
     "lang": "en", "rank": 0, "deleted": False},
    {"message_id": "q1", "parent_id": None, "message_tree_id": "q1", "text": "hola", "role": "prompter",
     "lang": "es", "rank": None, "deleted": False},
    {"message_id": "r1", "parent_id": None, "message_tree_id": "r1", "text": "alone", "role": "prompter",
     "lang": "en", "rank": None, "deleted": False},
]  # fmt: skip
OASST_TREE = [
    {"message_tree_id": "p1", "prompt": {"message_id": "p1", "text": "root", "role": "prompter", "lang": "en",
     "replies": [{"message_id": "a2", "text": "best", "role": "assistant", "lang": "en", "rank": 0,
                  "replies": [{"message_id": "p2", "text": "follow-up", "role": "prompter", "lang": "en",
                               "replies": [{"message_id": "a3", "text": "deep", "role": "assistant",
                                            "lang": "en", "replies": []}]}]},
                 {"message_id": "a1", "text": "worse", "role": "assistant", "lang": "en", "rank": 1,
                  "replies": []}]}},
]  # fmt: skip


@pytest.mark.parametrize("rows", [OASST_FLAT, OASST_TREE])
def test_oasst_tree(tmp_path: Path, rows: list) -> None:
    path = write(tmp_path / "oasst.jsonl", "jsonl", rows)
    for options in ({"name": "oasst1", "path": path}, {"name": path}):
        name = options.pop("name")
        found, _ = pairs(name, **options)
        assert [(p.prompt, p.response) for p in found] == [("root", "best")]
        found, report = pairs(name, "all", **options)
        assert [(p.prompt, p.response, p.group) for p in found] == [
            ("root", "best", "p1"), ("follow-up", "deep", "p1"),
        ]  # fmt: skip
        if rows is OASST_FLAT:
            assert report.dropped == {Reason.LANGUAGE.value: 1, Reason.NO_ANSWER.value: 1}


def test_oasst_rows_apart_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "oasst.jsonl", "jsonl", [*OASST_FLAT, OASST_FLAT[1]])
    with pytest.raises(DataError, match=r"row 7.*sort the file"):
        pairs("oasst1", path=path)


UPSTREAM = {
    "lmsys": [
        {"conversation_id": "c1", "model": "vicuna-13b", "conversation": [{"content": "q", "role": "user"},
         {"content": "a", "role": "assistant"}], "turn": 1, "language": "English", "redacted": False},
        {"conversation_id": "c2", "model": "koala-13b", "conversation": [{"content": "¿q?", "role": "user"},
         {"content": "a", "role": "assistant"}], "turn": 1, "language": "Spanish", "redacted": False},
    ],
    "wildchat": [
        {"conversation_hash": "c1", "model": "gpt-4", "turn": 1, "language": "English", "toxic": False,
         "conversation": [{"content": "q", "role": "user", "turn_identifier": 1},
                          {"content": "a", "role": "assistant", "turn_identifier": 1}]},
    ],
    "alpaca": [{"instruction": "Do", "input": "this", "output": "a", "text": "### Instruction: Do"},
               {"instruction": "q", "input": "", "output": "a", "text": ""}],
    "codealpaca": [{"instruction": "q", "input": "", "output": "a"}],
    "dolly": [{"instruction": "q", "context": "about it", "response": "a", "category": "open_qa"}],
    "cnn_dailymail": [{"article": "Long text.", "highlights": "a", "id": "42"}],
}  # fmt: skip
PROMPTS = {
    "lmsys": ["q"], "wildchat": ["q"], "alpaca": ["Do\n\nthis", "q"], "codealpaca": ["q"],
    "dolly": ["q\n\nabout it"], "cnn_dailymail": ["Summarize the following article:\n\nLong text."],
}  # fmt: skip


@pytest.mark.parametrize("name", UPSTREAM)
def test_upstream_schema(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / f"{name}.jsonl", "jsonl", UPSTREAM[name])
    found, report = pairs(name, path=path)
    assert [p.prompt for p in found] == PROMPTS[name]
    assert {p.response for p in found} == {"a"}
    if name == "lmsys":
        assert report.dropped == {Reason.LANGUAGE.value: 1}
    by_guess, _ = pairs(path)
    assert {p.response for p in by_guess} == {"a"}


def test_the_hub_says_what_to_install_or_accept() -> None:
    try:
        import datasets  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtraError, match=r"accept the licence of lmsys.*clairvoyant-lab\[hub\]"):
            open_source("lmsys")
    assert all(SOURCES[name].gated for name in ("lmsys", "wildchat"))


def test_chat_shapes_of_apis(tmp_path: Path) -> None:
    rows = [
        {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [
            {"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}]},
            {"role": "assistant", "content": "a"}]},
        {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": None}]},
        {"messages": json.dumps([{"role": "user", "content": "as text"}, {"role": "model", "content": "a"}])},
        {"messages": 7},
        "not a record",
    ]  # fmt: skip
    found, report = pairs(write(tmp_path / "chat.jsonl", "jsonl", rows))
    assert [p.prompt for p in found] == ["look", "as text"]
    assert report.dropped == {Reason.EMPTY_ANSWER.value: 1, Reason.UNKNOWN_SHAPE.value: 2}


def test_own_columns(tmp_path: Path) -> None:
    rows = [{"frage": "q", "antwort": "a", "thread": "t"}]
    path = write(tmp_path / "mine.csv", "csv", rows)
    with pytest.raises(DataError, match=r"mine\.csv.*frage, antwort"):
        pairs(path)
    found, _ = pairs(path, columns={"prompt": "frage", "response": "antwort", "group": "thread"})
    assert (found[0].prompt, found[0].group) == ("q", "t")
    with pytest.raises(ParameterError, match="prompt"):
        open_source(path, columns={"promt": "frage"})
    with pytest.raises(DataError, match="'fragen'"):
        pairs(path, columns={"prompt": "fragen", "response": "antwort"})


def test_counts_without_texts_are_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n1,374,44\n2,396,109\n3,1,-5\n4,,9\n")
    found, report = pairs(path)
    assert [(p.prompt_tokens, p.response_tokens) for p in found] == [(374, 44), (396, 109)]
    assert report.rows_read == 4


def test_guessing_prefers_a_chat_over_columns() -> None:
    record = {"id": "1", "prompt": "p", "output": "o", "messages": [{"role": "user", "content": "q"}]}
    assert guess_columns(record) == Columns(chat="messages", key="id")
    assert guess_columns({"Instruction": "i", "Input": "x", "Output": "o"}) == Columns(
        prompt="Instruction", context="Input", response="Output"
    )


@given(
    st.lists(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.text(max_size=3)))),
    st.sampled_from(["first", "all"]),
)
def test_rows_read_are_kept_or_dropped(chats: list, turns: str) -> None:
    from clairvoyant_lab.corpora.conversations import Turn

    report = ReadReport()
    stream = [Conversation(str(i), str(i), tuple(Turn(*t) for t in chat)) for i, chat in enumerate(chats)]
    found = list(pairs_of([*stream, Drop("x", Reason.UNKNOWN_SHAPE)], turns, report))  # type: ignore[arg-type]
    assert report.kept == len(found)
    assert report.rows_read == report.kept + sum(report.dropped.values())
    if turns == "first":
        assert report.rows_read == len(chats) + 1
    assert all(pair.prompt.strip() and pair.response.strip() for pair in found)
