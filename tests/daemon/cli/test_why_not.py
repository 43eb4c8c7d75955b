"""`dreamd why-not`: each way in which a thing is not in what an agent was given has its reason and its advice."""

import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.access import LocalAccess
from daemon.api.operations.search import memory_why_not
from daemon.config.paths import global_root
from daemon.config.settings import Config
from daemon.journal.why_not import MOST_REASONS, Absence, Answer, why_not
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.stores import Store, open_exclusive
from state.changes.change import Change
from state.crystals.crystal import Crystal, Origin
from state.crystals.supersession import Cause, Supersession
from state.document.operations import Action, Operation, Refusal, Why
from state.document.sections import SectionName
from state.dream import Dream, Proposed
from state.errors import NotFoundError
from state.scratch import Note, render_note
from state.stores.history.bootstraps import receipts
from state.trust import Trust
from tests.support.running import Caller, process
from tests.support.versions import added, line, pointer

SESSION = "0193f2a1-77aa-7bbb-8ccc-0123456789ab"
BOND = SectionName.BOND


def asked(here: Path, text: str, session: str = "") -> Answer:
    with LocalAccess(open_workspace(here), Config(), "test") as access:
        return memory_why_not.run(access, text=text, session=session)


def codes(here: Path, text: str) -> list[Absence]:
    return [one.code for one in asked(here, text).reasons]


def committed(store: Store, number: int, text: str, **changes: Any) -> None:
    """A version of this text."""
    values: dict[str, Any] = {"before": "", "after": text, "cause": "dream", "reason": "manual", "mood": "calm"}
    store.memory.commit(Dream(number=number, id=f"d{number}", at=datetime.now(UTC), **(values | changes)))


def read_long_ago(here: Path) -> None:
    """What stands there now was written before the last bootstrap, and whatever follows comes after it."""
    past = time.time() - 3_600
    os.utime(here / "MEMORY.md", (past, past))


def test_what_nobody_said_is_unknown_and_a_memory_that_nobody_read_says_so(dreamd: Caller, here: Path) -> None:
    (here / "MEMORY.md").write_text("- Ada prefers tea\n")
    assert codes(here, "parrot") == [Absence.UNKNOWN]
    answer = asked(here, "tea")
    assert answer.receipt is None
    assert answer.reasons[0].what.startswith("no agent has read this memory yet; it stands in line 1")
    dreamd("note", "-w", here, "Ada has a heron")
    assert asked(here, "heron").reasons[0].what.endswith("and no agent has read this memory yet")


def test_what_was_given_is_said_with_its_line_and_what_was_cut_with_what_to_set(dreamd: Caller, here: Path) -> None:
    rows = [
        "# Working Memory State",
        "",
        "## The Bond",
        "",
        *(f"- Ada likes the tea of sort {n}." for n in range(300)),
    ]
    (here / "MEMORY.md").write_text("\n".join(rows) + "\n")
    dreamd("bootstrap", here, "--agent", "codex", "--format", "hook", "--context-window", "64000")
    receipt = next(receipts(open_workspace(here)))
    last = 300 - receipt.cut.budget - 1
    (given,) = asked(here, f"tea of sort {last}.").reasons
    assert (given.code, given.line) == (Absence.GIVEN, last + 5)
    (cut,) = asked(here, f"tea of sort {last + 1}.").reasons
    assert (cut.code, cut.line) == (Absence.CUT, last + 6)
    assert "what stands above it had room in 4,000 characters" in cut.what
    assert cut.advice.startswith("set dream.context_window to 64000")
    ended = dreamd("why-not", "sort", last + 1, "-w", here)
    assert ended.status == 0
    assert ended.out.splitlines()[0].endswith("UTC by hook (codex): version 0")
    assert cut.advice in ended.out
    assert dreamd("why-not", "sort", last + 1, "-w", here, "--json").json["reasons"][0]["code"] == "cut"


