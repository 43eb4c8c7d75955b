"""Forgetting while a daemon keeps the workspace: it does it, drops what it has open, and goes on."""

import http.client
import json
from contextlib import closing
from typing import Any

import pytest

from daemon.api.operations.sessions import add, list_memories
from daemon.api.operations.upkeep import forget_text
from daemon.config.registry import name_of
from state.errors import ConfirmRequiredError
from tests.support import lived
from tests.support.forgettable import assert_gone
from tests.support.serving import PATIENCE_SECONDS, Home, noted

SECRET = "the launch crew is 7731 blue"
KEPT = "The kettle of house 9 was repaired by Ada"


def posted(port: int, path: str, fields: dict[str, Any], token: str) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as connection:
        connection.request("POST", path, json.dumps(fields), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def test_the_daemon_forgets_and_goes_on(home: Home) -> None:
    """By the command, at its socket; then over HTTP, at its port; its index, its sessions and its watch go on."""
    workspace, port = home.workspace(), home.with_port()
    with home.serving() as daemon:
        noted(workspace, [f"{KEPT}. And {SECRET}.", "The piano of house 4 is out of tune"])
        assert home.dreamd("dream", workspace.root).status == 0
        daemon.ask(workspace, add, session_id="s", content=f"{KEPT}. Then {SECRET}.", priority="high")
        noted(workspace, [f"It waits: {SECRET}"])
        assert any(SECRET in text for text in daemon.found(workspace, SECRET))
        with pytest.raises(ConfirmRequiredError):
            daemon.ask(workspace, forget_text, text=SECRET)
        ended = home.dreamd("forget", SECRET, "--yes", "--json", "-w", workspace.root)
        assert ended.status == 0, ended
        assert ended.json["clean"] is True
        assert_gone(workspace, SECRET)
        assert SECRET not in daemon.log
        # What is open is of the new files: searches, sessions, a further dream, notes that are met again.
        assert any(KEPT in text for text in daemon.found(workspace, KEPT))
        assert [one.content for one in daemon.ask(workspace, list_memories, session_id="s").memories] == [f"{KEPT}."]
        noted(workspace, [f"Once more: {SECRET}", "The fence of house 8 was painted"])
        assert home.dreamd("dream", workspace.root).status == 0
        assert "The fence of house 8 was painted" in lived.document(workspace)
        assert_gone(workspace, SECRET)
        token = home.token.read_text(encoding="utf-8").strip()
        path = f"/v1/workspaces/{name_of(workspace.root)}/forget"
        assert posted(port, path, {"text": "piano", "confirm": True}, "wrong")[0] == 401
        status, receipt = posted(port, path, {"text": "piano", "confirm": True}, token)
        assert (status, receipt["clean"]) == (200, True)
        assert_gone(workspace, "piano")
        assert home.dreamd("doctor", workspace.root).status == 0
    lived.assert_valid(workspace)
    assert_gone(workspace, SECRET)
