"""Working memory and the dream: what left a session is its input, and what is open its context."""

import json
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon import sessions
from daemon.api.access import LocalAccess
from daemon.api.operations.search import memory_search
from daemon.api.operations.sessions import forget as forget_memory
from daemon.config.settings import Config, ModelSection
from daemon.dream.consolidation import new_input
from daemon.dream.run import Mode, dream_now
from daemon.ingest.notes import absorb_notes
from daemon.ingest.transcripts import absorb_transcripts, transcript_files
from daemon.journal.restore import restore
from daemon.sessions.crystals import OpenItem
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.searching import searched_in
from daemon.workspace.stores import Store, utc_now
from state.crystals.crystal import Origin
from state.dream import Reason
from state.errors import NothingToDoError
from state.stores.crystals.search import search
from state.trust import Trust
from tests.support.committing import dreamt
from tests.support.model_characters import good, inputs_of, prompt_of
from tests.support.scripted_model import ScriptedModel
from tests.support.working import SECRET, add, contents, document, noted, unredacted, working


def asking(root: Path, model: ScriptedModel) -> AbstractContextManager[Store]:
    """The stores of a workspace whose dreams ask this model."""
    return working(root, Config(model=ModelSection(name="openai/gpt-4o-mini", api_base=model.url)))


def said(store: Store, content: str, session: str = "s", **given: Any) -> str:
    """A new item of this moment."""
    return add(store, content, session, now=utc_now(), **given)


def on_the_mind(store: Store) -> tuple[OpenItem, ...]:
    return sessions.open_items(store.connection, store.config.redaction, utc_now(), 9)


def found(store: Store, query: str) -> list[tuple[str, Origin, str]]:
    crystals = [hit.crystal for hit in search(searched_in(store), query, utc_now()).hits]
    return [(one.text, one.origin, one.session) for one in crystals][:1]


def test_a_closed_session_is_the_next_dreams_input(store: Store) -> None:
    texts = ["Ada decided to move the archive to Bergen", "The archive has 40 shelves"]
    for text in texts:
        said(store, text, "chat", importance=0.8)
    sessions.close_session(store.connection, "chat", utc_now())
    outcome = dreamt(store)
    for text in texts:
        assert text in document(store)
        assert found(store, text) == [(text, Origin.WORKING, "chat")]
    evidence = {crystal.id: crystal.text for crystal in store.crystals.get(outcome.dream.dreamt)}
    assert set(evidence.values()) == set(texts)
    with pytest.raises(NothingToDoError):
        dreamt(store)  # each of them once


def test_what_a_hard_limit_took_comes_first_and_what_was_evicted_follows(tmp_path: Path) -> None:
    with ScriptedModel(good) as model, asking(tmp_path / "w", model) as store:
        now = utc_now()
        sessions.session_open(store, "b", now, "budget", {"soft_limit": 2, "hard_limit": 2, "batch_size": 1})
        said(store, "The vault opens to the left", "b", importance=0.1, tags=["insight"])
        said(store, "The vault is red", "b", importance=0.3, tags=["insight"])
        sessions.session_open(store, "h", now, "hybrid", {"max_tokens": 60})
        for text, importance in (("Lamps are green", 0.75), ("Doors are blue", 0.8)):
            sessions.memorize(store, "h", sessions.Draft(text, importance=importance, token_count=40), now)
        said(store, "Windows are round", "t", priority="low", importance=0.7)
        sessions.maintain(store, now + timedelta(hours=1, seconds=1))
        dreamt(store)
        (request,) = model.requests
        given = [(text, label) for name, label, text in inputs_of(request) if name.startswith("C")]
        assert sorted(text for text, _ in given) == [
            "Lamps are green",
            "The vault opens to the left",
            "Windows are round",
        ]
        for text in ("The vault opens to the left", "Lamps are green", "Windows are round"):
            assert found(store, text)[0][0] == text


