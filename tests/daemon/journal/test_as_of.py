"""MEMORY.md of an earlier moment: the file as it was, with what has gone since and what came later in its place."""

from collections.abc import Sequence
from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from daemon.journal.as_of import Fate, MemoryThen, memory_then, places_of
from daemon.workspace.stores import Store, utc_now
from state.document.document import Part, parse
from state.document.sections import SectionName
from tests.support.committing import dreamt

OWN = "## Mine\n\n- The bell is old\n\n## The Bond\n\n- Ada likes tea\n- Ben likes milk\n- Cleo likes water 📌\n"
NEW = (
    "## Mine\n\n- The bell is new\n\n## The Bond\n\n- Ada likes tea\n- Dan likes juice\n- Eve likes rum\n"
    "- Cleo likes water\n\n## Active Context\n\n- Ben likes milk\n"
)
NOTE = "The staging server listens on port 8080"


def saved(store: Store, text: str) -> datetime:
    """Have the owner save this file; return the moment after."""
    store.workspace.document.write_text(text, encoding="utf-8")
    store.memory.take_in()
    return utc_now()


def fates(then: MemoryThen, name: str) -> list[tuple[str, str]]:
    (section,) = (one for one in then.sections if name in {one.name, one.heading})
    return [(one.text, one.fate.value) for one in section.lines]


def test_a_line_stands_where_it_stood_and_a_later_one_below_the_line_that_it_follows(store: Store) -> None:
    before = utc_now()
    dreamt(store, NOTE)
    moment = saved(store, OWN)
    saved(store, NEW)
    then = memory_then(store, moment)
    assert (then.version, then.at and then.at < moment, then.more) == (2, True, 0)
    assert fates(then, "## Mine") == [("The bell is new", "later"), ("The bell is old", "gone")]
    assert fates(then, "The Bond") == [
        ("Ada likes tea", "stands"),
        ("Dan likes juice", "later"),
        ("Eve likes rum", "later"),
        ("Ben likes milk", "stands"),  # elsewhere today
        ("Cleo likes water", "stands"),
    ]
    assert fates(then, "Active Context") == []
    bond = next(one for one in then.sections if one.name == "The Bond")
    assert [one.pinned for one in bond.lines] == [False, False, False, False, True]
    assert all(
        one.id and one.born_at and (one.born_at < moment) is (one.fate is not Fate.LATER) for one in bond.lines
    )
    earliest = memory_then(store, before)
    assert (earliest.version, earliest.at) == (0, None)
    assert {one.fate for section in earliest.sections for one in section.lines} == {Fate.LATER}


def test_every_line_of_a_moment_is_shown_once_in_parts_of_any_size(store: Store) -> None:
    dreamt(store, NOTE)
    moment = saved(store, OWN)
    saved(store, NEW)
    whole = [line.text for section in memory_then(store, moment).sections for line in section.lines]
    for size in (1, 3):
        start, found, more = 0, list[str](), 1
        while more:
            part = memory_then(store, moment, start, size)
            found += [line.text for section in part.sections for line in section.lines]
            start, more = start + size, part.more
        assert found == whole


FILES = st.lists(
    st.permutations(range(4)).flatmap(lambda order: st.sampled_from([order[:n] for n in range(5)])), max_size=3
)


def file(*sections: Sequence[int]) -> Sequence[Part]:
    names = [f"## {name}" for name in SectionName]
    return parse(
        "".join(
            f"{name}\n\n" + "".join(f"- Line {n}\n" for n in lines)
            for name, lines in zip(names, sections, strict=False)
        )
    ).parts


@given(FILES, FILES)
def test_each_line_of_either_file_has_its_place(then: list[list[int]], now: list[list[int]]) -> None:
    """What stood is the old file in its order; a line of the new one alone comes as often as it is there."""
    old, new = file(*then), file(*now)
    places = [(place.block.key, place.fate) for place in places_of(old, new) if place.block is not None]
    was, stands = ([block.key for part in parts for block in part.lines] for parts in (old, new))
    assert [key for key, fate in places if fate is not Fate.LATER] == was
    assert sorted(key for key, fate in places if fate is Fate.LATER) == sorted(
        key for key in stands if key not in was
    )
    assert all((fate is Fate.GONE) is (key not in stands) for key, fate in places)
