"""What holds now is what somebody named: the owner, an item of a session, a model; in search, why, undo, restore."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.api.operations.search import recall
from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.sessions import promote, relation_add
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.scratch import Note
from state.search.ranking import Filters
from tests.support.working import add, document

OLD, NEW = "The staging database listens on port 5433.", "The staging database listens on port 6000 now."


@pytest.fixture(scope="module")
def embedding() -> Embedding:
    return Embedding()


@pytest.fixture
def store(tmp_path: Path, embedding: Embedding) -> Iterator[Store]:
    with open_exclusive(init_workspace(tmp_path / "agent"), Config(), "a test", embedding=embedding) as store:
        yield store


def noted(store: Store, text: str, days_ago: float = 0) -> None:
    store.notes.inbox.append(Note(text, utc_now() - timedelta(days=days_ago)))


def found(store: Store, query: str, **filters: object) -> list[tuple[str, str]]:
    hits = recall(store, query, 8, Filters(**filters), everything=True).hits  # type: ignore[arg-type]
    return [(hit.crystal.text, hit.superseded_by.text if hit.superseded_by else "") for hit in hits]


def test_no_words_supersede_and_the_later_of_two_near_texts_stands_first(store: Store) -> None:
    noted(store, OLD, 9)
    noted(store, NEW)
    question = "On which port does the staging database listen?"
    assert found(store, question) == [(NEW, ""), (OLD, "")]
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    assert found(store, question) == [(NEW, ""), (OLD, "")]
    assert [text for text, _ in found(store, "On which port did the staging database listen before?")] == [OLD, NEW]
    noted(store, OLD, -2 / 86_400)  # two seconds later, as notes are dated in whole ones
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    assert found(store, question) == [(OLD, ""), (NEW, "")]  # it was said once more
    assert [text for text, _ in found(store, question, until=utc_now() - timedelta(days=1))] == [OLD]


def test_what_the_owner_corrects_by_hand_supersedes_what_was_noted(store: Store) -> None:
    noted(store, OLD, 9)
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    mine = "The staging database listens on port 6000."
    store.workspace.document.write_text(document(store).replace(OLD, mine), encoding="utf-8")
    noted(store, "Ada has a cat that is called Miez.")
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    assert mine in document(store)
    assert found(store, "port of the staging database")[:2] == [(mine, ""), (OLD, mine)]
    pairs = store.supersessions.among(range(1, store.crystals.newest() + 1)).pairs
    assert {pair.cause.value for pair in pairs} == {"owner"}


def test_an_item_of_a_session_supersedes_what_it_names(store: Store) -> None:
    before, after = "deploys go through the blue gate", "everything is released by the harbour crew"
    old = add(store, before, now=utc_now())
    promote(store, "s", old, utc_now())
    new = add(store, after, now=utc_now())
    relation_add(store, "s", new, "supersedes", old, utc_now())
    promote(store, "s", new, utc_now())
    assert found(store, "deploys through which gate")[:2] == [(after, ""), (before, after)]
