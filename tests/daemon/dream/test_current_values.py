"""What holds now is what somebody named: the owner, an item of a session, a model; in search, why, undo, restore."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon.api.operations.search import recall
from daemon.config.settings import Config
from daemon.dream.restore import restore
from daemon.dream.run import Mode, dream_now
from daemon.explain.why import why
from daemon.sessions import promote, relation_add
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.scratch import Note
from state.search.ranking import Filters
from state.stores.crystals.supersessions import Supersessions
from tests.support.model_characters import inputs_of, lines_of
from tests.support.running import Caller
from tests.support.scripted_model import Reply, ScriptedModel
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
    hits = recall(store, query, 8, Filters(**filters)).hits  # type: ignore[arg-type]
    return [(hit.crystal.text, hit.superseded_by.text if hit.superseded_by else "") for hit in hits]


def test_no_words_supersede_and_the_later_of_two_near_texts_stands_first(store: Store) -> None:
    noted(store, OLD, 9)
    noted(store, NEW)
    question = "On which port does the staging database listen?"
    assert found(store, question) == [(NEW, ""), (OLD, "")]
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    assert found(store, question) == [(NEW, ""), (OLD, "")]
    assert [text for text, _ in found(store, "On which port did the staging database listen before?")] == [OLD, NEW]
    noted(store, OLD)
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    assert found(store, question) == [(OLD, ""), (NEW, "")]  # it was said once more
    assert [text for text, _ in found(store, question, until=utc_now() - timedelta(days=1))] == [OLD]


def test_why_says_what_supersedes_and_the_owner_takes_it_back(
    tmp_path: Path, embedding: Embedding, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = init_workspace(tmp_path / "here")
    with open_exclusive(workspace, Config(), "a test", embedding=embedding) as store:
        noted(store, OLD, 9)
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        noted(store, NEW)
        ids = [hit.crystal.id[:12] for hit in reversed(recall(store, "port").hits)]
    dreamd = Caller(capsys)
    assert dreamd("supersede", *ids, "-w", workspace.root).status == 0
    with open_exclusive(workspace, Config(), "a test", embedding=embedding) as store:
        (story,) = why(store, "port 5433")
        (witness,) = story.evidence
        assert (witness.text, witness.holds_now, witness.found_by) == (OLD, NEW, "owner")
    told = dreamd("why", "port 5433", "-w", workspace.root).out
    assert f"found by owner: {NEW}" in told
    assert f"dreamd supersede --undo {' '.join(ids)}" in told
    shown = dreamd("search", "staging database port", "-w", workspace.root).out
    assert f"superseded {utc_now():%Y-%m-%d} by: {NEW}" in shown
    assert dreamd("supersede", "--undo", *ids, "-w", workspace.root).status == 0
    assert "superseded" not in dreamd("search", "staging database port", "-w", workspace.root).out
    again = dreamd("supersede", "--undo", *ids, "-w", workspace.root)
    assert (again.status, "neither supersedes the other" in again.err) == (3, True)
    assert dreamd("supersede", *reversed(ids), "-w", workspace.root).status == 0
    hits = dreamd("search", "staging database port", "-w", workspace.root, "--json").json["hits"]
    assert {hit["text"]: hit["superseded_by"] for hit in hits} == {NEW: OLD, OLD: ""}
    unknown = dreamd("supersede", "0123456789ab", ids[0], "-w", workspace.root)
    assert "no memory has '0123456789ab'" in unknown.err


def test_what_the_owner_corrects_by_hand_supersedes_what_was_noted(store: Store) -> None:
    noted(store, OLD, 9)
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    mine = "The staging database listens on port 6000."
    store.workspace.document.write_text(document(store).replace(OLD, mine), encoding="utf-8")
    noted(store, "Ada has a cat that is called Miez.")
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    assert mine in document(store)
    assert found(store, "port of the staging database")[:2] == [(mine, ""), (OLD, mine)]
    pairs = Supersessions(store.crystals).among(range(1, store.crystals.newest() + 1)).pairs
    assert {pair.cause.value for pair in pairs} == {"owner"}


@pytest.mark.full
def test_what_a_model_puts_in_a_lines_place_supersedes_it_in_whatever_words(
    tmp_path: Path, embedding: Embedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (
        "Mirela lives in a flat on Harbour street, third floor.",
        "The keys came: the yellow house on Kivi lane.",
    )
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    def revising(request: dict[str, Any], _number: int) -> Reply:
        line = next((id_ for id_, _, text in lines_of(request) if text == old), None)
        name, _, text = inputs_of(request)[0]
        operation = {"op": "revise", "line": line} if line else {"op": "add"}
        said = operation | {"section": "Active Context", "text": text, "cites": [name]}
        return Reply(json.dumps({"operations": [said], "consumed": [name]}))

    with ScriptedModel(revising) as model:
        config = Config.model_validate({"model": {"name": "openai/scripted", "api_base": model.url}})
        with open_exclusive(init_workspace(tmp_path / "m"), config, "a test", embedding=embedding) as store:
            noted(store, old, 9)
            dream_now(store, Reason.MANUAL, Mode.AUTO)
            assert found(store, "where does Mirela live") == [(old, "")]
            noted(store, new)
            dream_now(store, Reason.MANUAL, Mode.AUTO)
            assert found(store, "where does Mirela live")[:2] == [(new, ""), (old, new)]
            restore(store, 1)
            assert old in document(store)
            assert (old, new) not in found(store, "where does Mirela live")


def test_an_item_of_a_session_supersedes_what_it_names(store: Store) -> None:
    before, after = "deploys go through the blue gate", "everything is released by the harbour crew"
    old = add(store, before, now=utc_now())
    promote(store, "s", old, utc_now())
    new = add(store, after, now=utc_now())
    relation_add(store, "s", new, "supersedes", old, utc_now())
    promote(store, "s", new, utc_now())
    assert found(store, "deploys through which gate")[:2] == [(after, ""), (before, after)]
