"""What holds now, end to end: notes, dreams, the owner's hand and sessions; search, MEMORY.md, why, undo, restore."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon.api.provenance import why
from daemon.api.search import recall
from daemon.config.settings import Config
from daemon.dream.changes import decide_changes, open_changes
from daemon.dream.restore import restore
from daemon.dream.run import Mode, dream_now
from daemon.sessions import promote, relation_add
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Decision, Reason
from state.scratch import Note
from state.search.ranking import Filters
from state.stores.crystals.supersessions import Supersessions
from tests.support.model_characters import inputs_of, lines_of
from tests.support.running import Caller
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.working import add

OLD, NEW = "The staging database listens on port 5433.", "The staging database listens on port 6000 now."


@pytest.fixture(scope="module")
def embedding() -> Embedding:
    return Embedding(download=False)


@pytest.fixture
def store(tmp_path: Path, embedding: Embedding) -> Iterator[Store]:
    with open_exclusive(init_workspace(tmp_path / "agent"), Config(), "a test", embedding=embedding) as store:
        yield store


def noted(store: Store, text: str, days_ago: float = 0) -> None:
    store.segments.append(Note(text, utc_now() - timedelta(days=days_ago)))


def document(store: Store) -> str:
    return store.workspace.document.read_text(encoding="utf-8")


def found(store: Store, query: str, **filters: object) -> list[tuple[str, str]]:
    hits = recall(store, query, 8, Filters(**filters)).hits  # type: ignore[arg-type]
    return [(hit.crystal.text, hit.superseded_by.text if hit.superseded_by else "") for hit in hits]


def lived(store: Store) -> None:
    """Two dreams without a model: one takes in the old value, the next one the new value."""
    noted(store, OLD, 9)
    noted(store, "The production database listens on port 7001.", 9)
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    noted(store, NEW)
    dream_now(store, Reason.MANUAL, Mode.AUTO)


def test_a_note_of_this_minute_supersedes_before_any_dream(store: Store) -> None:
    noted(store, OLD, 9)
    noted(store, NEW)
    assert found(store, "On which port does the staging database listen?")[:2] == [(NEW, ""), (OLD, NEW)]


def test_the_document_asserts_the_new_value_alone_and_nothing_else_is_lost(store: Store) -> None:
    lived(store)
    assert NEW in document(store)
    assert OLD not in document(store)
    assert "port 7001" in document(store)
    assert found(store, "port of the production database")[0][1] == ""


def test_a_line_whose_source_is_superseded_does_not_stand_though_no_input_says_so(store: Store) -> None:
    noted(store, OLD, 9)
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    before = document(store)
    noted(store, NEW)
    recall(store, "port")
    store.crystals.mark_dreamt([crystal.id for crystal in store.crystals.undreamt()], 1)
    noted(store, "Ada has a cat that is called Miez.")
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    assert OLD in before
    assert OLD not in document(store)
    assert NEW in document(store)


def test_why_says_what_supersedes_and_the_owner_takes_it_back(
    tmp_path: Path, embedding: Embedding, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = init_workspace(tmp_path / "here")
    with open_exclusive(workspace, Config(), "a test", embedding=embedding) as store:
        noted(store, OLD, 9)
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        noted(store, NEW)
        recall(store, "port")
        (story,) = why(store, "port 5433")
        (witness,) = story.evidence
        assert (witness.text, witness.holds_now, witness.found_by) == (OLD, NEW, "consolidation")
    dreamd = Caller(capsys)
    told = dreamd("why", "port 5433", "-w", workspace.root).out
    assert f"found by consolidation: {NEW}" in told
    ids = [witness.crystal[:12], witness.superseded_by[:12]]
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
    assert {pair.cause.value for pair in pairs} <= {"owner", "consolidation"}


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
            for change, _ in open_changes(store):
                decide_changes(store, {change.number: Decision.UNDONE}, {})
            assert old in document(store)
            assert (old, new) not in found(store, "where does Mirela live")


def test_a_restore_takes_back_what_later_dreams_found_of_its_lines(store: Store) -> None:
    lived(store)
    restore(store, 1)
    assert OLD in document(store)
    assert (OLD, NEW) not in found(store, "port of the staging database")


def test_as_of_a_day_the_old_value_holds(store: Store) -> None:
    lived(store)
    day = utc_now() - timedelta(days=2)
    (first, *_) = found(store, "port of the staging database", until=day)
    assert first == (OLD, "")


def test_an_item_of_a_session_supersedes_what_it_names(store: Store) -> None:
    before, after = "deploys go through the blue gate", "everything is released by the harbour crew"
    old = add(store, before, now=utc_now())
    promote(store, "s", old, utc_now())
    new = add(store, after, now=utc_now())
    relation_add(store, "s", new, "supersedes", old, utc_now())
    promote(store, "s", new, utc_now())
    assert found(store, "deploys through which gate")[:2] == [(after, ""), (before, after)]
