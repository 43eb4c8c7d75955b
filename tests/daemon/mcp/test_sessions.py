"""The toolset `sessions` with the SDK's client: published shapes, defaults and errors, and hostile ids."""

import json
import threading
from datetime import datetime, timedelta
from typing import Any

import pytest

from daemon.config.settings import Config, McpSection, ModelSection
from state.stores.disk.workspace import Workspace
from tests.daemon.mcp.agents import MODES, asking, talking
from tests.support.model_characters import good
from tests.support.scripted_model import ScriptedModel

CONFIG = Config(mcp=McpSection(toolsets=("memory", "sessions")))
# "Same structure as working_memory_add" is said of all of them.
ITEM = set("id session_id content priority expires_at created_at access_count importance_score tags metadata".split())
LISTED = ITEM | {"state"}
FULL = LISTED | {"promoted_to_id", "relations"}
PAGE = {"memories", "count", "next_cursor", "session_id"}
DONE = {"success", "message"}
STATS = set(
    """session_id total_count active_count expired_count hidden_count promoted_count pending_promotion by_priority
    avg_access_count avg_importance capacity next_to_leave step""".split()
)
# In this order: a tool, what it is sent beside the session, the keys of its answer, and those of a memory in it.
SHAPES: tuple[tuple[str, str, set[str], set[str]], ...] = (
    ("get", "memory_id", FULL, set()),
    ("list", "", PAGE, LISTED),
    ("export", "", PAGE, FULL),
    ("extend_ttl", "memory_id", DONE | {"new_expires_at"}, set()),
    ("relation_add", "memory_id relation_type target_element_id metadata", DONE, set()),
    ("search", "query", PAGE - {"session_id"} | {"query"}, LISTED | {"relevance_score"}),
    ("list_pending", "", PAGE, ITEM | {"should_promote"}),
    ("promote", "memory_id", set("id content tags metadata relations created_at crystal_id".split()), set()),
    ("list_promoted", "", PAGE, FULL | {"promoted_at"}),
    ("stats", "", STATS, set()),
    ("bulk_promote", "memory_ids", {"success", "failed", "results"}, set()),
    ("expire", "memory_id", DONE, set()),
    ("list_expired", "", PAGE, LISTED),
    ("clear_session", "", DONE | {"archived"}, set()),
)
HOUR = timedelta(hours=1)


def agent_of(here: Workspace, mode: str = "auto", config: Config = CONFIG) -> Any:
    return talking(asking(here, config), mode, config)


def lifetime(memory: Any) -> timedelta:
    return datetime.fromisoformat(memory["expires_at"]) - datetime.fromisoformat(memory["created_at"])


@pytest.mark.parametrize("mode", MODES)
def test_the_fifteen_answer_in_the_published_shapes(here: Workspace, mode: str) -> None:
    with agent_of(here, mode) as agent:
        agent.added("urgent", "critical")
        made = agent.added("Meeting notes", tags=["standup"], metadata={"duration": "15min"})
        assert made.keys() == ITEM | {"stored", "evicted"}
        related = {"relation_type": "references", "target_element_id": "skill", "metadata": {"k": "v"}}
        sent = {"memory_id": made["id"], "memory_ids": [made["id"], "none"], "query": "MEETING", **related}
        told = {}
        for tool, names, keys, inner in SHAPES:
            fields = {name: sent[name] for name in names.split()}
            told[tool] = answer = agent.told(f"working_memory_{tool}", session_id="s", **fields)
            assert answer.keys() == keys, tool
            assert {frozenset(one) for one in answer.get("memories", ())} == (
                {frozenset(inner)} if inner else set()
            ), tool
        assert (made["access_count"], told["get"]["access_count"], lifetime(made)) == (1, 2, 12 * HOUR)
        assert told["extend_ttl"]["new_expires_at"] == told["list_promoted"]["memories"][0]["expires_at"]
        assert told["relation_add"] == {"success": True, "message": "Relation added successfully"}
        assert (told["export"]["count"], told["promote"]["relations"]) == (2, [related])
        assert told["promote"]["id"].startswith(f"memory_promoted_{made['id']}_")
        promotion = {"promoted_from_working": "true", "promotion_reason": "manual", "duration": "15min"}
        assert promotion.items() <= told["promote"]["metadata"].items()
        assert f"crystal {told['promote']['crystal_id'][:12]}" in agent.says("memory_search", query="meeting notes")
        counts = {"total_count": 2, "active_count": 2, "promoted_count": 1, "pending_promotion": 1}
        assert counts.items() <= told["stats"].items()
        assert told["stats"]["by_priority"] == {"low": 0, "medium": 0, "high": 1, "critical": 1}
        done, failed = told["bulk_promote"]["results"]
        assert (told["bulk_promote"]["success"], done["long_term_id"]) == (1, told["promote"]["id"])
        assert (failed["success"], "has no memory 'none'" in failed["error"]) == (False, True)
        assert told["expire"] == {"success": True, "message": f"Memory expired: {made['id']}"}
        assert told["clear_session"]["message"] == "Session cleared: s"


