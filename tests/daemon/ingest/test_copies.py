"""Forks and copies of transcripts say nothing again, whichever is read first; what they add is new."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path

import pytest
import zstandard

from daemon.config.settings import Config
from daemon.ingest.agent_hooks import link
from daemon.ingest.transcripts import absorb_transcripts, transcript_files
from daemon.workspace.stores import Store, open_exclusive, utc_now
from state.stores.crystals.skills import latest_tasks
from state.stores.disk.workspace import Workspace
from state.trust import Trust

OLD, NEW = "Our staging host is called puffin-07.", "Our staging host is called heron-12 now."
TASK = "Every week: count the pallets and write to Hjalmar."
_FIRST = datetime(2026, 11, 2, 9, tzinfo=UTC)


def day(number: int) -> datetime:
    return _FIRST + timedelta(days=number)


def said_on(store: Store, text: str) -> tuple[int, int, int]:
    """The days on which a text was first and last said, as its crystal and its occurrences have them."""
    (crystal,) = [one for one in store.crystals.named(text) if one.text == text]
    times = [one.at for one in store.crystals.sources(crystal.id)]
    return (crystal.created_at - _FIRST).days, (min(times) - _FIRST).days, (max(times) - _FIRST).days


def read(store: Store, *paths: Path) -> None:
    for path in paths:
        assert absorb_transcripts(store, [path], utc_now()).problems == ()


def tasks(store: Store) -> list[tuple[str, int]]:
    return [(one.text, (one.at - _FIRST).days) for one in latest_tasks(store.crystals)]


def codex(
    folder: Path, name: str, begins: int, turns: Sequence[str], forks: str = "", *heads: str, source: object = "cli"
) -> Path:
    """A rollout: the owner and the agent speak in turns."""
    at = day(begins)

    def record(kind: str, seconds: int, **payload: object) -> str:
        time = (at + timedelta(seconds=seconds)).isoformat()
        return json.dumps({"timestamp": time, "type": kind, "payload": payload})

    def message(number: int, text: str) -> str:
        role, kind = [("user", "input_text"), ("assistant", "output_text")][number % 2]
        content = [{"type": kind, "text": text}]
        return record("response_item", number, type="message", role=role, content=content)

    head = {"id": name, "source": source} | ({"forked_from_id": forks} if forks else {})
    lines = [record("session_meta", 0, **head), *(record("session_meta", 0, id=one, source="cli") for one in heads)]
    path = folder / f"rollout-{name}.jsonl"
    path.write_text("\n".join([*lines, *(message(*turn) for turn in enumerate(turns))]) + "\n")
    return path


def prose(folder: Path, name: str, written: int, *blocks: str) -> Path:
    path = folder / name
    path.write_text("\n\n".join(blocks) + "\n")
    os.utime(path, (day(written).timestamp(),) * 2)
    return path


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_forks_say_nothing_again_whichever_is_read_first(store: Store, tmp_path: Path, order: Sequence[int]) -> None:
    parent = codex(tmp_path, "a", 0, [OLD, "Noted, puffin-07."])
    later = codex(tmp_path, "b", 7, [NEW, "Noted, heron-12."])
    fork = codex(tmp_path, "c", 14, [OLD, "Noted, puffin-07.", "Summarise the tickets.", "Three."], "a", "a")
    fork_of_fork = codex(tmp_path, "d", 21, [OLD, "Noted, puffin-07.", "Summarise the tickets.", "Four."], "c", "c")
    paths = (parent, later, fork, fork_of_fork)
    read(store, *(paths[place] for place in order))
    found = [said_on(store, text) for text in (OLD, NEW, "Summarise the tickets.", "Three.", "Four.")]
    assert found == [(0, 0, 0), (7, 7, 7), (14, 14, 14), (14, 14, 14), (21, 21, 21)]


def test_a_fork_that_stands_alone_keeps_its_turns_and_what_is_said_in_one_is_said(
    store: Store, tmp_path: Path
) -> None:
    read(store, codex(tmp_path, "c", 14, [OLD, "Noted."], "a"))
    assert said_on(store, OLD) == (14, 14, 14)
    read(store, codex(tmp_path, "d", 21, [OLD, "Noted.", OLD, "Again?"], "a"))
    assert said_on(store, OLD) == (14, 14, 21)


def test_a_parent_that_is_cut_or_goes_on_dates_what_it_has(store: Store, tmp_path: Path) -> None:
    fork = codex(tmp_path, "c", 14, ["One.", "Two.", "Three.", "Four.", "New in the fork.", "Well."], "a")
    read(store, codex(tmp_path, "a", 0, ["One.", "Two."]), fork)
    assert [said_on(store, text)[2] for text in ("Two.", "Three.", "New in the fork.")] == [0, 14, 14]
    read(store, codex(tmp_path, "a", 0, ["One.", "Two.", "Three.", "Four.", "Five."]))
    found = [said_on(store, text)[2] for text in ("Two.", "Three.", "Four.", "Five.", "New in the fork.")]
    assert found == [0, 0, 0, 0, 14]


def test_the_owners_words_in_the_fork_of_a_subagent_stay_the_owners(store: Store, tmp_path: Path) -> None:
    subagent = {"subagent": {"thread_spawn": {"parent_thread_id": "a"}}}
    read(store, codex(tmp_path, "a", 0, [OLD, "Noted."]))
    read(store, codex(tmp_path, "c", 14, [OLD, "Noted.", "Look at the logs.", "Done."], "a", source=subagent))
    assert said_on(store, OLD) == (0, 0, 0)
    assert [one.trust for one in store.crystals.named("Look at the logs.")] == [Trust.AGENT]


def test_a_task_is_counted_once_in_all_its_forks_and_each_time_that_it_is_given(store: Store, tmp_path: Path) -> None:
    paths = [codex(tmp_path, "1", 0, [TASK]), *(codex(tmp_path, str(one), one, [TASK], "1") for one in (2, 3))]
    read(store, codex(tmp_path, "4", 4, [TASK], "3"), *paths)
    assert tasks(store) == [(TASK, 0)]
    read(store, codex(tmp_path, "5", 5, [TASK]))
    assert sorted(tasks(store)) == [(TASK, 0), (TASK, 5)]


@pytest.fixture(params=["original first", "copy first"])
def turned(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "copy first")


CHAT = (OLD, "The ferry leaves at nine.", "Ingrid has the key of the depot.", "The pump is serviced in May.")


@pytest.mark.parametrize(
    ("copied", "added"),
    [
        (CHAT, ""),
        (CHAT[:2], ""),
        (("# A copy", *CHAT), ""),
        (("Kept for the archive.", *CHAT), "Kept for the archive."),
        ((*CHAT, "The bell is repaired."), "The bell is repaired."),
        ((*CHAT[:3], "The pump is serviced in June."), "The pump is serviced in June."),
    ],
)
def test_a_copied_chat_without_times_says_only_what_it_adds(
    store: Store, tmp_path: Path, copied: Sequence[str], added: str, *, turned: bool
) -> None:
    paths = [prose(tmp_path, "chat.md", 0, *CHAT), prose(tmp_path, "a-copy.md", 14, *copied)]
    read(store, codex(tmp_path, "b", 7, [NEW]), *(reversed(paths) if turned else paths))
    assert {said_on(store, text) for text in CHAT} == {(0, 0, 0)}
    assert not added or said_on(store, added) == (14, 14, 14)


def test_an_exported_chat_has_the_times_of_its_session(store: Store, tmp_path: Path, *, turned: bool) -> None:
    paths = [codex(tmp_path, "a", 0, CHAT), prose(tmp_path, "export.md", 14, *CHAT)]
    read(store, *(reversed(paths) if turned else paths))
    assert {said_on(store, text) for text in CHAT} == {(0, 0, 0)}


def test_an_edited_chat_says_only_what_is_new_and_a_grown_one_may_say_it_again(store: Store, tmp_path: Path) -> None:
    read(store, prose(tmp_path, "chat.md", 0, *CHAT))
    read(store, prose(tmp_path, "chat.md", 14, "Mended.", *CHAT))
    assert [said_on(store, text)[2] for text in (OLD, "Mended.")] == [0, 14]
    read(store, prose(tmp_path, "chat.md", 21, "Mended.", *CHAT, OLD))
    assert said_on(store, OLD) == (0, 0, 21)


def test_two_chats_that_begin_alike_are_two(store: Store, tmp_path: Path) -> None:
    read(store, prose(tmp_path, "one.md", 0, TASK, "Twelve pallets are there.", "Hjalmar knows."))
    read(store, prose(tmp_path, "two.md", 7, TASK, "Thirteen pallets are there.", "Nobody answered."))
    assert sorted(tasks(store)) == [(TASK, 0), (TASK, 7)]


def test_a_damaged_watermark_costs_what_it_knows_of_copies_and_no_more(store: Store, tmp_path: Path) -> None:
    read(store, codex(tmp_path, "a", 0, [OLD]), codex(tmp_path, "c", 14, [OLD, "Well."], "a"))
    broken = "json_set(record, '$.carry', '{torn')"
    store.connection.execute(f"UPDATE watermarks SET record = {broken}")  # noqa: S608 - a constant
    read(store, codex(tmp_path, "d", 21, [OLD, "Yes."], "a"), prose(tmp_path, "chat.md", 22, *CHAT))
    assert said_on(store, OLD) == (0, 0, 0)


def test_what_is_said_again_in_a_session_with_times_is_said_again(store: Store, tmp_path: Path) -> None:
    read(store, codex(tmp_path, "a", 0, [OLD]), codex(tmp_path, "b", 7, [NEW]), codex(tmp_path, "c", 14, [OLD]))
    assert [said_on(store, text) for text in (OLD, NEW)] == [(0, 0, 14), (7, 7, 7)]


def claude(folder: Path, session: str, texts: Sequence[str], **more: object) -> Path:
    path = folder / f"{session}.jsonl"
    records = [
        {
            "type": "user",
            "sessionId": session,
            "uuid": str(number),
            "parentUuid": None,
            **more,
            "timestamp": day(number).isoformat(),
            "message": {"role": "user", "content": text},
        }
        for number, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def test_a_resumed_session_under_a_new_id_says_nothing_again(store: Store, tmp_path: Path) -> None:
    read(store, claude(tmp_path, "a", [TASK, OLD]))
    read(store, claude(tmp_path, "b", [TASK, OLD, NEW], forkedFrom={"sessionId": "a", "messageUuid": "1"}))
    assert (tasks(store), said_on(store, OLD), said_on(store, NEW)) == ([(TASK, 0)], (1, 1, 1), (2, 2, 2))


def test_a_session_that_was_packed_says_what_was_not_read_before(here: Workspace, tmp_path: Path) -> None:
    path = claude(tmp_path, "a", [TASK, OLD])
    link(here, path, None)
    with open_exclusive(here, Config(), "test") as store:
        read(store, *transcript_files(here, Config()))
        content = claude(tmp_path, "a", [TASK, OLD, NEW]).read_bytes()
        (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(content))
        path.unlink()
        found = absorb_transcripts(store, transcript_files(here, Config()), utc_now())
        assert (found.turns, found.problems, said_on(store, NEW)) == (1, (), (2, 2, 2))
        assert absorb_transcripts(store, transcript_files(here, Config()), utc_now()).turns == 0
        path.write_bytes(content)  # it was resumed
        assert absorb_transcripts(store, transcript_files(here, Config()), utc_now()).turns == 0


def test_a_packed_session_whose_plain_form_nobody_named_is_not_read(here: Workspace, tmp_path: Path) -> None:
    path = claude(tmp_path, "a", [OLD])
    path.with_name("a.jsonl.zst").write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    (here.root / "transcripts").mkdir()
    (here.root / "transcripts" / "a.jsonl").symlink_to(path)
    assert transcript_files(here, Config()) == []


@pytest.mark.parametrize("content", [zstandard.compress(b"{}" * 9_000)[:-4], b"{}\n"])
def test_a_damaged_packed_session_is_named_and_others_are_read(store: Store, tmp_path: Path, content: bytes) -> None:
    damaged = tmp_path / "b.jsonl.zst"
    damaged.write_bytes(content)
    found = absorb_transcripts(store, [damaged, claude(tmp_path, "a", [OLD])], utc_now())
    assert (found.turns, [problem.split(":")[0] for problem in found.problems]) == (
        1,
        [f"{damaged} cannot be unpacked"],
    )