def test_what_made_room_for_more_important_lines_is_named(dreamd: Caller, here: Path) -> None:
    for number in range(60):
        text = f"Ada likes the tea of sort {number}. " + f"It is said to be {'very ' * 16}good{number}."
        dreamd("note", "-w", here, text, "--importance", "0.9" if number % 3 == 0 else "0.4")
    dreamd("dream", here)
    dreamd("bootstrap", here, "--context-window", "1000")
    receipt = next(receipts(open_workspace(here)))
    assert len(receipt.dropped) > 10
    found = {number: asked(here, f"tea of sort {number}.").reasons[0] for number in range(60)}
    dropped = [one for one in found.values() if one.code is Absence.CUT]
    assert len(dropped) == len(receipt.dropped) + receipt.cut.budget - len(receipt.dropped)
    assert all("what is more important had room in 3,200 characters" in one.what for one in dropped)
    given = dreamd("bootstrap", here, "--context-window", "1000").out
    assert {n for n, one in found.items() if one.code is Absence.GIVEN} == {
        n for n in range(60) if f"tea of sort {n}." in given
    }


def test_what_came_after_the_agent_read_is_later(dreamd: Caller, here: Path) -> None:
    (here / "MEMORY.md").write_text("- Ada prefers tea\n")
    read_long_ago(here)
    dreamd("bootstrap", here)
    (here / "MEMORY.md").write_text("- Ada prefers tea\n- Ada has a parrot\n")
    ahead = time.time() + 60
    os.utime(here / "MEMORY.md", (ahead, ahead))
    with (here / "memory" / "scratch.md").open("a") as log:
        log.write(render_note(Note("Ada moved to Berlin", datetime.now(UTC) + timedelta(minutes=1))))
    assert codes(here, "parrot") == [Absence.LATER]
    assert codes(here, "Berlin") == [Absence.LATER]


def test_what_was_edited_by_hand_before_the_agent_read_is_told_as_it_was_given(dreamd: Caller, here: Path) -> None:
    dreamd("note", "-w", here, "Ada drinks green tea each morning")
    assert dreamd("dream", here).status == 0
    document = here / "MEMORY.md"
    document.write_text(document.read_text().replace("green tea", "black tea"))
    assert "black tea" in dreamd("bootstrap", here).out
    # Before a dream has read the edit, and after.
    for text in ("Ada has a parrot named Rio", "The kettle of house 4 is new"):
        assert codes(here, "black tea") == [Absence.GIVEN]
        found = asked(here, "green tea").reasons
        (left,) = [one for one in found if one.code in (Absence.CHANGED, Absence.DELETED)]
        assert left.what.startswith("its line left MEMORY.md")
        # Once a dream has read it, the owner's hand is what superseded the note.
        assert {one.code for one in found if one is not left} <= {Absence.CRYSTAL, Absence.SUPERSEDED}
        dreamd("note", "-w", here, text)
        assert dreamd("dream", here).status == 0
    assert codes(here, "parrot") == [Absence.LATER]


def test_a_note_was_given_or_waits_behind_newer_ones(dreamd: Caller, here: Path) -> None:
    for number in range(200):
        at = datetime.now(UTC) - timedelta(hours=10, minutes=-number)
        with (here / "memory" / "scratch.md").open("a") as log:
            log.write(render_note(Note(f"Ada saw {number} herons at the river this morning", at)))
    dreamd("bootstrap", here)
    notes = next(receipts(open_workspace(here))).notes
    assert codes(here, f"Ada saw {200 - notes} herons") == [Absence.GIVEN]
    (reason,) = asked(here, f"Ada saw {199 - notes} herons").reasons
    assert reason.code is Absence.NOTE_WAITS
    assert f"older than the {notes} for which there was room" in reason.what
    assert "dreamd dream" in reason.advice


