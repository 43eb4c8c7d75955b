"""The recipes for programs that import dreamd, followed: its client, and the store of a LangGraph agent."""

import pytest

from tests.support.recipes import Follower, follower
from tests.support.scripted_model import ScriptedModel, in_turn
from tests.support.serving import Home, noted

OLD = "The deployment runs on port 8443"


@pytest.fixture
def me(home: Home) -> Follower:
    return follower(home)


def _asking(model: ScriptedModel) -> dict[str, str]:
    return {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "sk-of-a-test", "AGENT_MODEL": "scripted"}


@pytest.mark.full
def test_a_program_wakes_up_looks_up_and_notes(me: Follower) -> None:
    noted(me.workspace, [OLD])
    with ScriptedModel(in_turn("At port 8443.")) as model, me.served() as daemon:
        words = (str(me.workspace.root), "Where is the deployment?")
        ended = me.example("python_client.py", *words, **_asking(model))
        assert (ended.status, ended.out) == (0, "At port 8443.\n"), ended.err
        daemon.until(lambda: daemon.status(me.workspace).last_dream)
        assert any("At port 8443." in text for text in daemon.found(me.workspace, "the deployment"))
    system, _ = model.requests[0]["messages"]
    assert system["content"].count(OLD) == 2  # woken with it, and found


def test_a_program_without_a_daemon_says_what_to_do(me: Follower) -> None:
    ended = me.example("python_client.py", str(me.workspace.root), "x", OPENAI_API_KEY="sk-of-a-test")
    assert ended.status == 1
    assert "'dreamd serve' starts one" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.full
def test_a_graph_knows_in_another_thread_what_its_user_said(me: Follower) -> None:
    with ScriptedModel(in_turn("Noted.", "Tea.", "I do not know you.")) as model, me.served():
        said = [("ada", "I prefer tea over coffee"), ("ada", "What do I like to drink?"), ("bob", "What do I drink?")]
        for user, words in said:
            ended = me.example("langgraph_store.py", str(me.workspace.root), user, words, **_asking(model))
            assert ended.status == 0, ended.err
    systems = [request["messages"][0]["content"] for request in model.requests]
    assert ["I prefer tea over coffee" in text for text in systems] == [False, True, False]
