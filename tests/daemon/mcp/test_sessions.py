"""The toolset `sessions` with the SDK's client: published shapes, defaults and errors, and hostile ids."""

import json
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon.config.settings import Config, McpSection, ModelSection
from daemon.workspace.adoption import init_workspace
from state.stores.disk.workspace import Workspace
from tests.daemon.mcp.agents import MODES, asking, talking
from tests.support.model_characters import good
from tests.support.scripted_model import ScriptedModel

CONFIG = Config(mcp=McpSection(toolsets=("memory", "sessions")))
# "Same structure as working_memory_add" is said of all of them.
ITEM = set("id session_id content priority expires_at created_at access_count importance_score tags metadata".split())
LISTED = ITEM | {"state"}
FULL = LISTED | {"promoted_to_id", "relations"}
HOUR = timedelta(hours=1)


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return init_workspace(tmp_path / "here")


def agent_of(here: Workspace, mode: str = "auto", config: Config = CONFIG) -> Any:
    return talking(asking(here, config), mode, config)


def lifetime(memory: Any) -> timedelta:
    return datetime.fromisoformat(memory["expires_at"]) - datetime.fromisoformat(memory["created_at"])


@pytest.mark.parametrize("mode", MODES)
def test_the_fifteen_answer_in_the_published_shapes(here: Workspace, mode: str) -> None:
    with agent_of(here, mode) as agent:
        made = agent.added("Meeting notes", tags=["standup"], metadata={"duration": "15min"})
        assert made.keys() == ITEM | {"stored", "evicted"}
        assert (made["access_count"], made["tags"], made["metadata"]) == (1, ["standup"], {"duration": "15min"})
        assert (made["stored"], made["evicted"], lifetime(made)) == (True, [], 12 * HOUR)
        of = {"session_id": "s", "memory_id": made["id"]}
        got = agent.told("working_memory_get", **of)
        assert got.keys() == FULL
        assert (got["access_count"], got["promoted_to_id"], got["relations"]) == (2, None, [])
        for tool, shape in (("list", LISTED), ("export", FULL)):
            listed = agent.told(f"working_memory_{tool}", session_id="s")
            assert listed.keys() == {"memories", "count", "next_cursor", "session_id"}
            assert [one.keys() for one in listed["memories"]] == [shape]
        extended = agent.told("working_memory_extend_ttl", **of)
        assert extended.keys() == {"success", "new_expires_at", "message"}
        expected = datetime.fromisoformat(made["expires_at"]) + 12 * HOUR
        assert datetime.fromisoformat(extended["new_expires_at"]) == expected
        related = {"relation_type": "references", "target_element_id": "skill", "metadata": {"k": "v"}}
        done = agent.told("working_memory_relation_add", **of, **related)
        assert done == {"success": True, "message": "Relation added successfully"}
        assert agent.told("working_memory_get", **of)["relations"] == [related]
        found = agent.told("working_memory_search", session_id="s", query="MEETING")
        assert found.keys() == {"memories", "count", "query", "next_cursor"}
        assert [one.keys() for one in found["memories"]] == [LISTED | {"relevance_score"}]


@pytest.mark.parametrize("mode", MODES)
def test_promoting_and_what_is_told_of_a_session_answer_in_the_published_shapes(here: Workspace, mode: str) -> None:
    with agent_of(here, mode) as agent:
        made = agent.added("Meeting notes", metadata={"duration": "15min"})
        of = {"session_id": "s", "memory_id": made["id"]}
        record = agent.told("working_memory_promote", **of)
        assert record.keys() >= {"id", "content", "tags", "metadata", "relations"}
        assert record["id"].startswith(f"memory_promoted_{made['id']}_")
        promotion = {"promoted_from_working": "true", "promotion_reason": "manual", "duration": "15min"}
        assert promotion.items() <= record["metadata"].items()
        assert agent.told("working_memory_promote", **of) == record
        (promoted,) = agent.told("working_memory_list_promoted", session_id="s")["memories"]
        assert (promoted.keys(), promoted["promoted_to_id"]) == (FULL | {"promoted_at"}, record["id"])
        assert f"crystal {record['crystal_id'][:12]}" in agent.says("memory_search", query="meeting notes")

        agent.added("urgent", "critical")
        (pending,) = agent.told("working_memory_list_pending", session_id="s")["memories"]
        assert (pending.keys(), pending["should_promote"]) == (ITEM | {"should_promote"}, True)
        old = agent.added("Old info", "low")
        expired = agent.told("working_memory_expire", session_id="s", memory_id=old["id"])
        assert expired == {"success": True, "message": f"Memory expired: {old['id']}"}
        gone = agent.told("working_memory_list_expired", session_id="s")
        assert ([one["content"] for one in gone["memories"]], gone["count"]) == (["Old info"], 1)
        stats = agent.told("working_memory_stats", session_id="s")
        counts = {"total_count": 3, "active_count": 2, "expired_count": 1, "promoted_count": 1}
        assert ({"session_id": "s", "pending_promotion": 1} | counts).items() <= stats.items()
        assert stats["by_priority"] == {"low": 1, "medium": 0, "high": 1, "critical": 1}
        assert stats.keys() >= {"avg_access_count", "avg_importance", "next_to_leave"}
        assert stats["capacity"]["policy"] == "ttl"
        bulk = agent.told("working_memory_bulk_promote", session_id="s", memory_ids=[made["id"], "none"])
        assert (bulk["success"], bulk["failed"]) == (1, 1)
        (done, failed) = bulk["results"]
        assert (done["memory_id"], done["success"], done["long_term_id"]) == (made["id"], True, record["id"])
        assert (failed["memory_id"], failed["success"]) == ("none", False)
        assert "has no memory 'none'" in failed["error"]
        cleared = agent.told("working_memory_clear_session", session_id="s")
        assert (cleared["success"], cleared["message"]) == (True, "Session cleared: s")


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
