"""What was forgotten is learnt from nobody, whoever says it again, until its owner says so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daemon import sessions
from daemon.api.access import LocalAccess
from daemon.api.operations.notes import working_memory_note
from daemon.api.operations.search import recall
from daemon.dream.consolidation import consolidate
from daemon.ingest.feelings import feel
from daemon.ingest.notes import absorb_notes
from daemon.ingest.transcripts import absorb_transcripts, transcript_files
from daemon.upkeep.forget import forget, unforget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.adoption import init_workspace
from daemon.workspace.status import status
from daemon.workspace.stores import Store, utc_now
from state.errors import UsageError
from state.forgetting.known import Target, spans
from state.scratch import Note
from state.signals.hormones import Feeling
from state.stores.database.standing import standing
from state.stores.database.tombstones import TombstoneStore
from state.stores.history.inbox import NoteInbox
from tests.daemon.sessions.test_for_dreams import asking
from tests.support.committing import dreamt
from tests.support.model_characters import good, inputs_of, prompt_of
from tests.support.scripted_model import ScriptedModel
from tests.support.working import add, document, noted, texts_of

SECRET = "the harbour crane is 4711"
SAID = f"Miez is a cat. By the way, {SECRET.title()}. Rex is a dog."
REST = "Miez is a cat. Rex is a dog."
LEARNT = [Target.of(SECRET)]


def bury(store: Store) -> None:
    TombstoneStore(store.connection).block(Target.of(SECRET), utc_now())


def transcript(store: Store, name: str, *texts: str) -> None:
    folder = store.workspace.root / "transcripts"
    folder.mkdir(exist_ok=True)
    rows = [json.dumps({"role": "user", "content": text}) + "\n" for text in texts]
    (folder / name).write_text("".join(rows), encoding="utf-8")


def ingested(store: Store) -> int:
    return absorb_transcripts(store, transcript_files(store.workspace, store.config), utc_now()).turns


def detail(store: Store) -> str:
    return standing(store.connection).detail


def told_anywhere(store: Store) -> list[str]:
    """Where the text stands: the tables, and the files of the workspace but for the transcripts."""
    connection = store.connection
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    found = [
        f"{table} {value}"
        for (table,) in tables
        for row in connection.execute(f"SELECT * FROM {table}")  # noqa: S608
        for value in row
        if isinstance(value, str) and spans(value.replace("\\n", " "), LEARNT)
    ]
    files = [store.workspace.document, *store.workspace.scratch.parent.rglob("*"), *store.workspace.state.rglob("*")]
    for path in files:
        if path.is_file() and not path.name.startswith("state.db"):
            content = path.read_bytes().decode("utf-8", "replace")
            found += [str(path)] * bool(spans(content.replace("\\n", " "), LEARNT))
    return found


# From both sides: before it is buried, and when it is lifted again


def by_transcript(store: Store, turn: int) -> None:
    transcript(store, f"chat{turn}.jsonl", SAID, "Bello is a dog too.")
    ingested(store)


def by_note(store: Store, turn: int) -> None:
    noted(store, f"{SAID} {turn}")
    absorb_notes(store, utc_now())


def by_session(store: Store, turn: int) -> None:
    add(store, SAID, f"s{turn}", now=utc_now(), importance=0.9)
    sessions.close_session(store.connection, f"s{turn}", utc_now())
    sessions.hand_over(store, utc_now())


def by_pass(store: Store, turn: int) -> None:
    transcript(store, f"pass{turn}.jsonl", SAID)
    noted(store, SAID)
    consolidate(store, utc_now())


def by_feeling(store: Store, turn: int) -> None:
    del turn
    for _ in range(4):
        feel(store, [Feeling.ACHIEVEMENT, Feeling.SOCIAL], f"Well done. {SECRET}.", utc_now(), utc_now())
    absorb_notes(store, utc_now())


def by_question(store: Store, turn: int) -> None:
    noted(store, f"Is it true that {SECRET}? {turn}")
    absorb_notes(store, utc_now())


def by_search(store: Store, turn: int) -> None:
    del turn
    recall(store, f"why is it that {SECRET}", agent="codex")


WAYS: list[Callable[[Store, int], None]] = [
    by_transcript,
    by_note,
    by_session,
    by_pass,
    by_feeling,
    by_question,
    by_search,
]


@pytest.mark.parametrize("way", WAYS)
def test_by_no_way_is_it_learnt_again_until_it_is_lifted(store: Store, way: Callable[[Store, int], None]) -> None:
    way(store, 1)
    assert told_anywhere(store)  # the way leads somewhere
    assert forget(store, ForgetRequest(SECRET), utc_now()).clean
    assert told_anywhere(store) == []
    way(store, 2)
    consolidate(store, utc_now())
    assert told_anywhere(store) == []
    is_left_out_at_once = way in (by_note, by_question)  # whoever notes it is told instead
    assert store.crystals.forgotten.withheld() >= (not is_left_out_at_once)
    assert unforget(store.connection, SECRET, utc_now()).lifted
    store.connection.execute("DELETE FROM feelings")  # it may spike again
    way(store, 3)
    assert told_anywhere(store)


def test_the_rest_of_what_is_said_is_learnt(store: Store) -> None:
    bury(store)
    for way in (by_transcript, by_note, by_session):
        way(store, 1)
    assert texts_of(store) == [REST, "Bello is a dog too.", f"{REST} 1", REST]


def test_a_note_is_wiped_out_of_its_files_and_a_late_write_is_found(store: Store) -> None:
    bury(store)
    store.notes.inbox.disk.make_folder(store.workspace.scratch.parent)
    store.workspace.scratch.write_text(f"- {SECRET}\n- Bello\n- {SAID}\n", encoding="utf-8")
    with store.workspace.scratch.open("ab", buffering=0) as agent:
        assert absorb_notes(store, utc_now()) == 2
        agent.write(b"- late\n")
    assert absorb_notes(store, utc_now()) == 1
    assert texts_of(store) == ["Bello", REST, "late"]
    assert store.notes.inbox.displaced()
    assert not any(b"4711" in path.read_bytes() for path in store.notes.inbox.files())
    assert [note.text for note in tuple(store.notes.each_pending())] == ["Bello", REST, "late"]
    assert absorb_notes(store, utc_now()) == 0  # what was filed again is known
    before = store.connection.total_changes
    assert absorb_notes(store, utc_now()) == 0
    assert store.connection.total_changes == before
    assert store.crystals.forgotten.withheld() == 2


@pytest.mark.parametrize(
    ("said", "rest"), [(f"{SAID} {REST}", f"{REST} {REST}"), (SAID, REST), (f"{SECRET}!", ""), (REST, REST)]
)
def test_a_note_is_written_without_it_and_whoever_notes_it_is_told(store: Store, said: str, rest: str) -> None:
    bury(store)
    with LocalAccess(store.workspace, store.config, "test") as access:
        if rest:
            assert working_memory_note.run(access, said).text == rest
            assert any("was left out of the note" in notice for notice in access.notices) is (said != rest)
        else:
            with pytest.raises(UsageError, match="all that the note says was forgotten by its owner"):
                working_memory_note.run(access, said)
    assert told_anywhere(store) == []
    assert [note.text for note in store.notes.each_pending()] == ([rest] if rest else [])


def test_words_that_name_what_a_note_replaces_are_left_out_too(store: Store) -> None:
    bury(store)
    written = store.notes.inbox.append(Note(REST, utc_now(), replaces=f"the line that {SECRET}"))
    assert (written.note.texts, written.forgotten) == ((REST,), True)
    assert told_anywhere(store) == []


def test_a_note_is_taken_also_if_nobody_can_say_what_is_forgotten(tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path)
    workspace.database.write_bytes(b"broken" * 999)
    assert NoteInbox(workspace).append(Note(SAID, utc_now())).note.text == SAID


def writing(text: str) -> Callable[[dict[str, Any], int], str]:
    """A model that knows it from elsewhere: it writes it beside what it was asked for, and names it as consumed."""

    def answer(request: dict[str, Any], number: int) -> str:
        reply = json.loads(good(request, number))
        names = [name for name, _, _ in inputs_of(request)]
        bad = {"op": "add", "section": "The Bond", "text": text, "cites": names[:1]}
        return json.dumps({**reply, "operations": [*reply.get("operations", ()), bad]})

    return answer


@pytest.mark.full
def test_a_model_that_writes_it_is_refused_that_line_alone_and_its_answer_is_kept_without(tmp_path: Path) -> None:
    with ScriptedModel(writing(f"Bello guards it: {SECRET}.")) as model, asking(tmp_path / "w", model) as store:
        noted(store, "Bello guards the harbour, and it has a crane.")
        assert "4711" in str(dreamt(store).refused) or "4711" in document(store)  # the other side: it gets somewhere
        assert forget(store, ForgetRequest(SECRET), utc_now()).clean
        noted(store, "Bello sleeps all day.", SAID)
        outcome = dreamt(store)
        assert "Bello sleeps all day." in document(store)
        assert "human veto" in [one.guard for one in outcome.refused]
        assert told_anywhere(store) == []
        assert all(not spans(prompt_of(request), LEARNT) for request in model.requests[1:])
        assert detail(store) == "1 text withheld: forgotten"  # the line; of the note its writer was told
        value = status(store.workspace, store.config, utc_now())
        assert value.withheld == 1
        assert ("human veto", "the owner had this forgotten") in [(r.guard, r.figures) for r in value.rejections]
