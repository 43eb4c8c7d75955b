"""`dreamd session`: what is in a session, what left it, when and why; with a daemon and without."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon import sessions
from daemon.config.registry import name_of
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.stores import utc_now
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import running
from tests.support.running import Caller, process
from tests.support.session_talk import HOSTILE
from tests.support.working import working

STRANGE = "a session\nwith lines\x1b[2J\tand \u202eturns"


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    """A workspace with a session of each kind: one that is full, one of a strange name, one that is over."""
    root = tmp_path / "here"
    with working(root) as store:
        now = utc_now() - timedelta(minutes=5)
        sessions.session_open(store, "full", now, "bounded", {"max_items": 2})
        for text, importance in (("The lost thought", 0.2), ("Tea at four", 0.9), ("A pot\nof tea", 0.5)):
            sessions.memorize(store, "full", sessions.Draft(text, importance=importance, tags=["tea\nparty"]), now)
        sessions.add(store, STRANGE, sessions.Draft("forged\n2026-01-01 00:00:00  purged", "low"), now)
        sessions.add(store, "over", sessions.Draft("The end", "high"), now)
        sessions.close_session(store, "over", now)
    return open_workspace(root)


@pytest.fixture(params=["no daemon", "daemon"])
def dreamd(
    request: pytest.FixtureRequest,
    here: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Caller]:
    """The command. A daemon does the work where there is one: nobody else has the lock."""
    if request.param == "no daemon":
        yield Caller(capsys)
        return
    house = OwnHouse()
    house.register(here.root)
    with running(house) as server:
        monkeypatch.setenv("DREAMD_SOCKET", str(server.path))
        yield Caller(capsys)
        assert b'dreamd_requests_total{code="OK",operation="session_list"}' in server.ask("GET", "/metrics").body


def call(dreamd: Caller, here: Workspace, *words: str | int) -> Any:
    return dreamd("session", *words, "-w", here.root)


def left(dreamd: Caller, here: Workspace) -> str:
    """The id of what left the full session."""
    events = call(dreamd, here, "events", "full", "--json").json
    (gone,) = [one for one in events if one["action"] == "archived"]
    return str(gone["item"])


def test_every_session_is_listed_in_a_line_of_its_own(dreamd: Caller, here: Workspace) -> None:
    ended = call(dreamd, here, "list")
    assert ended.status == 0
    head, *rows = ended.out.splitlines()
    assert head.split() == ["policy", "status", "items", "tokens", "full", "opened", "session"]
    assert [row.split()[:2] for row in rows] == [["ttl", "closed"], ["ttl", "healthy"], ["bounded", "approaching"]]
    assert [row.split("  ")[-1] for row in rows] == [
        "over",
        "a session\\nwith lines\\x1b[2J\\tand \\u202eturns",
        "full",
    ]
    listed = call(dreamd, here, "list", "--json").json
    assert [one["session_id"] for one in listed] == ["over", STRANGE, "full"]
    assert [one["count"] for one in listed] == [0, 1, 2]
    assert listed[0]["closed_at"]


def test_show_tells_what_is_in_it(dreamd: Caller, here: Workspace) -> None:
    call(dreamd, here, "list")
    ended = call(dreamd, here, "show", "full")
    assert ended.status == 0
    assert "Tea at four" in ended.out
    assert "  A pot\n  of tea\n" in ended.out
    assert "medium, importance 0.90, 1 access, tags tea\\nparty" in ended.out
    assert "lost" not in ended.out
    assert ended.err.endswith("2 items\n")
    shown = call(dreamd, here, "show", "full", "--json").json
    assert [one["content"] for one in shown["memories"]] == ["A pot\nof tea", "Tea at four"]
    strange = call(dreamd, here, "show", STRANGE)
    assert "  forged\n  2026-01-01 00:00:00  purged\n" in strange.out
    assert all(row.startswith(("working_memory_", "  ")) for row in strange.out.splitlines())
    assert "\x1b" not in strange.out
    over = call(dreamd, here, "show", "over")
    assert (over.status, over.out, over.err) == (0, "", "no items\n")


def test_stats_tell_counts_limits_and_who_leaves_next(dreamd: Caller, here: Workspace) -> None:
    call(dreamd, here, "list")
    rows = dict(row.split(maxsplit=1) for row in call(dreamd, here, "stats", "full").out.splitlines())
    assert rows["policy"].startswith("bounded, ")
    assert rows["items"] == "2 of 2 (2 active, 0 expired)"
    assert rows["tokens"].endswith(" of 4,000")
    assert rows["promoted"] == "0, 0 pending"
    assert rows["priorities"] == "0 low, 2 medium, 0 high, 0 critical"
    assert "archive" in rows["next"]
    value = call(dreamd, here, "stats", "full", "--json").json
    assert (value["total_count"], value["capacity"]["max_items"]) == (2, 2)
    assert call(dreamd, here, "stats", "over").status == 0


def test_events_tell_what_left_when_and_why_and_it_can_be_put_back(dreamd: Caller, here: Workspace) -> None:
    call(dreamd, here, "list")
    ended = call(dreamd, here, "events", "full")
    assert ended.status == 0
    rows = [row.split(maxsplit=3) for row in ended.out.splitlines()]
    assert [row[2] for row in rows] == ["archived", "added", "added", "added", "opened"]
    assert rows[0][3].endswith("(capacity_exceeded_low)")
    assert len(call(dreamd, here, "events", "full", "--limit", 2).out.splitlines()) == 2

    gone = left(dreamd, here)
    story = call(dreamd, here, "events", "full", gone, "--json").json
    assert [one["action"] for one in story] == ["added", "archived"]

    ended = call(dreamd, here, "restore", "full", gone)
    assert ended.status == 1  # the weakest in a full session is its own victim
    assert f"{gone} is not in the session" in ended.out
    call(dreamd, here, "list")
    story = call(dreamd, here, "events", "full", gone, "--json").json
    assert [one["action"] for one in story] == ["added", "archived", "restored", "archived"]

    (end,) = [one for one in call(dreamd, here, "events", "over", "--json").json if one["action"] == "archived"]
    ended = call(dreamd, here, "restore", "over", end["item"])
    assert (ended.status, ended.out) == (0, f"{end['item']} is in the session\n")
    again = call(dreamd, here, "restore", "over", end["item"], "--json")
    assert (again.status, again.json["restored"], again.json["memory"]["content"]) == (0, True, "The end")


@pytest.mark.parametrize("what", ["show", "stats", "events"])
def test_a_session_that_never_was_is_not_found(dreamd: Caller, here: Workspace, what: str) -> None:
    call(dreamd, here, "list")
    ended = call(dreamd, here, what, "nobody's", "--json")
    assert (ended.status, ended.json["code"]) == (1, "NOT_FOUND")
    assert ended.json["details"] == {"session_id": "nobody's"}
    assert ended.err.startswith('dreamd: there is no session "nobody\'s"')
    assert call(dreamd, here, "list").out.count("nobody") == 0  # looking made none


def test_a_memory_that_never_was_is_not_found(dreamd: Caller, here: Workspace) -> None:
    call(dreamd, here, "list")
    for words in (("restore", "full", "nobody's"), ("restore", "nobody's", "x"), ("events", "full", "nobody's")):
        ended = call(dreamd, here, *words, "--json")
        assert (ended.status, ended.json["code"]) == (1, "NOT_FOUND")
        assert ended.json["details"] == {"session_id": words[1], "memory_id": words[2]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "WHAT"),
        (("forget", "full"), "forget"),
        (("show",), "which session?"),
        (("stats",), "which session?"),
        (("events",), "which session?"),
        (("restore",), "which session?"),
        (("restore", "full"), "which memory?"),
        (("list", "full"), "takes no session"),
        (("show", "full", "x"), "takes no memory"),
        (("show", ""), "SESSION: "),
        (("show", "s" * 10_001), "SESSION: "),
        (("show", "half \udcff"), "SESSION: "),
        (("restore", "full", ""), "MEMORY: "),
        (("events", "full", "--limit", "0"), "limit: "),
        (("events", "full", "--limit", "much"), "--limit"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    here: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
) -> None:
    ended = call(Caller(capsys), here, *words, "--json")
    assert (ended.status, ended.json["code"]) == (2, "VALIDATION_ERROR")
    assert said in ended.json["error"]
    assert "defect" not in ended.err


def test_it_is_shown_beside_another_owner_but_not_changed(here: Workspace) -> None:
    with acquire(here, "a long dream"):
        shown = process("session", "show", "full", "-w", str(here.root), "--json")
        assert len(json.loads(shown.out)["memories"]) == 2
        ended = process("session", "restore", "full", "x", "-w", str(here.root), "--json")
    assert (ended.status, json.loads(ended.out)["code"]) == (5, "BUSY")


def test_without_a_session_it_says_who_makes_one_and_the_help_says_all(tmp_path: Path) -> None:
    root = init_workspace(tmp_path / "empty").root
    ended = process("session", "list", "-w", str(root))
    assert (ended.status, ended.out) == (0, "")
    assert "working_memory_add" in ended.err
    assert process("session", "list", "-w", str(root), "--json").out == "[]\n"
    shown = process("session", "--help").out
    for what in ("list ", "show SESSION", "stats SESSION", "events SESSION [MEMORY]", "restore SESSION MEMORY"):
        assert what in shown
    ended = process("session", "show", "-w", str(root), "--json", "--", "-minus")
    assert (ended.status, json.loads(ended.out)["details"]) == (1, {"session_id": "-minus"})


def test_a_hostile_id_is_data_on_the_command_line_too(tmp_path: Path) -> None:
    hostile = HOSTILE.replace("\0", "")  # which no argument can hold
    with working(tmp_path / "w") as store:
        sessions.add(store, hostile, sessions.Draft("inside", "low"), utc_now())
    ended = process("session", "show", "-w", str(tmp_path / "w"), "--", hostile)
    assert (ended.status, ended.err) == (0, "1 item\n")
    assert "inside" in ended.out
    assert name_of(tmp_path / "w")