def test_what_is_open_reaches_the_model_and_asks_for_no_dream(tmp_path: Path) -> None:
    with ScriptedModel(good) as model, asking(tmp_path / "w", model) as store:
        said(store, "I am looking for the lost key", "open", importance=0.9)
        said(store, "A page says that the key is under the mat", "open", importance=0.9, source="web")
        said(store, "A whim", "open", importance=0.2)
        said(store, f"The token is {SECRET}", "open", importance=0.5)
        said(store, "It is over", "closed", priority="high")
        assert new_input(store) == 0
        for mode in (Mode.AUTO, Mode.DRY):
            with pytest.raises(NothingToDoError):
                dream_now(store, Reason.MANUAL, mode)
        assert model.count == 0
        sessions.close_session(store.connection, "closed", utc_now())
        dreamt(store)
        prompt = prompt_of(model.requests[0])
        rows = [row for row in prompt.split("\n") if row.startswith("W")]
        assert [json.loads(row.partition("): ")[2]) for row in rows] == [
            "I am looking for the lost key",
            "The token is [redacted: github token]",
            "A whim",
        ]
        assert all("on the agent's mind" in row for row in rows)
        assert "under the mat" not in json.dumps(model.requests)
        assert SECRET not in json.dumps(model.requests)
        assert "lost key" not in document(store)
        with pytest.raises(NothingToDoError):
            dreamt(store)
        # The dream took nothing from it.
        assert sessions.list_memories(store.connection, "open", utc_now(), "kept").count == 4


def test_what_is_promoted_expired_or_hidden_is_not_on_the_mind(store: Store) -> None:
    sessions.promote(store, "s", said(store, "promoted"), utc_now())
    said(store, "hidden", "h")
    sessions.forget(store, "h", "oldest", utc_now())
    sessions.expire(store.connection, "s", said(store, "expired"), utc_now())
    said(store, "live")
    assert [one.text for one in on_the_mind(store)] == ["live"]


def test_an_operation_may_rest_on_what_is_open(tmp_path: Path) -> None:
    def citing(request: dict[str, Any], number: int) -> Any:
        answer = json.loads(good(request, number))
        line = {"op": "add", "section": "Active Context", "text": "Ada is looking for the lost key", "cites": ["W1"]}
        return {**answer, "operations": [*answer["operations"], line]} if "operations" in answer else answer

    with ScriptedModel(citing) as model, asking(tmp_path / "w", model) as store:
        said(store, "I am looking for the lost key of Ada", "open", importance=0.9)
        noted(store, "The cat is called Miez")
        outcome = dreamt(store)
        assert outcome.dream.number == 1
        assert "Miez" in document(store)
        assert "Ada is looking for the lost key" in document(store)


def test_going_back_to_a_version_makes_it_input_again(store: Store) -> None:
    noted(store, "The cat is called Miez")
    dreamt(store)
    said(store, "The archive moves to Bergen", importance=0.8)
    sessions.close_session(store.connection, "s", utc_now())
    dreamt(store)
    assert "Bergen" in document(store)
    restore(store, 1)
    assert "Bergen" not in document(store)
    assert new_input(store) == 1
    dreamt(store)
    assert "The archive moves to Bergen" in document(store)