def test_what_left_was_changed_or_waits_has_its_own_reason(dreamd: Caller, here: Path) -> None:
    tea = Operation(Action.ADD, BOND, "Ada drinks tea")
    proposed = Proposed(Operation(Action.ADD, BOND, "Ada owns a heron"), "dream.ask: all")
    refused = Refusal("numbers", "operation", "7 is not said", Operation(Action.ADD, BOND, "Ada has 7 kites"))
    kites = Crystal("Ada has 7 kites", Origin.SCRATCH, datetime.now(UTC))
    desk = Crystal("Ada keeps the old desk", Origin.LINE, datetime.now(UTC))
    led = pointer("L5", "Ada's desk", "old desk keeps", desk.id)
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        texts = ("Ada drinks tea", "Ada keeps the old desk", "Ada has a bicycle")
        drinks, keeps, has = (line(f"L{at}", BOND, text) for at, text in enumerate(texts, 1))
        born = added(drinks, keeps, has)
        committed(store, 1, "## The Bond\n\n- Ada drinks tea\n", operations=(tea,), changes=born)
        committed(
            store,
            2,
            "## The Bond\n\n- Ada drinks coffee\n",
            before="## The Bond\n\n- Ada drinks tea\n",
            changes=(
                Change(Why.REVISED, (drinks,), (line("L4", BOND, "Ada drinks coffee"),)),
                Change(Why.EVICTED, (replace(keeps, crystal=desk.id),), (led,)),
                Change(Why.DELETED, (has,)),
            ),
            crystals=(desk, kites),
            dreamt=(kites.id,),
            proposed=(proposed,),
            refused=(refused,),
        )
        store.ledger.begin("d2", "manual", datetime.now(UTC))
        store.ledger.end("d2", "committed", "", datetime.now(UTC), 2)
        store.ledger.reject("d2", (refused,), datetime.now(UTC))
    dreamd("bootstrap", here)
    changed, _ = asked(here, "Ada drinks tea").reasons
    assert (changed.code, changed.what) == (
        Absence.CHANGED,
        "its line left MEMORY.md in version 2: changed; it says now: Ada drinks coffee",
    )
    assert codes(here, "Ada drinks tea") == [Absence.CHANGED, Absence.CRYSTAL]
    assert asked(here, "l1").reasons[0] == changed
    (left, *_) = asked(here, "old desk").reasons
    assert (left.code, left.advice) == (Absence.EVICTED, "search for `old desk keeps`")
    assert codes(here, "bicycle") == [Absence.DELETED, Absence.CRYSTAL]
    (waits,) = asked(here, "heron").reasons
    assert (waits.code, "proposal 1" in waits.what) == (Absence.APPROVAL, True)
    no, crystal = asked(here, "7 kites").reasons
    assert (no.code, no.what) == (Absence.REFUSED, "a dream had it, and it was refused in version 2: 7 is not said")
    assert (crystal.code, "version 2 took in" in crystal.what) == (Absence.CRYSTAL, True)


def test_what_only_the_search_knows_is_ranked_and_another_value_named(here: Path) -> None:
    old = Crystal("The server listens at port 8080", Origin.SESSION, datetime(2026, 3, 1, tzinfo=UTC), importance=0.9)
    new = Crystal("The server listens at port 9090", Origin.SESSION, datetime(2026, 3, 2, tzinfo=UTC), importance=0.5)
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        store.crystals.learn([old, new])
    (reason,) = asked(here, "port 9090").reasons
    assert (reason.code, "2 of 2 by importance" in reason.what) == (Absence.CRYSTAL, True)
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        keys = store.crystals.keys([old.id, new.id])
        pair = Supersession(keys[old.id], keys[new.id], new.created_at, Trust.OWNER, Cause.OWNER)
        store.supersessions.record([pair])
    (reason,) = asked(here, "port 8080").reasons
    assert (reason.code, reason.what) == (Absence.SUPERSEDED, f"another value holds now: {new.text}")
    assert codes(here, "port server") == [Absence.SUPERSEDED, Absence.CRYSTAL]


