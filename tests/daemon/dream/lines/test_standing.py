"""MEMORY.md line by line, with what is known of each line, in as many queries as for one."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.config.settings import load
from daemon.dream.changes import open_changes
from daemon.dream.lines.change import LineWish, change
from daemon.dream.lines.standing import SHOWN_CHARACTERS, Line, StandingLines, shown, standing_lines
from daemon.dream.restore import restore
from daemon.dream.run import Mode, dream_now
from daemon.workspace.stores import Store, utc_now
from graphs.review import LineAction
from state.crystals.supersession import Cause, Supersession
from state.document.document import SectionName
from state.dream import Decision, Reason
from state.scratch import Note
from state.stores.crystals.supersessions import Supersessions
from state.trust import Trust
from tests.support.committing import added
from tests.support.revising import revises
from tests.support.working import SECRET, working

TEA, COFFEE = "Ada prefers tea in the morning", "Ada prefers coffee in the morning"
PORT, NEW_PORT = "The staging server listens on port 8080", "The staging server listens on port 9090"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with working(tmp_path / "agent") as store:
        dreamt(store, TEA, PORT)
        yield store


def dreamt(store: Store, *notes: str) -> None:
    for note in notes:
        store.notes.inbox.append(Note(note, utc_now(), 0.8))
    dream_now(store, Reason.MANUAL, Mode.AUTO)


def document(store: Store) -> str:
    return store.workspace.document.read_text(encoding="utf-8")


def write(store: Store, text: str) -> None:
    store.workspace.document.write_text(text, encoding="utf-8")


def lines(store: Store, found: StandingLines | None = None) -> dict[str, Line]:
    found = found or standing_lines(store, utc_now())
    return {line.text: line for section in found.sections for line in section.lines}


def test_each_line_says_who_wrote_it_and_when(store: Store) -> None:
    write(store, added(document(store), "Ada's sister is called Grace"))
    found = standing_lines(store, utc_now() + timedelta(days=2))
    known = lines(store, found)
    assert (found.version, found.budget, found.characters) == (1, 8_000, len(document(store)))
    tea = known[TEA]
    assert (tea.id, tea.version, tea.author, tea.trust, tea.evidence) == ("L1", 1, "extractive", Trust.AGENT, 1)
    assert tea.age_days == 2.0
    mine = known["Ada's sister is called Grace"]
    assert (mine.id, mine.version, mine.author, mine.trust, mine.age_days) == ("", None, "owner", Trust.OWNER, None)
    dreamt(store, "Grace plays chess")
    assert lines(store)[mine.text].author == "owner"
    restore(store, 1)
    restore(store, 3)
    assert lines(store)["Grace plays chess"].author == "restore"


def test_the_file_is_shown_in_its_order_with_what_stands_outside(store: Store) -> None:
    write(store, f"# Mine\n\nabove\n\n{document(store)}\n## Also mine\n\n- below 📌\n")
    found = standing_lines(store, utc_now())
    shown_lines = [(one.name, one.heading, [line.text for line in one.lines]) for one in found.sections if one.lines]
    assert shown_lines == [
        ("", "# Mine", ["above"]),
        ("Active Context", "## Active Context", [PORT, TEA]),
        ("", "## Also mine", ["below"]),
    ]
    assert lines(store)["below"].pinned
    assert len(found.sections) == 10  # the seven, the title, and the owner's two


def test_a_line_whose_ground_is_superseded_says_by_what_and_since_when(store: Store) -> None:
    dreamt(store, "Ada drinks water at noon")
    evidence = store.lineage.evidence()
    keys = store.crystals.keys([evidence["L1"][0], evidence["L3"][0]])
    older, newer = keys[evidence["L1"][0]], keys[evidence["L3"][0]]
    now = utc_now()
    Supersessions(store.crystals).record([Supersession(older, newer, now, Trust.OWNER, Cause.OWNER)])
    found = lines(store)
    assert found[TEA].superseded_by == "Ada drinks water at noon"
    assert found[TEA].superseded_at is not None
    assert (found[PORT].superseded_by, found[PORT].superseded_at) == ("", None)


def test_a_line_that_waits_to_be_changed_or_can_be_undone_says_which_change(store: Store) -> None:
    write(store, document(store).replace(PORT, f"{PORT} for now"))
    dreamt(store, "Grace plays chess")
    with revises({NEW_PORT: PORT, COFFEE: TEA}):
        store.config = load(None)
        dreamt(store, NEW_PORT, COFFEE)  # of a line by hand its owner is asked
    numbers = {one.decision: one.number for one, _ in open_changes(store)}
    found = lines(store)
    assert {text: line.waiting for text, line in found.items() if line.waiting} == {
        f"{PORT} for now": numbers[Decision.WAITING]
    }
    assert {text: line.applied for text, line in found.items() if line.applied} == {COFFEE: numbers[Decision.APPLIED]}


def test_no_secret_and_no_more_than_the_beginning_is_shown(store: Store) -> None:
    write(store, added(document(store), f"the token is {SECRET}, {'word ' * 400}"))
    (long,) = [line for line in lines(store).values() if "token" in line.text]
    assert SECRET not in long.text
    assert (len(long.text), long.cut) == (SHOWN_CHARACTERS, True)
    change(store, [LineWish(LineAction.DELETE, section=SectionName.BOND, expected=long.text)])
    assert "token" not in document(store)
    assert not any("token" in text for text in lines(store))
    assert shown(store, SECRET * 500)[0].count(SECRET) == 0


def test_pages_together_are_the_whole(store: Store) -> None:
    rows = "".join(f"- Shelf {number} holds boxes\n" for number in range(40))
    write(store, document(store).replace(f"- {PORT}\n", rows + f"- {PORT}\n"))
    whole = standing_lines(store, utc_now())
    assert whole.more == 0
    for limit in (1, 7, 50):
        start, together, headings = 0, list[Line](), list[str]()
        while True:
            page = standing_lines(store, utc_now(), start, limit)
            together += [line for section in page.sections for line in section.lines]
            headings += [section.heading for section in page.sections]
            start += limit
            if not page.more:
                break
        expected = [line for section in whole.sections for line in section.lines]
        assert [line.text for line in together] == [line.text for line in expected]
        assert list(dict.fromkeys(headings)) == [section.heading for section in whole.sections]
    assert standing_lines(store, utc_now(), 10**9, 10).sections == ()


def test_a_file_that_is_gone_is_read_from_the_last_version(store: Store) -> None:
    store.workspace.document.unlink()
    found = standing_lines(store, utc_now())
    assert (found.digest, len(found.problems)) == ("", 1)
    assert list(lines(store)) == [PORT, TEA]
