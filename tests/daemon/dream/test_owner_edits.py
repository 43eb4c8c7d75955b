"""The owner's word about what is forgotten: a line written by hand lifts it; and what an agent is shown meanwhile."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.cli import main
from daemon.dream.consolidation import consolidate
from daemon.dream.run import Mode
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.searching import searched_in
from daemon.workspace.stores import Store, utc_now
from state.crystals.crystal import Origin
from state.document.document import parse
from state.document.sections import SectionName
from state.forgetting.cutting import Cut
from state.forgetting.known import Target, spans
from state.stores.crystals.search import search
from state.stores.erasing.intent import finish, intend
from state.stores.erasing.plan import Erasure
from tests.daemon.upkeep.test_stays_forgotten import LEARNT, REST, SAID, SECRET, bury, by_note
from tests.support.committing import added, dreamt, write
from tests.support.working import document, noted, texts_of, working


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with working(tmp_path / "w") as opened:
        noted(opened, "Bello")
        yield opened


def by_hand(store: Store, line: str) -> None:
    write(store.workspace, lambda text: added(text, line))


def bond(store: Store) -> list[str]:
    part = parse(document(store)).section(SectionName.BOND)
    return [block.text for block in part.lines] if part else []


def dreamt_again(store: Store) -> None:
    noted(store, "The importer fails on empty rows")
    dreamt(store)


def test_a_line_that_the_owner_writes_lifts_it_and_stays(store: Store) -> None:
    noted(store, SECRET)
    dreamt(store)
    forget(store, ForgetRequest(SECRET), utc_now())
    by_hand(store, f"Do not forget that {SECRET}.")
    dreamt_again(store)
    assert bond(store) == [f"Do not forget that {SECRET}."]
    assert not store.crystals.forgotten.tombstones()
    by_note(store, 1)
    assert spans(" ".join(texts_of(store)), LEARNT)


def test_it_is_lifted_by_the_dream_and_by_nothing_before_it(store: Store) -> None:
    dreamt(store)
    bury(store)
    by_hand(store, SECRET)
    consolidate(store, utc_now())
    noted(store, "Rex sleeps all day")
    dreamt(store, mode=Mode.DRY)
    assert store.crystals.forgotten.tombstones()
    dreamt(store)
    assert not store.crystals.forgotten.tombstones()


def test_what_the_owner_writes_beside_the_sections_says_so_as_well(store: Store) -> None:
    dreamt(store)
    bury(store)
    store.workspace.document.write_text(f"{document(store)}\n## My own\n\n- {SECRET}\n", encoding="utf-8")
    dreamt_again(store)
    assert not store.crystals.forgotten.tombstones()
    assert SECRET in document(store)


def test_so_does_a_memory_from_before_the_first_dream(store: Store) -> None:
    bury(store)
    store.workspace.document.write_text(f"# My notes\n\n{SECRET}\n", encoding="utf-8")
    dreamt(store)
    assert not store.crystals.forgotten.tombstones()
    assert any(spans(text, LEARNT) for text in texts_of(store))


def test_a_line_that_stood_there_already_does_not_lift_it(store: Store) -> None:
    noted(store, SECRET)
    dreamt(store)
    assert SECRET in document(store)
    bury(store)  # and the forgetting went no further
    dreamt_again(store)
    assert store.crystals.forgotten.tombstones()


def test_while_a_forgetting_is_unfinished_nothing_is_lifted(store: Store) -> None:
    dreamt(store)
    bury(store)
    intend(store.connection, Erasure((Target.of(SECRET),), Cut.SENTENCES))
    by_hand(store, SECRET)
    dreamt_again(store)
    assert store.crystals.forgotten.tombstones()
    finish(store.connection)


def test_a_line_by_hand_is_not_lost_when_it_leaves_for_want_of_room(store: Store) -> None:
    dreamt(store)
    bury(store)
    # What the owner wrote leaves last; of that the newcomers take turns.
    line = f"Do not forget that {SECRET}{', as on every shelf' * 18}"
    for hall in range(3):
        for at in range(12):
            by_hand(store, f"Shelf {hall}{at:02} holds {' '.join(f'box{hall}{at:02}{n:02}' for n in range(33))}")
        if hall == 1:
            by_hand(store, line)
        noted(store, f"Hall {hall} of the archive has a new door", importance=1.0)
        dreamt(store)
    assert line not in bond(store)
    kept = search(searched_in(store), "harbour crane 4711", utc_now()).hits[0].crystal
    assert (kept.text, kept.origin) == (line, Origin.LINE)


def shown(store: Store, capsys: pytest.CaptureFixture[str]) -> str:
    """What an agent is given: nothing of it was left out for want of room."""
    assert main(["bootstrap", "--workspace", str(store.workspace.root), "--json"]) == 0
    ready = json.loads(capsys.readouterr().out)
    assert ready["left_out"] == 0
    return str(ready["text"])


def test_the_bootstrap_does_not_show_such_a_note(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    noted(store, SECRET, SAID)
    assert SECRET in shown(store, capsys)
    bury(store)
    text = shown(store, capsys)
    assert not spans(text, LEARNT)
    assert "Bello" in text
    assert REST in text
