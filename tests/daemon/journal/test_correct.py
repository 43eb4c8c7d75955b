"""What its owner calls wrong is put right where they say so, in no other place, and that is undone as a whole."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from daemon.dream.standing import standing_lines
from daemon.ingest.notes import absorb_notes
from daemon.journal.correct import put_right
from daemon.journal.mentions import mentions_of, shown_mention, subject_of
from daemon.journal.restore import restore
from daemon.journal.undo import undo
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.stores import Store, utc_now
from state.changes.statement import Likeness
from state.crystals.crystal import Crystal, Origin
from state.document.document import parse
from state.errors import ConflictError, NotFoundError, RejectedError, UsageError
from state.signals.curiosity import Cause
from state.trust import Trust
from tests.support.committing import dreamt
from tests.support.copies import copy_of
from tests.support.working import add, document, noted, standing, working

OFFICE, RIGHT = "Mara's office is in Hamburg-Altona.", "Mara's office is in Hamburg-Eppendorf."
BIRTHDAY = "Mara's birthday is 3 May"
BOTH = f"{BIRTHDAY}, and her office is in Hamburg-Altona."
TRUE = "Ingrid's office is in Hamburg-Altona too."
THEN = datetime(2026, 1, 2, tzinfo=UTC)
PAST = Crystal(OFFICE.rstrip("."), Origin.SESSION, THEN, session="talk", trust=Trust.OWNER)
NEAR = Crystal("Visit Mara in Altona …", Origin.LINE, THEN)
ASKED = "Who pays for Mara's office in Hamburg-Altona?"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("begun") / "agent"
    with working(root) as store:
        dreamt(store, OFFICE, TRUE, "Ada prefers tea")
        noted(store, BOTH, "Mara likes trams")
        absorb_notes(store, utc_now())
        store.crystals.learn([PAST, NEAR])
        add(store, OFFICE, now=utc_now())
        store.questions.raise_(ASKED, Cause.QUESTION, utc_now())
    return root


@pytest.fixture
def store(begun: Path, tmp_path: Path) -> Iterator[Store]:
    with working(copy_of(begun, tmp_path / "agent").root) as store:
        yield store


def line(store: Store, text: str) -> str:
    return standing(store)[text].id


def known(store: Store) -> dict[str, Any]:
    """All that is known of each line, crystal, note, question and memory of a session, but for the ids of lines."""
    lines = standing_lines(store, utc_now())
    keys = range(1, store.crystals.newest() + 1)
    current = store.supersessions.among(keys).current
    crystals = store.crystals.by_keys(keys)
    rows = store.connection.execute
    return {
        "lines": sorted(
            (section.name, one.text, one.pinned, one.author, one.trust, one.born_at, one.importance, one.version,
             one.evidence, one.superseded_by)
            for section in lines.sections
            for one in section.lines
        ),
        "crystals": {one.id: (one, key in current) for key, one in crystals.items()},
        "dreamt": rows("SELECT id, dreamt_in, merged_into FROM crystals ORDER BY key").fetchall(),
        "notes": [(one.note.text, one.note.at, one.note.importance) for one in store.notes.pending()],
        "tombstones": store.lineage.tombstones(),
        "questions": store.questions.all(),
        "items": rows("SELECT id, content, state, expires_at FROM items ORDER BY key").fetchall(),
        "proposals": store.proposals.all(),
    }  # fmt: skip


def assert_as_before(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Everything is as it was; what was made for the correction is there too, and holds no longer."""
    crystals = after.pop("crystals")
    assert {id_: crystals[id_] for id_ in before["crystals"]} == before["crystals"]
    made = {one.text: is_over for id_, (one, is_over) in crystals.items() if id_ not in before["crystals"]}
    assert made == dict.fromkeys(made, True)
    after["dreamt"] = [row for row in after["dreamt"] if row["id"] in before["crystals"]]
    assert {name: after[name] for name in after} == {name: before[name] for name in after}


def corrected(store: Store, name: str, right: str = "", *only: str) -> int:
    return put_right(store, subject_of(store, name), right, only)[0].number


def mentions(store: Store, name: str) -> dict[str, tuple[str, str, str]]:
    found = (shown_mention(store, one) for one in mentions_of(store, subject_of(store, name)))
    return {one.before + one.said + one.after: (one.kind, one.said, one.rest) for one in found if one.certain}


def current(store: Store, text: str) -> str:
    (row,) = store.connection.execute("SELECT key FROM crystals WHERE text = ?", (text,)).fetchone()
    over = store.supersessions.among([row]).current
    return store.crystals.by_keys([over[row]])[over[row]].text if row in over else ""


def test_what_says_the_same_is_found_with_what_else_it_says(store: Store) -> None:
    said = "her office is in Hamburg-Altona"
    assert mentions(store, line(store, OFFICE)) == {
        OFFICE: ("line", OFFICE.rstrip("."), ""),
        BOTH: ("note", said, f"{BIRTHDAY}."),
    }
    near = [one.text for one in mentions_of(store, subject_of(store, OFFICE)) if one.found.likeness is Likeness.NEAR]
    assert {NEAR.text, ASKED} == set(near)


