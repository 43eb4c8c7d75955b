"""The short form of the fuzzers, of one seed; the long one is `python -m tests.redteam`."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import running
from tests.redteam.http_fuzz import LIMITS, hostile, lived_in
from tests.support.long_variants import is_whole


def test_what_nobody_should_ask_is_answered_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "disabled", True)
    with running(OwnHouse(), LIMITS) as server:
        tried = hostile(server, lived_in(server, tmp_path), 7, seconds=60, count=120)
        assert tried.failures == []
        assert server.ask("GET", "/healthz").status == 200
    assert {200, 400, 404, 405, 415, 422} <= tried.statuses.keys()


@pytest.mark.full
def test_what_was_valid_once_is_read_or_refused() -> None:
    """In a process of its own, whose memory is bounded."""
    minutes = "0.1" if is_whole() else "0.04"
    words = [sys.executable, "-m", "tests.redteam", "--only", "parsers", "--minutes", minutes, "--seed", "7"]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "nothing was found" in run.stdout
