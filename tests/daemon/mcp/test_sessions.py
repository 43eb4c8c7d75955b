"""The toolset `sessions` with the SDK's client: names, schemas, shapes, defaults and errors as they are published."""

import json
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from daemon.config.settings import Config, ModelSection
from daemon.workspace.adoption import init_workspace
from state.stores.disk.workspace import Workspace
from tests.daemon.mcp.agents import MODES, asking, in_process, refused, run, shown, told
from tests.daemon.mcp.sessions import CONFIG, added, agent
from tests.support.model_characters import good
from tests.support.scripted_model import ScriptedModel
from tests.support.working import SECRET

# "Same structure as working_memory_add" is said of all of them.
ITEM = {
    "id",
    "session_id",
    "content",
    "priority",
    "expires_at",
    "created_at",
    "access_count",
    "importance_score",
    "tags",
    "metadata",
}
LISTED = ITEM | {"state"}
HOUR = timedelta(hours=1)


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return init_workspace(tmp_path / "here")


def moments(memory: Any) -> tuple[datetime, datetime]:
    """When it was made and when it expires."""
    return datetime.fromisoformat(memory["created_at"]), datetime.fromisoformat(memory["expires_at"])


def test_an_answer_of_many_memories_is_a_page(here: Workspace) -> None:
    async def body() -> None:
        async with agent(here) as client:
            for number in range(4):
                await added(client, f"{number} " + "long " * 9_000)
            first = await told(client, "working_memory_list", session_id="s")
            assert (first["count"], len(json.dumps(first)) < 110_000) == (2, True)
            rest = await told(client, "working_memory_list", session_id="s", cursor=first["next_cursor"])
            assert (rest["count"], rest["next_cursor"]) == (2, None)
            listed = await told(client, "session_list", limit=1)
            assert ([one["session_id"] for one in listed["sessions"]], listed["next_cursor"]) == (["s"], None)

    run(body)


@pytest.mark.parametrize("mode", MODES)
def test_the_fifteen_answer_in_the_published_shapes(here: Workspace, mode: str) -> None:
    async def body() -> None:
        async with agent(here, mode) as client:
            made = await added(client, "Meeting notes", tags=["standup"], metadata={"duration": "15min"})
            assert made.keys() == ITEM | {"stored", "evicted"}
            assert (made["access_count"], made["tags"], made["metadata"]) == (1, ["standup"], {"duration": "15min"})
            assert (made["stored"], made["evicted"]) == (True, [])
            began, ends = moments(made)
            assert ends - began == 12 * HOUR
            of = {"session_id": "s", "memory_id": made["id"]}

            got = await told(client, "working_memory_get", **of)
            assert got.keys() == LISTED | {"promoted_to_id", "relations"}
            assert (got["access_count"], got["promoted_to_id"], got["relations"]) == (2, None, [])

            listed = await told(client, "working_memory_list", session_id="s")
            assert listed.keys() == {"memories", "count", "next_cursor", "session_id"}
            assert [one.keys() for one in listed["memories"]] == [LISTED]
            exported = await told(client, "working_memory_export", session_id="s")
            assert exported.keys() == listed.keys()
            assert [one.keys() for one in exported["memories"]] == [LISTED | {"promoted_to_id", "relations"}]

            extended = await told(client, "working_memory_extend_ttl", **of)
            assert extended.keys() == {"success", "new_expires_at", "message"}
            assert datetime.fromisoformat(extended["new_expires_at"]) == ends + 12 * HOUR

            related = {"relation_type": "references", "target_element_id": "skill"}
            done = await told(client, "working_memory_relation_add", **of, **related, metadata={"k": "v"})
            assert done == {"success": True, "message": "Relation added successfully"}
            got = await told(client, "working_memory_get", **of)
            assert got["relations"] == [{**related, "metadata": {"k": "v"}}]

            found = await told(client, "working_memory_search", session_id="s", query="MEETING")
            assert found.keys() == {"memories", "count", "query", "next_cursor"}
            assert [one.keys() for one in found["memories"]] == [LISTED | {"relevance_score"}]

    run(body)


