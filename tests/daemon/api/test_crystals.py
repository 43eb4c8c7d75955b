"""Crystals as a table: its parts make up the whole in order, and one crystal tells all that it has to do with."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.access import LocalAccess
from daemon.api.operations.crystals import CrystalTable
from daemon.api.operations.table import OPERATIONS
from daemon.config.settings import Config
from daemon.journal.crystal import CrystalDetails
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin, Source, fades_at
from state.crystals.supersession import Cause, Supersession
from state.document.sections import SectionName
from state.dream import Dream
from state.errors import NotFoundError, UsageError
from state.forgetting.known import Target
from state.stores.crystals.listing import Sort
from state.stores.database.connection import transaction
from state.stores.disk.workspace import Workspace
from state.stores.vectors.embedder import Unavailable
from state.trust import Trust
from tests.support.in_memory import BagOfWords
from tests.support.long_variants import examples, spread
from tests.support.versions import added, line, pointer

NOW = datetime.now(UTC)
KEY = "sk-ant-api03-" + "Zk3vQ9xW" * 11 + "AA"
ORIGINS, KINDS, TRUSTS = (Origin.SESSION, Origin.SCRATCH), (Kind.FACT, Kind.GOAL), tuple(Trust)
WORDS = ("heron", "harbour", "houses", "港町の鷺")


def made(number: int) -> Crystal:
    """The crystals of the table: many are equal in what they are sorted by."""
    return Crystal(
        f"The {WORDS[number % 4]} of {WORDS[number // 4 % 4]} is number n{number}",
        ORIGINS[number % 2],
        NOW - timedelta(days=number // 5 * 3),
        kind=KINDS[number // 3 % 2],
        importance=(number % 3) / 2,
        trust=TRUSTS[number % 4],
        speaker=("", "Ada")[number % 2],
        session=("", "s1", "s2")[number % 3],
        position=number,
        lifecycle=Lifecycle.FROZEN if number % 11 == 0 else Lifecycle.GENERATED,
        accesses=number % 4,
    )


CRYSTALS = [made(number) for number in range(60)]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = init_workspace(tmp_path_factory.mktemp("tables") / "w")
    with opened(workspace) as access, access.write() as store:
        store.crystals.learn(CRYSTALS)
        supersede(store, *((CRYSTALS[at], CRYSTALS[at - 7]) for at in range(14, 49, 7)))
    return workspace


def opened(workspace: Workspace) -> LocalAccess:
    return LocalAccess(workspace, Config(), "a test", embedding=Embedding.given(Unavailable("no model in this test")))


def supersede(store: Store, *pairs: tuple[Crystal, Crystal]) -> None:
    keys = store.crystals.keys(crystal.id for pair in pairs for crystal in pair)
    with transaction(store.connection):
        store.supersessions.record(
            Supersession(keys[older.id], keys[newer.id], NOW, Trust.AGENT, Cause.DREAM) for older, newer in pairs
        )


def ask(access: LocalAccess, **fields: Any) -> CrystalTable:
    operation = OPERATIONS["crystals"]
    reply: CrystalTable = operation.answer(access, operation.bind(**fields))
    return reply


def tell(access: LocalAccess, id_: str) -> CrystalDetails:
    operation = OPERATIONS["crystal"]
    reply: CrystalDetails = operation.answer(access, operation.bind(id=id_))
    return reply


def parts(access: LocalAccess, **fields: Any) -> Iterator[CrystalTable]:
    part = ask(access, **fields)
    yield part
    while part.next_cursor:
        part = ask(access, **fields, cursor=part.next_cursor)
        yield part


def created(crystal: Crystal) -> datetime:
    return crystal.created_at


def sorted_by(crystal: Crystal, sort: Sort) -> Any:
    values = {
        Sort.CREATED_AT: crystal.created_at,
        Sort.IMPORTANCE: crystal.importance,
        Sort.ACCESSES: crystal.accesses,
        Sort.FADES_AT: fading(crystal) or datetime.max.replace(tzinfo=UTC),
    }
    return values[sort]


SUPERSEDED = {CRYSTALS[at].id for at in range(14, 49, 7)}
FILTERS: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "origin": (st.sampled_from(ORIGINS), lambda one, wanted: one.origin is wanted),
    "kind": (st.sampled_from(KINDS), lambda one, wanted: one.kind is wanted),
    "trust": (st.sampled_from(TRUSTS), lambda one, wanted: one.trust.rank >= wanted.rank),
    "lifecycle": (st.sampled_from(Lifecycle), lambda one, wanted: stage(one) is wanted),
    "session": (st.sampled_from(["s1", "s2", "none"]), lambda one, wanted: one.session == wanted),
    "speaker": (st.just("Ada"), lambda one, wanted: one.speaker == wanted),
    "since": (st.sampled_from(CRYSTALS).map(created), lambda one, wanted: one.created_at >= wanted),
    "until": (st.sampled_from(CRYSTALS).map(created), lambda one, wanted: one.created_at < wanted),
    "superseded": (
        st.sampled_from(["yes", "no", "any"]),
        lambda one, wanted: wanted == "any" or (one.id in SUPERSEDED) is (wanted == "yes"),
    ),
    "text": (
        st.sampled_from(["heron", "HOUSE", "houses harb", "の鷺", "nothing", "! ?", '"heron" OR *', "n1"]),
        lambda one, wanted: holds(one.text, wanted),
    ),
}


def fading(crystal: Crystal) -> datetime | None:
    return None if crystal.lifecycle is Lifecycle.FROZEN else fades_at(crystal)


def stage(crystal: Crystal) -> Lifecycle:
    moment = fading(crystal)
    return Lifecycle.ARCHIVED if moment and moment <= NOW else crystal.lifecycle


def holds(text: str, wanted: str) -> bool:
    """In these texts: every word but the last is a word of it, and the last one the beginning of one."""
    if wanted == "の鷺":
        return wanted in text
    *whole, last = [word.strip('"*!?') for word in wanted.casefold().split()]
    words = text.casefold().split()
    return bool(last or whole) and set(whole) <= set(words) and any(word.startswith(last) for word in words)


@pytest.mark.parametrize("name", spread(["sort", *FILTERS], 4))
@given(st.data())
@examples(20)
def test_the_parts_are_the_whole_in_its_order_and_nothing_twice(
    workspace: Workspace, name: str, data: st.DataObject
) -> None:
    """Whatever the sort, of everything or by one filter or two."""
    names = {name, data.draw(st.sampled_from(["sort", *FILTERS]))} - {"sort"}
    fields = {name: data.draw(FILTERS[name][0], name) for name in sorted(names)}
    sort, order = data.draw(st.sampled_from(Sort)), data.draw(st.sampled_from(["descending", "ascending"]))
    limit = data.draw(st.integers(1, 70))
    wanted = [one for one in CRYSTALS if all(FILTERS[name][1](one, value) for name, value in fields.items())]
    number = {one.id: at for at, one in enumerate(CRYSTALS)}
    wanted.sort(key=lambda one: (sorted_by(one, sort), number[one.id]), reverse=order == "descending")
    with opened(workspace) as access:
        tables = list(parts(access, **fields, sort=sort, order=order, limit=limit))
    rows = [row for table in tables for row in table.crystals]
    assert [row.id for row in rows] == [one.id for one in wanted]
    assert [row.superseded for row in rows] == [one.id in SUPERSEDED for one in wanted]
    assert [row.lifecycle for row in rows] == [stage(one) for one in wanted]
    assert [row.fades_at for row in rows] == [fading(one) for one in wanted]
    assert {len(table.crystals) for table in tables[:-1]} <= {limit}
    assert [(table.total, table.more) for table in tables] == [(len(wanted), False)] + [(None, False)] * (
        len(tables) - 1
    )


def test_what_is_added_meanwhile_moves_nothing(tmp_path: Path) -> None:
    with opened(init_workspace(tmp_path)) as access, access.write() as store:
        store.crystals.learn(CRYSTALS[:20])
        first, *_ = parts(access, limit=7)
        store.crystals.learn([replace(CRYSTALS[0], text="quite new", created_at=NOW + timedelta(hours=1))])
        rest = ask(access, limit=200, cursor=first.next_cursor)
        assert {row.text for row in (*first.crystals, *rest.crystals)} == {one.text for one in CRYSTALS[:20]}


def test_a_long_text_is_cut_after_its_secrets_are_gone(tmp_path: Path) -> None:
    texts = ["long " * 90 + f"the key is {KEY} and so on " * 2, f"my key is {KEY}"]
    with opened(init_workspace(tmp_path)) as access, access.write() as store:
        store.crystals.learn([Crystal(text, Origin.SESSION, NOW, speaker=KEY, session="s") for text in texts])
        rows = {len(row.text) == 500: row for row in ask(access).crystals}
        whole = tell(access, rows[True].id)
        assert len(whole.crystal.text) > 500
        assert "[redacted" in rows[False].text
        assert KEY[:20] not in repr((rows, whole, tell(access, rows[False].id)))


def test_what_is_being_forgotten_is_not_shown(tmp_path: Path) -> None:
    with opened(init_workspace(tmp_path)) as access, access.write() as store:
        store.crystals.learn([Crystal("The falcon nests in the tower. Tea is green.", Origin.SESSION, NOW)])
        store.crystals.forgotten.block(Target.of("falcon nests in the tower"), NOW)
        (row,) = ask(access).crystals
        assert row.text == "Tea is green."
        assert tell(access, row.id).crystal.text == "Tea is green."


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(init_workspace(tmp_path)) as access, access.write() as store:
        yield store


def told(store: Store, crystal: Crystal | str) -> CrystalDetails:
    with opened(store.workspace) as access:
        return tell(access, crystal if isinstance(crystal, str) else crystal.id[:8])


def test_a_crystal_tells_all_that_it_has_to_do_with(store: Store) -> None:
    turns = [Crystal(f"turn {at}", Origin.SESSION, NOW, session="s", position=at, speaker="Ada") for at in range(7)]
    third = replace(turns[3], source=Source("talk.md", 4, 6, "ab" * 20))
    insight = Crystal("what the turns mean", Origin.DREAM, NOW, parents=(turns[3].id, "0" * 32))
    store.crystals.learn([*turns[:3], third, *turns[4:], insight])
    store.crystals.learn([replace(turns[3], session="later", position=1, created_at=NOW + timedelta(hours=1))])
    supersede(store, (turns[2], turns[3]), (turns[3], turns[5]))
    keys = store.crystals.keys([turns[3].id, turns[6].id, turns[0].id])
    with transaction(store.connection) as connection:
        store.supersessions.record(
            [Supersession(keys[turns[3].id], keys[turns[6].id], NOW, Trust.OWNER, Cause.OWNER)]
        )
        store.supersessions.undo(keys[turns[3].id], keys[turns[6].id], NOW)
        connection.execute("UPDATE crystals SET merged_into = ? WHERE id = ?", (keys[turns[3].id], turns[0].id))
        turn = added(line("L1", SectionName.BOND, "Ada takes turns", Trust.OWNER), evidence=(turns[3].id,))
        led = added(pointer("L2", "turns", "ada turns", turns[3].id))
        store.lineage.record(
            Dream(
                number=1, id="d1", at=NOW, cause="dream", reason="manual", mood="calm", before="", after="",
                changes=turn + led,
            )
        )  # fmt: skip
    store.crystals.vectors.embed_pending(BagOfWords())
    found = told(store, turns[3])
    assert (found.crystal.id, found.crystal.text, found.has_vector) == (turns[3].id, "turn 3", True)
    assert [(str(one.source), one.session) for one in found.occurrences] == [
        ("talk.md:4-6@abababababab", "s"),
        ("None", "later"),
    ]
    assert [one.text for one in found.children] == ["what the turns mean"]
    assert [one.text for one in found.merged_from] == ["turn 0"]
    assert [one.text for one in found.before] == ["turn 1", "turn 2"]
    assert [one.text for one in found.after] == ["turn 4", "turn 5"]
    assert [(one.text, one.died_in, one.crystal) for one in found.lines] == [("Ada takes turns", None, "")]
    assert [(one.pointer.keywords, one.standing) for one in found.pointers] == [("ada turns", True)]
    by = {one.crystal.text: (one.cause, one.undone_at is None) for one in found.superseded_by}
    over = {one.crystal.text: (one.cause, one.undone_at is None) for one in found.supersedes}
    assert by["turn 6"] == ("owner", False)
    # It was said once more after the turn that had superseded it.
    assert {**by, **over}["turn 5"] == ("dream", True)
    assert over["turn 2"] == ("dream", True)
    assert not found.superseded
    assert told(store, turns[2]).superseded
    assert [(one.text, one.id) for one in told(store, insight).parents] == [("turn 3", turns[3].id), ("", "0" * 32)]
    hidden = told(store, turns[0]).merged_into
    assert hidden is not None
    assert hidden.id == turns[3].id


def test_the_owner_s_last_word_on_two_crystals_counts(tmp_path: Path) -> None:
    older, newer = (Crystal(f"the port is {at}", Origin.SCRATCH, NOW - timedelta(days=9 - at)) for at in (1, 2))
    supersede = OPERATIONS["supersede"]
    with opened(init_workspace(tmp_path)) as access:
        with access.write() as store:
            store.crystals.learn([older, newer])
        turned = [
            supersede.answer(access, supersede.bind(older=one.id, newer=other.id)).turned
            for one, other in ((older, newer), (newer, older), (older, newer), (older, newer), (newer, older))
        ]
        assert turned == [False, True, True, False, True]
        # The newer one was said last, but the owner's last word is that the older one holds.
        assert [tell(access, one.id).superseded for one in (older, newer)] == [False, True]


def test_long_lists_say_how_much_they_leave_out(store: Store) -> None:
    often = [Crystal("yes", Origin.SESSION, NOW, session="s", position=at) for at in range(130)]
    store.crystals.learn(
        [*often, *(Crystal(f"made {at}", Origin.DREAM, NOW, parents=(often[0].id,)) for at in range(103))]
    )
    found = told(store, often[0])
    assert (len(found.occurrences), len(found.children)) == (100, 100)
    assert found.more == {"occurrences": 30, "children": 3}


def test_an_id_has_to_be_one_crystal_s(store: Store) -> None:
    with pytest.raises(NotFoundError):
        told(store, "0" * 8)
    with transaction(store.connection) as connection:
        store.crystals.learn(CRYSTALS[:2])
        for at in range(2):
            connection.execute("UPDATE crystals SET id = ? WHERE id = ?", (f"{'0' * 31}{at}", CRYSTALS[at].id))
    with pytest.raises(UsageError, match="more than one"):
        told(store, "0" * 8)