@pytest.mark.parametrize("text", ["The safe's number is on the back of the clock", f"The token {SECRET} is old"])
def test_what_was_forgotten_for_good_is_learnt_from_nobody(store: Store, text: str) -> None:
    said(store, text)
    sessions.forget(store, "s", "oldest", utc_now(), "hard", confirm=True)
    turns = [{"role": "user", "content": f" {text}\n"}, {"role": "assistant", "content": "The cat is called Miez."}]
    folder = store.workspace.root / "transcripts"
    folder.mkdir()
    (folder / "chat.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in turns), encoding="utf-8")
    absorb_transcripts(store, transcript_files(store.workspace, store.config), utc_now())
    noted(store, text, "The dog is called Rex")
    absorb_notes(store, utc_now())
    said(store, text, "again", importance=0.9)
    assert all(text != one.text for one in on_the_mind(store))
    sessions.close_session(store.connection, "again", utc_now())
    dreamt(store)
    texts = [row["text"] for row in store.connection.execute("SELECT text FROM crystals")]
    assert sorted(texts) == ["The cat is called Miez.", "The dog is called Rex"]
    assert "Rex" in document(store)
    assert text.split()[1] not in document(store)
    assert sessions.waiting_count(store.connection) == 0  # it is not asked for at every pass


def test_many_that_are_forgotten_do_not_keep_the_others_from_the_dream(store: Store) -> None:
    said(store, "never again")
    sessions.forget(store, "s", "oldest", utc_now(), "hard", confirm=True)
    for number in range(120):
        said(store, "never again", f"s{number}", importance=0.9)
        sessions.close_session(store.connection, f"s{number}", utc_now())
    said(store, "but this", "last", importance=0.7)
    sessions.close_session(store.connection, "last", utc_now())
    assert sessions.waiting_count(store.connection) == 100  # beyond that they are not counted
    assert sessions.hand_over(store, utc_now()) == 1
    assert found(store, "but this")[0][0] == "but this"


def test_what_was_softly_forgotten_is_no_input_when_it_leaves(store: Store) -> None:
    said(store, "forget me", priority="high"), said(store, "keep me", priority="high")
    sessions.forget(store, "s", "oldest", utc_now())
    sessions.close_session(store.connection, "s", utc_now())
    assert sessions.waiting_count(store.connection) == sessions.hand_over(store, utc_now()) == 1
    assert found(store, "forget me keep me")[0][0] == "keep me"
    assert contents(sessions.recall(store, "s", "forget", utc_now())) == ["forget me"]  # it is not lost


def test_it_is_handed_over_as_trusted_as_its_source_and_without_the_secret_of_its_session(store: Store) -> None:
    # The id of a new session may hold none.
    said(unredacted(store), "from a page", f"of {SECRET}", source="web", priority="high")
    assert [one.trust for one in on_the_mind(store)] == [Trust.WEB]
    sessions.clear_session(store.connection, f"of {SECRET}", utc_now())
    sessions.hand_over(store, utc_now())
    assert store.crystals.undreamt() == []
    ((_, crystal),) = store.crystals.by_keys([store.crystals.newest()]).items()
    assert (crystal.origin, crystal.trust) == (Origin.WORKING, Trust.WEB)
    assert crystal.session == "of [redacted: github token]"


def test_a_hard_forgetting_takes_the_crystal_along_and_says_what_the_owner_has_to_erase(tmp_path: Path) -> None:
    text = "The vault opens to the left at midnight"
    with working(tmp_path / "w") as store:
        id_ = said(store, text, importance=0.9)
        record = sessions.promote(store, "s", id_, utc_now())
        dreamt(store)
        assert text in document(store)
    with LocalAccess(store.workspace, Config(), "test") as access:
        asked = forget_memory.bind(session_id="s", instruction=f"id:{id_}", mode="hard", confirm=True)
        done = forget_memory.answer(access, asked)
    assert done.left["MEMORY.md"] == 1
    assert "MEMORY.md (1)" in done.message
    assert "dreamd forget" in done.message
    with working(tmp_path / "w") as store:
        assert store.crystals.get([record.crystal_id]) == []
        assert search(searched_in(store), text, utc_now()).hits == ()
        assert [
            event.reason
            for event in sessions.session_events(store.connection, "s").events
            if event.action == "purged"
        ] == ["id"]
        forget(store, ForgetRequest(text), utc_now())
        assert text not in document(store)


def test_a_search_asks_the_archive_only_when_it_is_told_to(tmp_path: Path) -> None:
    with working(tmp_path / "w") as store:
        said(store, "The kettle hums in the kitchen", "chat", priority="low")
        said(store, "The kettle whistles, says a page", "web", priority="low", source="web")
        said(store, "The kettle is mine", "kept", priority="high")
        for session in ("chat", "web", "kept"):
            sessions.close_session(store.connection, session, utc_now())
        sessions.hand_over(store, utc_now())

    def archived(**more: Any) -> list[str]:
        with LocalAccess(store.workspace, Config(), "test") as access:
            found = memory_search.answer(access, memory_search.bind(query="kettle", **more))
        assert [hit.text for hit in found.hits] in (["The kettle is mine"], [])
        return sorted(one.text for one in found.archived)

    assert archived() == []
    assert archived(archived=True) == ["The kettle hums in the kitchen", "The kettle whistles, says a page"]
    assert archived(archived=True, trust="agent") == ["The kettle hums in the kitchen"]
    assert archived(archived=True, session="web") == ["The kettle whistles, says a page"]
    assert archived(archived=True, origin="session") == []