@pytest.mark.parametrize("mode", MODES)
def test_promoting_and_what_is_told_of_a_session_answer_in_the_published_shapes(here: Workspace, mode: str) -> None:
    async def body() -> None:
        async with agent(here, mode) as client:
            made = await added(client, "Meeting notes", metadata={"duration": "15min"})
            of = {"session_id": "s", "memory_id": made["id"]}
            record = await told(client, "working_memory_promote", **of)
            assert record.keys() >= {"id", "content", "tags", "metadata", "relations"}
            assert record["id"].startswith(f"memory_promoted_{made['id']}_")
            assert record["metadata"]["promoted_from_working"] == "true"
            assert (record["metadata"]["promotion_reason"], record["metadata"]["duration"]) == ("manual", "15min")
            assert await told(client, "working_memory_promote", **of) == record
            promoted = await told(client, "working_memory_list_promoted", session_id="s")
            more = {"promoted_to_id", "promoted_at", "relations"}
            assert [one.keys() for one in promoted["memories"]] == [LISTED | more]
            assert promoted["memories"][0]["promoted_to_id"] == record["id"]
            found = await shown(client, "memory_search", query="meeting notes")
            assert f"crystal {record['crystal_id'][:12]}" in found

            await added(client, "urgent", "critical")
            pending = await told(client, "working_memory_list_pending", session_id="s")
            assert [one.keys() for one in pending["memories"]] == [ITEM | {"should_promote"}]
            assert [one["should_promote"] for one in pending["memories"]] == [True]

            old = await added(client, "Old info", "low")
            expired = await told(client, "working_memory_expire", session_id="s", memory_id=old["id"])
            assert expired == {"success": True, "message": f"Memory expired: {old['id']}"}
            gone = await told(client, "working_memory_list_expired", session_id="s")
            assert ([one["content"] for one in gone["memories"]], gone["count"]) == (["Old info"], 1)

            stats = await told(client, "working_memory_stats", session_id="s")
            assert stats["session_id"] == "s"
            counts = ("total_count", "active_count", "expired_count", "promoted_count", "pending_promotion")
            assert [stats[name] for name in counts] == [3, 2, 1, 1, 1]
            assert stats["by_priority"] == {"low": 1, "medium": 0, "high": 1, "critical": 1}
            assert stats.keys() >= {"avg_access_count", "avg_importance", "next_to_leave"}
            assert stats["capacity"]["policy"] == "ttl"

            bulk = await told(client, "working_memory_bulk_promote", session_id="s", memory_ids=[made["id"], "none"])
            assert (bulk["success"], bulk["failed"]) == (1, 1)
            assert [(one["memory_id"], one["success"]) for one in bulk["results"]] == [
                (made["id"], True),
                ("none", False),
            ]
            assert bulk["results"][0]["long_term_id"] == record["id"]
            assert "has no memory 'none'" in bulk["results"][1]["error"]

            cleared = await told(client, "working_memory_clear_session", session_id="s")
            assert (cleared["success"], cleared["message"]) == (True, "Session cleared: s")

    run(body)


def test_what_is_left_out_has_its_published_default(here: Workspace) -> None:
    async def body() -> None:
        async with agent(here) as client:
            made = await added(client, "plain", "low")
            assert (made["tags"], made["metadata"]) == ([], {})
            began, ends = moments(made)
            assert ends - began == HOUR
            await told(client, "working_memory_promote", session_id="s", memory_id=made["id"])
            brief = await added(client, "brief", "low")
            await told(client, "working_memory_expire", session_id="s", memory_id=brief["id"])
            for tool in ("working_memory_list", "working_memory_search"):
                assert (await told(client, tool, session_id="s"))["count"] == 0
                for more in ("include_expired", "include_promoted"):
                    assert (await told(client, tool, **{"session_id": "s", more: True}))["count"] == 1
            opened = await told(client, "session_open", session_id="new")
            assert (opened["policy"], opened["new"], opened["config"]["promote_score"]) == ("ttl", True, 0.8)

    run(body)


