"""Which crystal holds now: pairs as rows, chains, circles, what the owner takes back, and the search over them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from state.changes.change import Change
from state.crystals.crystal import Crystal, Origin, Source
from state.crystals.supersession import Cause, Supersession
from state.document.operations import Why
from state.document.sections import SectionName
from state.dream import RESTORE, Dream
from state.search.ranking import Filters
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.search import Searched
from state.stores.crystals.search import search as find
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import transaction
from state.stores.history.lineage import Lineage
from state.trust import Trust
from tests.support.in_memory import BagOfWords
from tests.support.versions import added, line

NOW = datetime(2026, 3, 12, tzinfo=UTC)
PORTS = ["The cache listens on port 5433", "Port 6000 is the one of the cache since Monday", "Now it is 7000 there"]


def said(text: str, days_ago: float, place: int = 0) -> Crystal:
    at = NOW - timedelta(days=days_ago)
    return Crystal(text, Origin.SCRATCH, at, trust=Trust.AGENT, source=Source("notes.md", place + 1, place + 1, ""))


def pair(older: int, newer: int, **changes: object) -> Supersession:
    made = Supersession(older, newer, NOW, Trust.AGENT, Cause.DREAM)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def known(crystals: Crystals) -> Supersessions:
    """Three values of one port, the newest last, each superseding the one before."""
    crystals.learn([said(text, 9 - 4 * at, at) for at, text in enumerate(PORTS)])
    supersessions = Supersessions(crystals)
    with transaction(crystals.connection):
        assert supersessions.record([pair(1, 2), pair(2, 3)]) == 2
    return supersessions


def test_of_a_chain_the_last_one_holds_wherever_one_looks(known: Supersessions) -> None:
    for key in (1, 2, 3):
        found = known.among([key])
        assert [(one.older, one.newer) for one in found.pairs] == [(1, 2), (2, 3)]
        assert found.current == {1: 3, 2: 3}


def test_who_goes_back_to_an_old_value_makes_it_current(known: Supersessions, crystals: Crystals) -> None:
    crystals.learn([said(PORTS[0], 0, 7)])
    assert known.among([2]).current == {2: 1}
    with transaction(crystals.connection):
        known.record([pair(3, 1)])
    assert known.among([2]).current == {2: 1, 3: 1}


def test_what_the_owner_takes_back_is_not_found_again(known: Supersessions, crystals: Crystals) -> None:
    with transaction(crystals.connection):
        assert known.undo(2, 1, NOW)
        assert not known.undo(1, 2, NOW)
        assert known.record([pair(1, 2)]) == 0
    assert known.among([1]).pairs == ()
    assert known.among([2]).current == {2: 3}
    with transaction(crystals.connection):
        assert known.record([pair(1, 2, cause=Cause.OWNER)]) == 1
    assert known.among([1]).current == {1: 3, 2: 3}


def search(crystals: Crystals, query: str, **filters: object) -> list[tuple[str, str]]:
    """The texts that are found, each with the text that supersedes it."""
    embedder = BagOfWords()
    crystals.vectors.embed_pending(embedder)
    wanted = Filters(**filters)  # type: ignore[arg-type]
    hits = find(Searched(crystals, embedder), query, NOW, limit=3, filters=wanted, everything=True).hits
    return [(hit.crystal.text, hit.superseded_by.text if hit.superseded_by else "") for hit in hits]


@pytest.mark.usefixtures("known")
def test_a_search_brings_the_current_value_also_in_words_that_the_query_lacks(crystals: Crystals) -> None:
    crystals.learn(said(f"The cache was cleared for the {number}th time", 1, 20 + number) for number in range(9))
    found = search(crystals, "which port listens for the cache")
    assert found[0] == (PORTS[2], "")
    assert (PORTS[0], PORTS[2]) in found


@pytest.mark.usefixtures("known")
def test_as_of_a_day_what_came_later_is_neither_found_nor_told_of(crystals: Crystals) -> None:
    found = search(crystals, "which port listens for the cache", until=NOW - timedelta(days=4))
    assert found == [(PORTS[1], ""), (PORTS[0], PORTS[1])]
    found = search(crystals, "which port listens for the cache", until=NOW - timedelta(days=8))
    assert found == [(PORTS[0], "")]


def test_the_owner_s_word_on_two_crystals_outlasts_what_is_found_of_them_later(
    known: Supersessions, crystals: Crystals
) -> None:
    with transaction(crystals.connection):
        known.record([pair(3, 2, cause=Cause.OWNER, trust=Trust.OWNER)])  # an edit is taken back: 2 holds again
    for _ in range(2):
        assert known.among([3]).current == {1: 2, 3: 2}
        with transaction(crystals.connection):
            known.record([pair(2, 3)])  # and a dream says otherwise afterwards


LINE = "The cache listens on port 5433"


@pytest.mark.parametrize(
    ("cited", "new", "changes", "superseded"),
    [
        ([LINE], "The cache listens on port 6000", {}, {LINE}),
        (
            ["As I said, the port of the cache: 5433"],
            "Port 6000",
            {},
            {LINE, "As I said, the port of the cache: 5433"},
        ),
        # Each of several may have said something else; one that has the line's words and more says more.
        ([LINE.upper(), "Ada asks about the cache"], "Port 6000", {}, {LINE, LINE.upper()}),
        ([f"{LINE}, and Ada has a cat"], "Port 6000", {}, {LINE}),
        ([LINE], f"{LINE} since Monday", {}, set()),
        ([LINE], "Port 6000", {"fate": Why.MERGED}, {LINE}),
        ([LINE], "Port 6000", {"author": "extractive"}, {LINE}),
        ([LINE], "Port 6000", {"trust": Trust.OWNER}, set()),
        ([LINE], "Port 6000", {"days_ago": 20}, set()),
        ([LINE], "Port 6000", {"news": "Hormonal event: dopamine spike (achievement detected)."}, set()),
    ],
    ids=[
        "same",
        "alone",
        "several",
        "says more",
        "only adds",
        "merged",
        "a note",
        "the owner's",
        "said before",
        "hormones",
    ],
)
def test_what_a_model_s_operation_names_is_superseded_and_nothing_else(
    crystals: Crystals, cited: list[str], new: str, changes: dict[str, Any], superseded: set[str]
) -> None:
    notes = [replace(said(text, 9), trust=changes.get("trust", Trust.AGENT)) for text in cited]
    news = said(changes.get("news", new), changes.get("days_ago", 1))
    own = Crystal(LINE, Origin.LINE, NOW - timedelta(days=9), trust=changes.get("trust", Trust.AGENT))
    crystals.learn([*notes, news, own, wording := Crystal(new, Origin.LINE, NOW - timedelta(days=1))])
    lineage, supersessions = Lineage(crystals.connection), Supersessions(crystals)
    rests = tuple(one.id for one in notes)
    born = added(line("L1", SectionName.NICHE, LINE), evidence=rests)
    before = Dream(number=1, id="a", at=NOW, cause="dream", reason="", before="", after="", mood="", changes=born)
    gone, come = (
        line("L1", SectionName.NICHE, LINE, crystal=own.id),
        line("L2", SectionName.NICHE, new, crystal=wording.id),
    )
    dream = replace(
        before,
        number=2,
        id="b",
        changes=(Change(changes.get("fate", Why.REVISED), (gone,), (come,), (news.id,)),),
        author=changes.get("author", "openai/gpt"),
    )
    with transaction(crystals.connection):
        for one in (before, dream):
            lineage.record(one)
            supersessions.learn(one)
    rows = crystals.by_keys(range(1, 9))
    current = supersessions.among(rows).current
    assert {rows[old].text for old in current} == superseded
    assert set(current.values()) <= set(crystals.keys([wording.id]).values())


def test_a_restore_turns_around_what_the_owner_had_put_in_the_place_of_a_line(
    known: Supersessions, crystals: Crystals
) -> None:
    with transaction(crystals.connection):
        known.record([pair(1, 3, cause=Cause.OWNER, trust=Trust.OWNER, version=4)])
        back = added(line("L1", SectionName.NICHE, PORTS[0]), evidence=(crystals.by_keys([1])[1].id,))
        known.learn(
            Dream(number=5, id="e", at=NOW, cause=RESTORE, reason="", before="", after="", mood="", changes=back)
        )
    assert known.among([1]).current == {2: 1, 3: 1}