@pytest.mark.parametrize("right", [RIGHT, ""])
def test_it_is_put_right_in_every_place_and_what_else_is_said_stays(store: Store, right: str) -> None:
    corrected(store, line(store, OFFICE), right)
    lines = [block.text for _, block in parse(document(store)).lines()]
    assert (OFFICE in lines, RIGHT in lines, TRUE in lines) == (False, bool(right), True)
    assert [one.note.text for one in store.notes.pending()] == ["Mara likes trams", f"{BIRTHDAY}."]
    now = right or f"It is not true that: {OFFICE}"
    assert {current(store, text) for text in (OFFICE, PAST.text, BOTH)} == {now}
    assert {current(store, text) for text in (TRUE, f"{BIRTHDAY}.", NEAR.text)} == {""}
    assert [row["state"] for row in store.connection.execute("SELECT state FROM items")] == ["hidden"]
    assert (store.workspace.root / "memory/scratch.md").read_text().count("Altona") == 0
    dreamt(store, "Grace plays chess")
    assert "Altona" not in document(store).replace(TRUE, "")


def test_only_what_is_ticked_changes(store: Store) -> None:
    id_ = line(store, OFFICE)
    corrected(store, id_, RIGHT, id_)
    assert [one.note.text for one in store.notes.pending()] == [BOTH, "Mara likes trams"]
    assert {current(store, text) for text in (BOTH, TRUE, NEAR.text)} == {""}


@pytest.mark.parametrize("right", [RIGHT, ""])
@pytest.mark.parametrize("every", [True, False])
def test_its_undo_is_neutral_and_so_is_that_of_the_undo(store: Store, right: str, *, every: bool) -> None:
    name = line(store, OFFICE)
    only = [one.places[0].id for one in mentions_of(store, subject_of(store, name))] if every else []
    before = known(store)
    version = corrected(store, name, right, *only)
    after = known(store)
    assert undo(store, [str(version)]).version is not None
    assert_as_before(before, known(store))
    assert undo(store, [str(version)]).version is None
    undo(store, [str(version + 1)])
    again = known(store)
    for one in (after, again):
        one["lines"] = [(*row[:5], *row[6:7]) for row in one["lines"]]
    assert again == after
    restore(store, version - 1)
    assert_as_before(before, known(store))


def test_a_memory_is_put_right_that_no_line_says(store: Store) -> None:
    ids = store.crystals.learn([Crystal("Grace's cat is called Miez", Origin.SESSION, utc_now())])
    before = known(store)
    version = corrected(store, ids[0].crystal.id, "Grace's cat is called Minka")
    assert current(store, "Grace's cat is called Miez") == "Grace's cat is called Minka"
    assert "Grace's cat is called Minka" in [one.note.text for one in store.notes.pending()]
    undo(store, [str(version)])
    assert_as_before(before, known(store))
    assert undo(store, [str(version)]).version is None


def test_what_somebody_else_says_of_themselves_is_another_thing(store: Store) -> None:
    said = [
        Crystal("I have a cat called Miez", Origin.SESSION, THEN, session=name, speaker=name, distinct=True)
        for name in ("Ada", "Bo")
    ]
    ada, bo = (one.crystal.id for one in store.crystals.learn(said))
    assert [one.places[0].id for one in mentions_of(store, subject_of(store, ada))] == [ada]
    assert [one.places[0].id for one in mentions_of(store, subject_of(store, bo))] == [bo]


def test_a_line_that_says_more_than_what_is_wrong_keeps_that(store: Store) -> None:
    dreamt(store)  # the note becomes a line
    corrected(store, line(store, OFFICE), RIGHT, line(store, BOTH))
    assert f"- {BIRTHDAY}. {RIGHT}\n" in document(store)
    assert f"- {OFFICE}\n" in document(store)


def test_what_was_called_wrong_can_be_forgotten(store: Store) -> None:
    corrected(store, line(store, OFFICE), RIGHT)
    receipt = forget(store, ForgetRequest("office"), utc_now())
    assert receipt.clean
    assert not [row for row in store.connection.iterdump() if "office" in row]
    dreamt(store, "Grace plays chess")


def test_what_cannot_be_put_right_changes_nothing(store: Store) -> None:
    id_ = line(store, OFFICE)
    before = document(store)
    for name, only, error in (
        ("L99", (), NotFoundError),
        (f"{id_}.2", (), NotFoundError),
        ("Nobody has said so", (), NotFoundError),
        ("office is in", (), UsageError),
        ("…", (), UsageError),
        (id_, ("0" * 12,), ConflictError),
    ):
        with pytest.raises(error):
            corrected(store, name, RIGHT, *only)
    store.workspace.document.write_text(before.replace(OFFICE, f"{OFFICE} 📌"))
    with pytest.raises(RejectedError, match="unpin it first"):
        corrected(store, id_, RIGHT)


def test_one_sentence_of_a_line_is_wrong(store: Store) -> None:
    dreamt(store, "The printer is of Ingrid. The door is green.")
    id_ = line(store, "The printer is of Ingrid. The door is green.")
    corrected(store, f"{id_}.2", "The door is blue.")
    assert "- The printer is of Ingrid. The door is blue.\n" in document(store)
    dreamt(store, "The door is green.")
    assert "green" not in document(store)