def test_a_full_session_says_what_left_in_few_words_and_it_is_recalled(here: Workspace) -> None:
    async def body() -> None:
        async with agent(here) as client:
            budget = {"soft_limit": 2, "hard_limit": 3, "batch_size": 1}
            await told(client, "session_open", session_id="s", policy="budget", config=budget)
            first = await added(client, "one", tags=["decision"])
            await added(client, "two", tags=["decision"])
            third = await added(client, "three", tags=["decision"])
            assert third["evicted"] == [{"memory_id": first["id"], "action": "archive", "reason": "hard_limit"}]
            found = await told(client, "memory_recall", session_id="s", query="one")
            (memory,) = found["memories"]
            assert (memory["id"], memory["content"], memory["state_reason"]) == (first["id"], "one", "hard_limit")
            closed = await told(client, "session_close", session_id="s")
            assert closed["archived"] == 2

    run(body)


@pytest.mark.parametrize(
    ("tool", "arguments", "fields"),
    [
        ("working_memory_add", {}, {"session_id", "content", "priority"}),
        ("working_memory_add", {"session_id": "s", "content": "c"}, {"priority"}),
        ("working_memory_add", {"session_id": "s", "content": "c", "priority": "urgent"}, {"priority"}),
        ("working_memory_add", {"session_id": "", "content": "", "priority": "low"}, {"session_id", "content"}),
        ("working_memory_add", {"session_id": 7, "content": ["c"], "priority": "low"}, {"session_id", "content"}),
        ("working_memory_add", {"session_id": "s", "content": "c", "priority": "low", "tags": "t"}, {"tags"}),
        ("working_memory_add", {"session_id": "s", "content": "c", "priority": "low", "tags": [""]}, {"tags.0"}),
        (
            "working_memory_add",
            {"session_id": "s", "content": "c", "priority": "low", "metadata": {"n": 1}},
            {"metadata.n"},
        ),
        (
            "working_memory_add",
            {"session_id": "s", "content": "c", "priority": "low", "importance": "0.5"},
            {"importance"},
        ),
        ("working_memory_add", {"session_id": "s", "content": "c", "priority": "low", "ttl": 5}, {"ttl"}),
        ("working_memory_add", {"session_id": "s", "content": "x" * 102_401, "priority": "low"}, {"content"}),
        ("working_memory_add", {"session_id": "s" * 10_001, "content": "c", "priority": "low"}, {"session_id"}),
        ("working_memory_get", {"session_id": "s"}, {"memory_id"}),
        ("working_memory_list", {"session_id": "s", "include_expired": "yes"}, {"include_expired"}),
        ("working_memory_list", {"session_id": "s", "include_promoted": 1}, {"include_promoted"}),
        ("working_memory_bulk_promote", {"session_id": "s", "memory_ids": "all"}, {"memory_ids"}),
        ("working_memory_bulk_promote", {"session_id": "s", "memory_ids": [None]}, {"memory_ids.0"}),
        (
            "working_memory_relation_add",
            {"session_id": "s", "memory_id": "m"},
            {"relation_type", "target_element_id"},
        ),
        ("working_memory_search", {"session_id": "s", "priority": "any"}, {"priority"}),
        ("working_memory_search", {"query": {"$ne": ""}}, {"session_id", "query"}),
        ("session_open", {"session_id": "s", "policy": "lru"}, {"policy"}),
        ("working_memory_list", {"session_id": "s", "limit": 0}, {"limit"}),
        ("memory_forget", {"session_id": "s", "instruction": "oldest", "mode": "gently"}, {"mode"}),
        ("memory_forget", {"session_id": "s", "instruction": "oldest", "confirm": "true"}, {"confirm"}),
        ("memory_context", {"session_id": "s", "strategy": "random"}, {"strategy"}),
        ("memory_recall", {"session_id": "s", "limit": 10**6}, {"limit"}),
        ("session_close", {"session_id": "s", "force": True}, {"force"}),
    ],
)
def test_the_schemas_are_enforced_and_nothing_is_stored(
    here: Workspace, tool: str, arguments: dict[str, Any], fields: set[str]
) -> None:
    async def body() -> None:
        async with agent(here) as client:
            error = await refused(client, tool, **arguments)
            assert error["code"] == "VALIDATION_ERROR"
            assert error["details"]["fields"].keys() == fields
            assert (await told(client, "working_memory_stats", session_id="s"))["total_count"] == 0

    run(body)