def test_an_answer_of_many_memories_is_a_page(here: Workspace) -> None:
    with agent_of(here) as agent:
        for number in range(4):
            agent.added(f"{number} " + "long " * 9_000)
        first = agent.told("working_memory_list", session_id="s")
        assert (first["count"], len(json.dumps(first)) < 110_000) == (2, True)
        rest = agent.told("working_memory_list", session_id="s", cursor=first["next_cursor"])
        assert (rest["count"], rest["next_cursor"]) == (2, None)
        listed = agent.told("session_list", limit=1)
        assert ([one["session_id"] for one in listed["sessions"]], listed["next_cursor"]) == (["s"], None)


def test_a_full_session_says_what_left_in_few_words_and_it_is_recalled(here: Workspace) -> None:
    with agent_of(here) as agent:
        budget = {"soft_limit": 2, "hard_limit": 3, "batch_size": 1}
        agent.told("session_open", session_id="s", policy="budget", config=budget)
        first, _, third = (agent.added(text, tags=["decision"]) for text in ("one", "two", "three"))
        assert third["evicted"] == [{"memory_id": first["id"], "action": "archive", "reason": "hard_limit"}]
        (memory,) = agent.told("memory_recall", session_id="s", query="one")["memories"]
        assert (memory["id"], memory["content"], memory["state_reason"]) == (first["id"], "one", "hard_limit")
        assert agent.told("session_close", session_id="s")["archived"] == 2


def test_without_a_daemon_the_tools_work_beside_a_dream_of_the_same_server(here: Workspace) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def slowly(request: dict[str, Any], number: int) -> Any:
        asked.set()
        assert may_answer.wait(60)
        return good(request, number)

    with ScriptedModel(slowly) as model:
        config = CONFIG.model_copy(update={"model": ModelSection(name="openai/gpt-4o-mini", api_base=model.url)})
        try:
            with agent_of(here, config=config) as agent:
                agent.says("working_memory_note", note="Ada prefers tea over coffee")
                dream = agent.portal.start_task_soon(agent.client.call_tool, "dream_now", {})
                assert asked.wait(60)
                of = {"session_id": "s", "memory_id": agent.added("beside the dream", "critical")["id"]}
                assert agent.told("working_memory_get", **of)["promoted_to_id"]  # a crystal, too
                assert agent.told("working_memory_list", session_id="s", include_promoted=True)["count"] == 1
                error = agent.refused("dream_now")
                assert (error["code"], "kill" in error["error"]) == ("BUSY", False)
                may_answer.set()
                assert not dream.result(60).is_error
                assert agent.told("working_memory_get", **of)["content"] == "beside the dream"
        finally:
            may_answer.set()
    assert "Ada prefers tea" in here.document.read_text()