def test_what_is_forgotten_is_not_said_again(dreamd: Caller, here: Path) -> None:
    dreamd("note", "-w", here, "the heron nests in March")
    assert dreamd("forget", "the heron nests in March", "-w", here, "--yes").status == 0
    answer = asked(here, "the heron nests in March")
    assert [one.code for one in answer.reasons] == [Absence.FORGOTTEN]
    assert "heron" not in dreamd("why-not", "the heron nests in March", "-w", here).out


@pytest.mark.usefixtures("own_folders")
def test_the_global_workspace_and_the_others_are_named(dreamd: Caller, tmp_path: Path) -> None:
    here = init_workspace(tmp_path / "project").root
    everywhere, other = init_workspace(global_root(os.environ)), init_workspace(tmp_path / "other")
    everywhere.document.write_text("## The Bond\n\n- Ada prefers tea.\n\n## Active Context\n\n- A heron elsewhere.\n")
    other.document.write_text("- Ada has a parrot.\n")
    dreamd("bootstrap", here)
    assert codes(here, "tea") == [Absence.GIVEN]
    (reason,) = asked(here, "heron").reasons
    assert (reason.code, "in Active Context" in reason.what) == (Absence.EVERYWHERE, True)
    (reason,) = asked(here, "parrot").reasons
    assert (reason.code, str(other.root) in reason.what, reason.text) == (Absence.ELSEWHERE, True, "")


@pytest.mark.usefixtures("own_folders")
def test_what_waits_in_the_global_workspace_says_so_in_a_project(dreamd: Caller, tmp_path: Path) -> None:
    here, everywhere = init_workspace(tmp_path / "project").root, init_workspace(global_root(os.environ))
    assert dreamd("note", "--global", "Ada lives in Graz").status == 0
    operation = Operation(Action.ADD, BOND, "Ada owns a heron")
    with open_exclusive(everywhere, Config(), "test") as store:
        proposed = (Proposed(operation, "dream.ask: all"),)
        committed(store, 1, "## The Bond\n\n- Ada drinks tea\n", proposed=proposed)
    (note,) = asked(here, "Graz").reasons
    assert (note.code, note.advice) == (Absence.NOTE_WAITS, "run 'dreamd dream --global'")
    assert "waits in the global workspace" in note.what
    (waits,) = asked(here, "heron").reasons
    assert (waits.code, waits.advice) == (Absence.APPROVAL, "'dreamd review --global' shows it")
    # Asked for in the global workspace itself, the commands name it as well.
    assert asked(everywhere.root, "heron").reasons[0].advice == waits.advice
    (unheard,) = asked(everywhere.root, "parrot").reasons
    assert unheard.advice == "'dreamd note --global' says it; or ask with other words of it"


def test_a_session_is_asked_for_by_its_id(here: Path) -> None:
    (here / "MEMORY.md").write_text("- Ada prefers tea\n")
    message = f'{{"hook_event_name": "SessionStart", "session_id": "{SESSION}"}}'.encode()
    assert process("bootstrap", str(here), "--format", "hook", stdin=message).status == 0
    assert process("bootstrap", str(here)).status == 0
    answer = asked(here, "tea", SESSION)
    assert answer.receipt is not None
    assert answer.receipt.session == SESSION
    with pytest.raises(NotFoundError, match="no bootstrap of this session"):
        asked(here, "tea", "1234")


def test_no_secret_is_told(dreamd: Caller, here: Path) -> None:
    (here / "MEMORY.md").write_text("- The root password is hunter2-Xy9!kQ.\n")
    dreamd("bootstrap", here)
    assert "hunter2" not in str(asked(here, "root password"))


@given(st.text(max_size=40) | st.text("\"'*():^-L19 NEAR", max_size=12))
def test_any_words_have_an_answer(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    here = init_workspace(tmp_path_factory.mktemp("here")).root
    (here / "MEMORY.md").write_text("- Ada prefers tea\n")
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        store.crystals.learn([Crystal("Ada prefers tea", Origin.SESSION, datetime(2026, 3, 1, tzinfo=UTC))])
        answer = why_not(store, text)
    assert 1 <= len(answer.reasons) <= MOST_REASONS
    assert all(one.what for one in answer.reasons)