@pytest.mark.parametrize("mode", MODES)
def test_a_secret_is_replaced_before_it_is_stored(here: Workspace, mode: str) -> None:
    async def body() -> None:
        async with agent(here, mode) as client:
            made = await added(client, f"my token is {SECRET}")
            item = await told(client, "working_memory_get", session_id="s", memory_id=made["id"])
            assert item["content"] == "my token is [redacted: github token]"

    run(body)


@pytest.mark.parametrize("mode", MODES)
def test_errors_say_which_session_and_memory_they_are_about(here: Workspace, mode: str) -> None:
    async def body() -> None:
        async with agent(here, mode) as client:
            made = await added(client, " ")
            of = {"session_id": "s", "memory_id": made["id"]}
            error = await refused(client, "working_memory_promote", **of)
            assert (error["code"], error["details"]) == ("VALIDATION_ERROR", of)
            assert "blank" in error["error"]
            await told(client, "working_memory_expire", **of)
            error = await refused(client, "working_memory_get", **of)
            assert (error["code"], error["details"]) == ("EXPIRED", of)
            elsewhere = {**of, "session_id": "other"}
            error = await refused(client, "working_memory_get", **elsewhere)
            assert (error["code"], error["details"]) == ("NOT_FOUND", elsewhere)
            for wrong, code in (
                ({"instruction": "the token"}, "UNSUPPORTED_INSTRUCTION"),
                ({"instruction": "oldest", "mode": "hard"}, "CONFIRM_REQUIRED"),
                ({"instruction": "position:1"}, "NOT_FOUND"),
            ):
                error = await refused(client, "memory_forget", session_id="s", **wrong)
                assert (error["code"], error["details"]) == (code, {"session_id": "s"})
            settings = {"max_items": -1}
            error = await refused(client, "session_open", session_id="t", policy="bounded", config=settings)
            assert (error["code"], error["details"]) == ("VALIDATION_ERROR", {"session_id": "t"})
            assert "max_items" in error["error"]

    run(body)


def test_without_a_daemon_the_tools_work_beside_a_dream_of_the_same_server(here: Workspace) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def slowly(request: dict[str, Any], number: int) -> Any:
        asked.set()
        assert may_answer.wait(60)
        return good(request, number)

    with ScriptedModel(slowly) as model:
        config = replace_model(model)

        async def body() -> None:
            async with in_process(asking(here, config), "auto", config) as client, anyio.create_task_group() as group:
                await shown(client, "working_memory_note", note="Ada prefers tea over coffee")

                async def dream() -> None:
                    assert (await shown(client, "dream_now")).startswith("version 1, ")

                group.start_soon(dream)
                assert await anyio.to_thread.run_sync(asked.wait, 60)
                made = await added(client, "beside the dream", "critical")
                of = {"session_id": "s", "memory_id": made["id"]}
                assert (await told(client, "working_memory_get", **of))["promoted_to_id"]  # a crystal, too
                assert (await told(client, "working_memory_list", session_id="s", include_promoted=True))[
                    "count"
                ] == 1
                error = await refused(client, "dream_now")
                assert error["code"] == "BUSY"
                assert "kill" not in error["error"]
                may_answer.set()
            async with in_process(asking(here, config), "auto", config) as client:
                assert (await told(client, "working_memory_get", **of))["content"] == "beside the dream"

        try:
            run(body)
        finally:
            may_answer.set()
    assert "Ada prefers tea" in here.document.read_text()


def replace_model(model: ScriptedModel) -> Config:
    return CONFIG.model_copy(update={"model": ModelSection(name="openai/gpt-4o-mini", api_base=model.url)})
