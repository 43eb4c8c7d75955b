"""A pass over real notes and transcripts, with the real embedding model."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from daemon.api.operations.search import recall
from daemon.config.settings import Config
from daemon.dream.consolidation import Consolidation, consolidate
from daemon.dream.snapshot import snapshot
from daemon.workspace.searching import searched_in
from daemon.workspace.stores import Store, open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal, Lifecycle, Origin
from state.dream import Kind as EvidenceKind
from state.dream import Reason
from state.stores.crystals.search import search
from state.stores.disk.workspace import Workspace
from state.trust import Trust
from tests.support.forgettable import finds
from tests.support.working import noted

NOTHING = Consolidation()


@pytest.fixture(scope="module")
def embedding() -> Embedding:
    return Embedding()


@pytest.fixture
def store(here: Workspace, embedding: Embedding) -> Iterator[Store]:
    config = Config.model_validate({"sources": {"transcripts": ["chats/*.jsonl"]}})
    with open_exclusive(here, config, "a test", embedding=embedding) as store:
        yield store


def _chat(store: Store, name: str, *turns: str, at: datetime | None = None, role: str = "user") -> None:
    path = store.workspace.root / "chats" / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    stamp = (at or utc_now()).isoformat()
    with path.open("a") as file:
        for turn in turns:
            file.write(json.dumps({"role": role, "content": turn, "timestamp": stamp}) + "\n")


def _stages(store: Store) -> dict[str, Lifecycle]:
    rows = store.connection.execute("SELECT text, lifecycle FROM crystals")
    return {row["text"]: Lifecycle(row["lifecycle"]) for row in rows}


def test_what_is_new_is_taken_in_and_the_second_pass_finds_nothing(store: Store) -> None:
    noted(store, "The canary release goes out on Tuesdays")
    _chat(store, "monday", "My parrot is called Admiral", "Grace keeps the boathouse key")
    first = consolidate(store, utc_now())
    assert (first.notes, first.turns, first.vectors) == (1, 2, 3)
    assert first.changed
    assert finds(store, "name of the bird")[0] == "My parrot is called Admiral"
    assert consolidate(store, utc_now()) == NOTHING
    assert not NOTHING.changed


def test_an_equal_text_is_shown_once_and_nothing_is_lost(store: Store) -> None:
    said, again = "Ada prefers tea over coffee in the morning", "ada prefers TEA over coffee in the morning"
    noted(store, said, "The harbour is closed on Mondays")
    consolidate(store, utc_now())
    noted(store, again, importance=0.6)
    consolidate(store, utc_now())
    assert [text for text in finds(store, "what does Ada drink in the morning?") if "Ada" in text] == [said]
    by_text = {one.text: one for one in store.crystals.by_keys(range(1, 9)).values()}
    survivor, twin = by_text[said], by_text[again]
    assert survivor.parents == (twin.id,)
    assert twin.lifecycle is Lifecycle.ARCHIVED
    assert consolidate(store, utc_now()) == NOTHING


def test_a_page_that_repeats_the_owners_word_neither_lifts_nor_lowers_it(store: Store) -> None:
    word = Crystal("Payments go to account 4711 at the harbour bank", Origin.SESSION, utc_now(), trust=Trust.OWNER)
    echo = replace(
        word, text="PAYMENTS go to account 4711 at the harbour bank", id="0" * 32, trust=Trust.WEB, importance=1
    )
    store.crystals.learn([word, echo])
    assert store.crystals.get([word.id]) == [word]
    assert finds(store, "where do payments go?") == [word.text]


def test_what_a_pointer_leads_to_still_resolves_when_its_text_is_said_again(store: Store) -> None:
    left = Crystal("The lighthouse lamp was paid twice", Origin.LINE, utc_now() - timedelta(days=400))
    store.crystals.learn([left])
    store.connection.execute(
        "INSERT INTO pointers (keywords, topic, crystal, made_in) VALUES ('lighthouse lamp', 'x', ?, 1)", (left.id,)
    )
    noted(store, "The lighthouse lamp was paid twice!", importance=1.0)
    done = consolidate(store, utc_now())
    assert (done.archived, done.frozen) == (0, 1)
    hits = search(searched_in(store), "lighthouse lamp", utc_now(), limit=5).hits
    assert left.id in {hit.crystal.id for hit in hits}


def test_lives_move_on_and_back(store: Store) -> None:
    now = utc_now()
    old, fresh = "The old ferry timetable hangs in the hall", "The new ferry timetable is online"
    store.crystals.learn(
        [Crystal(old, Origin.SCRATCH, now - timedelta(days=300)), Crystal(fresh, Origin.SCRATCH, now)]
    )
    assert consolidate(store, now).archived == 1
    assert _stages(store) == {old: Lifecycle.ARCHIVED, fresh: Lifecycle.GENERATED}
    assert old in finds(store, "old ferry timetable in the hall")
    recall(store, old)
    assert _stages(store)[old] is Lifecycle.ACTIVATED
    assert consolidate(store, now).archived == 0


def test_a_task_of_three_sessions_is_a_skill_in_the_next_dream(store: Store) -> None:
    at = datetime(2026, 3, 1, 9, tzinfo=UTC)
    for day, text in enumerate(
        (
            "Before you commit, run the linter and the tests",
            "Always run the linter and the tests before we commit",
            "Before you commit, please run the tests and the linter",
        )
    ):
        _chat(store, f"day{day}", text, at=at + timedelta(days=day))
    _chat(store, "other", "Whenever the tide is low, check the mooring", at=at)
    recall(store, "check the mooring at low tide")
    for _ in range(20):
        recall(store, "check the mooring")
    consolidate(store, utc_now())
    seen = snapshot(store, (), (), "d", Reason.MANUAL, utc_now())
    (skill,) = [piece.text for piece in seen.evidence if piece.kind is EvidenceKind.SKILL]
    assert "Occurrences: 3" in skill
    assert "linter" in skill


def test_a_transcript_that_cannot_be_read_and_a_glob_that_leads_out_are_named(store: Store, here: Workspace) -> None:
    _chat(store, "good", "My parrot is called Admiral")
    (here.root / "chats" / "bad.jsonl").write_bytes(b"\xff\xfe\x00\x01" * 100)
    done = consolidate(store, utc_now())
    assert done.turns == 1
    assert "bad.jsonl" in done.problems[0]
    store = replace(store, config=Config.model_validate({"sources": {"transcripts": ["../*.md"]}}))
    noted(store, "The harbour is closed on Mondays")
    done = consolidate(store, utc_now())
    assert done.notes == 1
    assert "no glob inside the workspace" in done.problems[0]


def test_a_pass_that_is_stopped_goes_on_with_the_next_one(store: Store) -> None:
    noted(store, *(f"Ship number {number} lies at pier {number}" for number in range(150)))
    asked = iter(range(99))

    def soon() -> bool:
        return next(asked) >= 3

    first = consolidate(store, utc_now(), soon)
    assert not first.complete
    assert first.notes == 150
    rest = consolidate(store, utc_now())
    assert rest.complete
    assert first.vectors + rest.vectors == 150
    assert consolidate(store, utc_now()) == NOTHING
