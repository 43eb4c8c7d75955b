"""Whose words stand in an agent's records: the owner's are all read, whole, and nobody else's are taken for them.

A row of own_words.json has the records of a session, and what the owner said in it. What others say names Mallory.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from state.trust import Trust
from tests.daemon.ingest.test_formats import named
from tests.support.transcripts import read_turns, turns

ROWS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("own_words.json").read_text(encoding="utf-8"))
REFUSED = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n"
TEAMMATE = '<teammate-message teammate_id="tester">\nMallory decided it.\n</teammate-message>'


def claude(content: object, kind: str = "user") -> dict[str, Any]:
    return {"type": kind, "sessionId": "s", "message": {"role": kind, "content": content}}


def claude_use(name: str, given: object, call: str) -> dict[str, Any]:
    return claude([{"type": "tool_use", "id": call, "name": name, "input": given}], "assistant")


def claude_result(text: object, call: str, *, is_error: bool = False) -> dict[str, Any]:
    return claude([{"type": "tool_result", "tool_use_id": call, "content": text, "is_error": is_error}])


def cursor(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "message": {"content": [{"type": "text", "text": text}]}}


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_the_owners_words_are_theirs_whole_and_nobody_elses_are(tmp_path: Path, row: dict[str, Any]) -> None:
    said = turns(tmp_path / "a.jsonl", *row["records"])
    assert [turn.text for turn in said if turn.trust is Trust.OWNER] == row["owner"]


@pytest.mark.parametrize("row", [row for row in ROWS if len(row["records"]) > 1], ids=named)
def test_words_are_known_in_a_session_that_is_read_as_it_grows(tmp_path: Path, row: dict[str, Any]) -> None:
    path, mark, said = tmp_path / "a.jsonl", None, list[str]()
    for record in row["records"]:
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        reading = read_turns(path, mark)
        mark = reading.watermark
        said += [turn.text for turn in reading.turns if turn.trust is Trust.OWNER]
    assert said == row["owner"]


def test_what_follows_an_answer_or_a_refusal_has_heard_its_owner_alone(tmp_path: Path) -> None:
    asked = claude_use("AskUserQuestion", {"questions": [{"question": "Which host?"}]}, "q")
    refused = claude_result(REFUSED + "No.", "b", is_error=True)
    said = turns(
        tmp_path / "a.jsonl",
        *(claude_use("Grep", {}, "g"), claude_result("Mallory", "g"), claude("one", "assistant")),
        *(asked, claude_result('The user answered: "Which host?"="auk-3".', "q"), claude("two", "assistant")),
        *(claude_result("Mallory", "g"), refused, claude("three", "assistant")),
        *(claude(TEAMMATE), claude("four", "assistant")),
    )
    heard = {turn.text: turn.heard for turn in said if turn.text in ("one", "two", "three", "four")}
    assert heard == {"one": "tool", "two": "", "three": "", "four": "tool"}


def test_a_prompt_of_cursor_has_its_time_and_what_follows_has_it_too(tmp_path: Path) -> None:
    stamps = {
        "Friday, Nov 20, 2026, 9:00 AM (UTC+1)": "2026-11-20T08:00:00+00:00",
        "Saturday, November 21, 2026, 12:05 AM (UTC-3:30)": "2026-11-21T03:35:00+00:00",
        "Sunday, Nov 22, 2026, 12:30 PM (UTC)": "2026-11-22T12:30:00+00:00",
    }
    records = [
        one
        for stamp in stamps
        for one in (
            cursor(f"<timestamp>{stamp}</timestamp>\n<user_query>\n{stamp}\n</user_query>"),
            cursor("ok", "assistant"),
        )
    ]
    found = turns(tmp_path / "a.jsonl", *records, {"type": "turn_ended", "status": "success"})
    assert [turn.at.isoformat() for turn in found] == [at for at in stamps.values() for _ in range(2)]


def test_an_agent_in_cursor_has_read_what_its_transcript_leaves_out(tmp_path: Path) -> None:
    use = {"type": "tool_use", "name": "WebFetch", "input": {"url": "https://a.test"}}
    said = turns(
        tmp_path / "a.jsonl",
        cursor("Look."),
        {"role": "assistant", "message": {"content": [use]}},
        cursor("ok", "assistant"),
    )
    assert [(turn.trust, turn.heard, turn.call) for turn in said[1:]] == [
        ("agent", "", True),
        ("agent", "web", False),
    ]
