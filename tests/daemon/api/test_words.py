"""What people read is in words of people, in their own time, and fits a terminal."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from daemon.api.operations.dreams import dream_status
from daemon.api.operations.memory import Versions, history
from daemon.api.words import CAUSES, cause_words, outcome_words, reason_words
from daemon.config.settings import Config
from daemon.workspace.status import LastDream, Problem, Status, status
from state.document.operations import Refusal
from state.dream import Reason
from state.stores.disk.workspace import Workspace
from state.stores.history.lineage import Version

AT = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
OURS = re.compile(r"committed|pressure|guard|cosine|extractive|manual|rejected")
VERSION = Version(
    number=1_204, at=AT, cause="dream", reason="pressure", dream="20260328T233000000000Z",
    model="openrouter/anthropic/claude-sonnet-4.5", calls=3, tokens=12_400, usd=0.0312, seconds=17.0,
    characters=7_900, added=12, revised=10, recalled=0, evicted=11, closed=0, asked=0, notes=200,
)  # fmt: skip
DREAM = LastDream("20260328T233000000000Z", AT, "pressure", "committed", "", 3, "extractive", 0, 0.0)


def test_the_history_fits_a_terminal_and_shows_the_time_of_its_owner() -> None:
    edits = (replace(VERSION, cause=cause, reason="version 1203", revised=0, evicted=0) for cause in CAUSES)
    rows = history.text_of(Versions((VERSION, *edits)), BERLIN).splitlines()
    assert max(map(len, rows)) <= 80
    assert rows[0].startswith("version  when (CET) ")
    told = r"1204 +2026-03-29 00:30  200 +\$0\.0312  learnt 12, changed 10, put away 11"
    assert re.fullmatch(told, rows[1])
    assert "restored version 1203: learnt 12" in "\n".join(rows)
    assert not OURS.search("\n".join(rows))
    summer = replace(VERSION, at=datetime(2026, 3, 29, 12, tzinfo=UTC))
    changed = history.text_of(Versions((summer, VERSION)), BERLIN).splitlines()
    assert ("2026-03-29 14:00 CEST" in changed[1], "2026-03-29 00:30 CET" in changed[2]) == (True, True)


def test_no_reason_and_no_outcome_is_told_in_a_code_of_ours() -> None:
    said = [*map(reason_words, Reason), *map(outcome_words, ("committed", "rejected", "skipped", "running"))]
    assert [one for one in [*said, *map(cause_words, CAUSES)] if OURS.search(one)] == []


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "● All is well."),
        ({"proposals": 2}, "▲ 2 proposals wait for you."),
        ({"last_dream": replace(DREAM, outcome="failed", version=None)}, "■ The last dream failed: its notes wait."),
        ({"last_dream": replace(DREAM, outcome="rejected")}, "■ The last dream was refused: its notes wait."),
        ({"proposals": 1, "problems": (Problem("the disk is full"),)}, "■ 1 problem: see below."),
        ({"problems": (Problem("a dream was interrupted", stops=False),)}, "▲ 1 problem: see below."),
    ],
)
def test_the_status_begins_with_a_verdict(here: Workspace, changes: dict[str, object], verdict: str) -> None:
    value: Status = status(here, Config(), AT)
    value = replace(value, last_dream=DREAM, rejections=(Refusal("bounds", "operation", "too long"),))
    said = dream_status.text_of(replace(value, **changes), BERLIN)  # type: ignore[arg-type]
    assert said.splitlines()[0] == verdict
    assert not OURS.search(said)
