"""`dreamd session`: what is in a session, what left it, when and why; with a daemon and without."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from daemon import sessions
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.stores import utc_now
from state.stores.disk.workspace import Workspace
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import running
from tests.doors.rows import HOSTILE
from tests.support.running import Caller, process
from tests.support.transcript import Transcript
from tests.support.working import working

STRANGE = "a session\nwith lines\x1b[2J\tand \u202eturns"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with a session of each kind: one that is full, one of a strange name, one that is over."""
    root = tmp_path / "here"
    with working(root) as store:
        now = utc_now() - timedelta(minutes=5)
        sessions.session_open(store, "full", now, "bounded", {"max_items": 2})
        for text, importance in (("Lost", 0.2), ("Tea at four", 0.9), ("A pot\nof tea", 0.5)):
            sessions.memorize(store, "full", sessions.Draft(text, importance=importance, tags=["tea\nparty"]), now)
        sessions.add(store, STRANGE, sessions.Draft("forged\n2026-01-01 00:00:00  purged", "low"), now)
        sessions.add(store, "over", sessions.Draft("End", "high"), now)
        sessions.close_session(store.connection, "over", now)
    return open_workspace(root)


@pytest.fixture(params=["no daemon", "daemon"])
def told(
    request: pytest.FixtureRequest, workspace: Workspace, dreamd: Caller, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Transcript]:
    """The command. A daemon does the work where there is one: nobody else has the lock."""
    transcript = Transcript(dreamd, workspace.root, monkeypatch)
    transcript.names["strange"] = STRANGE
    if request.param == "no daemon":
        yield transcript
        return
    house = OwnHouse()
    house.register(workspace.root)
    with running(house) as server:
        monkeypatch.setenv("DREAMD_SOCKET", str(server.path))
        yield transcript
        assert b'dreamd_requests_total{code="OK",operation="session_list"}' in server.ask("GET", "/metrics").body


def test_sessions_are_listed_shown_and_counted(told: Transcript) -> None:
    ended = told("""
        $ dreamd session list --json
        {
        "sessions": [
        {
        "session_id": "over",…"closed_at": "…"session_id": "full",…"next_cursor": null
        }
        $ dreamd session list
        policy …status …items …tokens …full …opened …session
        ttl …closed …over
        ttl …healthy …a session\\nwith lines\\x1b[2J\\tand \\u202eturns
        bounded …approaching …2 …full
        $ dreamd session show full
        …
        A pot
        of tea
        medium, importance 0.50, …tags tea\\nparty
        …
        Tea at four
        medium, importance 0.90, …
        2 items
        $ dreamd session show over
        no items
        $ dreamd session show full --json
        …"content": "A pot\\nof tea",…"content": "Tea at four",…"count": 2,…
        $ dreamd session stats full
        policy       bounded, …
        items        2 of 2 (2 active, 0 expired)
        tokens       … of 4,000
        promoted     0, 0 pending
        priorities   0 low, 2 medium, 0 high, 0 critical
        next         …archive…
        $ dreamd session stats full --json
        …"total_count": 2,…"max_items": 2,…
        $ dreamd session stats over
        policy …
        $ dreamd session show <strange>
        …
        forged
        2026-01-01 00:00:00  purged
        …
    """)
    assert "  forged\n  2026-01-01 00:00:00  purged\n" in ended.out
    assert "\x1b" not in ended.out


def test_events_tell_what_left_when_and_why_and_it_can_be_put_back(told: Transcript) -> None:
    told("""
        $ dreamd session list
        …
        $ dreamd session events full --limit 1
        …archived   <gone>  (no room, of low importance)…
        $ dreamd session events full
        …archived …added …added …added …opened…
        $ dreamd session events full <gone> --json
        …"action": "added",…"action": "archived",…
        $ dreamd session restore full <gone>
        <gone> is not in the session: by its policy it would leave first
        <gone> left: …
        [1]
        $ dreamd session events full <gone>
        …added …archived …restored …archived …
        $ dreamd session events over
        …archived   <end>…
        $ dreamd session restore over <end>
        <end> is in the session
        $ dreamd session restore over <end> --json
        …"restored": true,…"content": "End",…
    """)


def test_what_never_was_is_not_found(told: Transcript) -> None:
    for what in ("show", "stats", "events"):
        told(f"""
            $ dreamd session {what} nobody --json
            …"code": "NOT_FOUND", "details": {{"session_id": "nobody"}}…
            ! dreamd: there is no session 'nobody'…
            [1]
        """)
    for words in ("restore full nobody", "restore nobody x", "events full nobody"):
        told(f'$ dreamd session {words} --json\n…"code": "NOT_FOUND",…"memory_id": …\n! dreamd: …\n[1]')
    assert "nobody" not in told("$ dreamd session list\n…").out  # looking made none


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "WHAT"),
        ("forget full", "forget"),
        *((what, "which session?") for what in ("show", "stats", "events", "restore")),
        ("restore full", "which memory?"),
        ("list full", "takes no session"),
        ("show full x", "takes no memory"),
        ("show ''", "SESSION: "),
        (f"show {'s' * 10_001}", "SESSION: "),
        ("show 'half \udcff'", "SESSION: "),
        ("restore full ''", "MEMORY: "),
        ("events full --limit 0", "limit: "),
        ("events full --limit much", "--limit"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    workspace: Workspace, dreamd: Caller, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    told = Transcript(dreamd, workspace.root, monkeypatch)
    ended = told(f'$ dreamd session {words} --json\n…"code": "VALIDATION_ERROR",…\n! dreamd: …\n[2]')
    assert said in ended.json["error"]


def test_it_is_shown_beside_another_owner_but_not_changed(
    workspace: Workspace, dreamd: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    Transcript(dreamd, workspace.root, monkeypatch)("""
        $ busy dreamd session show full
        …2 items
        $ busy dreamd session restore full x
        ! dreamd: …another command…
        [5]
    """)


def test_without_a_session_it_says_who_makes_one_and_any_id_may_be_named(tmp_path: Path) -> None:
    root = init_workspace(tmp_path / "empty").root
    assert "working_memory_add" in process("session", "list", "-w", root).out
    ended = process("session", "show", "-w", root, "--json", "--", "-minus")
    assert (ended.status, ended.json["details"]) == (1, {"session_id": "-minus"})
    hostile = HOSTILE.replace("\0", "")  # which no argument can hold
    with working(tmp_path / "w") as store:
        sessions.add(store, hostile, sessions.Draft("inside", "low"), utc_now())
    ended = process("session", "show", "-w", tmp_path / "w", "--", hostile)
    assert (ended.status, ended.err, "inside" in ended.out) == (0, "", True)
