"""What dreamd said to an agent is not learnt again from the agent's transcript, and what it learnt once goes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daemon.config.settings import Config
from daemon.ingest.formats.own_answers import is_own_answer
from daemon.ingest.transcripts import absorb_transcripts
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import open_locked, utc_now
from state.scratch import Note
from state.stores.disk.lock import acquire
from state.stores.history.inbox import NoteInbox
from tests.daemon.mcp.agents import asking, talking
from tests.support.transcripts import turns

FACT = "The harbour crane in Trondheim is serviced by Ada every third Tuesday"
QUESTION = "Who services the harbour crane in Trondheim?"
OTHER = '{"results": [{"title": "Crane", "score": 0.7, "url": "https://a.test"}], "count": 1}'


def claude(call: str, tool: str, given: dict[str, Any], answer: str) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": call, "name": tool, "input": given}
    result = {"type": "tool_result", "tool_use_id": call, "content": [{"type": "text", "text": answer}]}
    return [
        {"type": kind, "sessionId": "s1", "message": {"role": kind, "content": [part]}}
        for kind, part in (("assistant", use), ("user", result))
    ]


def codex(call: str, tool: str, given: dict[str, Any], answer: str) -> list[dict[str, Any]]:
    server, _, name = tool.rpartition("__")
    asked = {"type": "function_call", "call_id": call, "name": name, "arguments": json.dumps(given)}
    asked |= {"namespace": f"{server}__"} if server else {}
    output = {"type": "function_call_output", "call_id": call, "output": answer}
    return [{"type": "response_item", "payload": one} for one in (asked, output)]


def openai(call: str, tool: str, given: dict[str, Any], answer: str) -> list[dict[str, Any]]:
    asked = {"id": call, "function": {"name": tool.rpartition("__")[2], "arguments": json.dumps(given)}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": call, "content": answer},
    ]


def texts(path: Path, *records: object) -> list[str]:
    return [turn.text for turn in turns(path, *records)]


@pytest.mark.parametrize("form", [claude, codex, openai])
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("mcp__dreamd__memory_search", {"query": QUESTION}),
        ("mcp__dreamd__dream_status", {}),
        ("session_open", {"goal": "Cranes"}),
        ("session_list", {}),
        ("session_close", {"session_id": "s-1"}),
        ("mcp_dreamd_memory_search", {"query": QUESTION}),
        ("ReadMcpResourceTool", {"server": "dreamd", "uri": "memory://bootstrap"}),
        ("Bash", {"command": f'cd /srv && dreamd search "{QUESTION}"'}),
        ("Bash", {"command": "DREAMD_LOG=off ~/.local/bin/dreamd status --json | jq ."}),
        ("Bash", {"command": "sudo -u ada true; python3 -m daemon status"}),
        ("shell", {"command": ["bash", "-lc", "dreamd note 'x'"]}),
    ],
)
def test_neither_a_call_of_dreamd_nor_its_answer_is_read(
    tmp_path: Path, form: Callable[..., list[dict[str, Any]]], tool: str, given: dict[str, Any]
) -> None:
    records = [
        *form("t1", tool, given, f"{FACT}, whatever form it has"),
        *form("t2", "Bash", {"command": "ls"}, "a.py"),
    ]
    assert texts(tmp_path / "a.jsonl", *records) == ["Bash: ls", "a.py"]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("mcp__mem0__memory_search", {"query": "crane"}),
        ("dreamdiary_read", {"query": "crane"}),
        ("Read", {"file_path": "/srv/dreamd/README.md"}),
        *[
            ("Bash", {"command": command})
            for command in (
                "cd ~/src/dreamd && make test",
                "git clone https://a.test/dreamd",
                "grep -rn dreamd docs",
                "echo my dreamd is old",
                "dreamd-other run",
            )
        ],
    ],
)
def test_what_others_say_is_read(tmp_path: Path, tool: str, given: dict[str, Any]) -> None:
    assert len(texts(tmp_path / "a.jsonl", *claude("t1", tool, given, OTHER))) == 2


def test_an_answer_is_known_by_its_mark_wherever_it_stands(tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "w")
    NoteInbox(workspace).append(Note(FACT, utc_now(), 0.8))
    with talking(asking(workspace)) as agent:
        answer, bootstrap = agent.says("memory_search", query=QUESTION), agent.says("memory_bootstrap")
    forms: tuple[object, ...] = (answer, [{"type": "text", "text": answer}])
    answers = [answer, bootstrap, *map(json.dumps, forms), json.dumps({"wrapped": answer})[5:]]
    assert [answer for answer in answers if not is_own_answer(answer)] == []
    for answer in answers:
        assert texts(tmp_path / "a.jsonl", {"role": "tool", "content": answer}) == []


def test_a_fact_stays_first_however_often_an_agent_asks_for_it(tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "w")
    for text in (FACT, *(f"Crane number {n} in Bergen was painted by Bo" for n in range(9))):
        NoteInbox(workspace).append(Note(text, utc_now(), 0.6))
    for session in range(8):
        with talking(asking(workspace)) as agent:
            answer = agent.says("memory_search", query=QUESTION)
        assert answer.splitlines()[1] == f"1. {FACT}"
        path = workspace.root / f"{session}.jsonl"
        texts(path, *claude("t1", "mcp__dreamd__memory_search", {"query": QUESTION}, json.dumps(answer)))
        with (
            acquire(workspace, "a test", 60) as lock,
            open_locked(lock, Config()) as store,
        ):  # its index may be told still
            absorb_transcripts(store, [path], utc_now())
