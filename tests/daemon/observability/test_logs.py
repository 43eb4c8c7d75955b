"""One line an event; nothing of the memory in it; libraries on the same stream."""

import io
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from daemon.observability import logs
from daemon.observability.logs import WITHHELD
from state.errors import BusyError, CeilingError, StorageError
from tests.support.running import ROOT

FIGURES: dict[str, int] = {}
SAID = "Ada's daughter starts school in Lisbon on Monday"


def switch_off() -> None:
    """Events are dropped again, and libraries log where they did before."""
    logs._Sink.write, logs._Sink.threshold = None, logs.LEVELS["info"]
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, logs._FromLibraries)]:
        root.removeHandler(handler)
    logging.captureWarnings(capture=False)


class Stream(io.StringIO):
    """A stream whose lines are events."""

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    for name in ("uvicorn", "uvicorn.error"):  # whatever a server of an earlier test has made of them
        logger = logging.getLogger(name)
        for what, value in (("disabled", False), ("propagate", True), ("level", logging.NOTSET)):
            monkeypatch.setattr(logger, what, value)
    there = Stream()
    logs.configure("json", "info", there)
    yield there
    switch_off()
    root.setLevel(level)
    assert [one for one in root.handlers if one not in handlers] == []


def raised(act: Callable[[], object]) -> Exception:
    try:
        act()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("nothing was raised")


def fails(error: Exception) -> None:
    raise error


def test_an_event_is_one_json_line_with_its_fields_from_the_level_on(stream: Stream) -> None:
    log = logs.get(workspace="agent", dream="01J")
    log.debug("looked")
    log.info("dream_committed", notes=9, usd=0.021, at=1, level=2)
    logs.configure("json", "warning", stream)
    log.info("slept")
    log.warning("stumbled")
    event, later = stream.events
    assert list(event)[:3] == ["at", "level", "event"]
    assert datetime.fromisoformat(event.pop("at")).tzinfo == UTC
    assert event == {
        "level": "info",
        "event": "dream_committed",
        "workspace": "agent",
        "dream": "01J",
        "notes": 9,
        "usd": 0.021,
        "at_": 1,
        "level_": 2,
    }
    assert later["event"] == "stumbled"


def test_a_sentence_of_our_own_stands_whatever_a_folder_is_called(stream: Stream) -> None:
    held = "/srv/dreamd-pw71p7fc/ws is held by process 4211 ('dreamd serve')"
    logs.get().warning("workspace_refused", error=BusyError(held), why=held, said=held)
    (event,) = stream.events
    assert (event["error"], event["why"], "[redacted: " in event["said"]) == (held, held, True)


def test_before_it_is_configured_nothing_is_said_and_nothing_loaded() -> None:
    script = (
        "import sys; from daemon.observability import logs\n"
        "logs.get(a=1).error('dream_failed', error=ValueError('x'))\n"
        "assert not {'sqlite3', 'pydantic', 're2'} & set(sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_memory_is_withheld_under_every_name_that_it_goes_by(stream: Stream) -> None:
    for name in WITHHELD:
        for value in (SAID, [SAID, SAID], {"inner": SAID}, {"deep": [{"er": SAID}]}):
            for level in ("info", "warning", "error"):
                getattr(logs.get(), level)("noted", **{name: value}, outer={name: value})
        assert SAID not in stream.getvalue(), name
    assert stream.events[0][next(iter(WITHHELD))] == f"[{len(SAID)} characters]"


def test_fields_are_plain_short_one_line_and_nothing_that_a_terminal_obeys(stream: Stream) -> None:
    class Note:
        def __repr__(self) -> str:
            return SAID

    given: dict[str, tuple[object, object]] = {
        "notes": (9, 9),
        "lines": (None, None),
        "before": (datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01T00:00:00+00:00"),
        "thing": (Note(), "<Note>"),
        "things": ([Note()], ["<Note>"]),
        "where": (Path("/home/ada"), "/home/ada"),
        "root": ("x" * 10_000, "x" * 299 + "…"),
        "path": ("a\nb\x1b[31mc\u202e\udcff", "a b\\x1b[31mc\\u202e?"),
        "many": (list(range(1_000)), list(range(50))),
    }
    logs.get().info("happened", **{name: value for name, (value, _) in given.items()})
    assert {name: stream.events[0][name] for name in given} == {name: shown for name, (_, shown) in given.items()}
    logs.configure("json", "debug", stream)
    logs.get().debug("noted", text=SAID)
    assert stream.events[1]["text"] == f"[{len(SAID)} characters]"


@pytest.mark.parametrize("level", ["info", "debug"])
def test_secrets_are_redacted(stream: Stream, level: logs.Level) -> None:
    logs.configure("json", level, stream)
    secret = "ghp_" + "a1B2" * 9
    getattr(logs.get(), level)("refused", reason=f"the token {secret} is bad", reply=f"token {secret}")
    logs.get().error("failed", error=StorageError(f"https://x:{secret}@host/ cannot be read"))
    logging.getLogger("uvicorn.error").error("token %s", secret)
    logs.get(workspace=f"{secret}-0123").error("adopted", root=f"/home/ada/{secret}")
    folders = ["password is Tr0ub4dor", "pw=Kx9#vLq2!t", "PIN 4471 door code", "root PIN 4471"]
    for folder in folders:
        logs.get().error("adopted", root=f"/srv/{folder}")
    assert len(stream.events) == 4 + len(folders)
    assert not [text for text in (secret, "Tr0ub4dor", "Kx9#vLq2!t", "4471") if text in stream.getvalue()]


class Shape(BaseModel):
    number: int


def test_an_error_of_ours_has_its_message_and_a_defect_its_place_and_not_what_it_quotes(stream: Stream) -> None:
    logs.get().error("dream_failed", error=raised(lambda: fails(CeilingError("usd_per_day is reached; wait"))))
    ours = stream.events[0]
    expected = {"error_class": "CeilingError", "code": "CEILING", "error": "usd_per_day is reached; wait"}
    assert expected.items() <= ours.items()
    assert "traceback" not in ours
    for act in (
        lambda: FIGURES[SAID],
        lambda: int(SAID),
        lambda: Shape.model_validate({"number": SAID}),
        lambda: fails(RuntimeError(SAID)),
    ):
        logs.get().error("dream_failed", error=raised(act))
        assert any("test_logs.py" in frame for frame in stream.events[-1]["traceback"])
        assert "code" not in stream.events[-1]
    assert "Lisbon" not in stream.getvalue()
    logs.configure("json", "debug", stream)
    logs.get().error("dream_failed", error=raised(lambda: fails(CeilingError("wait"))))
    logs.get().error("dream_failed", error=raised(lambda: FIGURES[SAID]))
    assert "traceback" in stream.events[-2]
    assert SAID in stream.events[-1]["error"].replace("\\'", "'")


@pytest.mark.parametrize(
    "name", ["mcp.server", "LiteLLM", "LiteLLM Router", "openai._base", "httpx", "langgraph.x", "chromadb.y"]
)
def test_a_library_that_quotes_is_told_by_its_place(stream: Stream, name: str) -> None:
    logging.getLogger(name.partition(".")[0]).setLevel(logging.NOTSET)  # whoever loads litellm makes it quiet
    logger = logging.getLogger(name)
    logger.setLevel(logging.NOTSET)
    logger.info("POST /v1/chat %s", SAID)
    logger.warning("Failed to validate %s", {"note": SAID})
    logger.error(f"Message was: {SAID}")  # noqa: G004 - as they do
    assert "Lisbon" not in stream.getvalue()
    said = [(one["level"], one["logger"], one["place"].split(":")[0]) for one in stream.events]
    assert said == [("warning", name, "test_logs"), ("error", name, "test_logs")]


def test_another_library_is_heard_once_from_warning_on_whatever_it_says(stream: Stream) -> None:
    noisy, errors = logging.getLogger("uvicorn.access"), logging.getLogger("uvicorn.error")
    noisy.addHandler(logging.StreamHandler())
    noisy.setLevel(logging.INFO)
    logs.configure("json", "info", stream)
    noisy.info('"GET /v1/search?query=%s"', SAID)
    errors.warning("closed %d connections", 3)
    (ours,) = [one for one in logging.getLogger().handlers if type(one).__module__ == "daemon.observability.logs"]
    ours.handle(logging.LogRecord("uvicorn.error", logging.ERROR, __file__, 1, "%d connections", (SAID,), None))
    try:
        fails(RuntimeError(SAID))
    except RuntimeError:
        errors.exception("Exception in ASGI application")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logs.configure("json", "info", stream)
        warnings.warn("this goes away", stacklevel=1)
    *said, last, warned = stream.events
    assert [one["message"] for one in said] == ["closed 3 connections", "%d connections"]
    assert (last["message"], last["error_class"]) == ("Exception in ASGI application", "RuntimeError")
    assert last["traceback"]
    assert warned["logger"] == "py.warnings"
    assert SAID not in stream.getvalue()


def test_a_terminal_gets_readable_lines_and_the_journal_each_events_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.configure("console", "info", readable := Stream())
    logs.get(workspace="agent").info("dream_committed", notes=9, text=SAID)
    (line,) = readable.getvalue().splitlines()
    assert "dream_committed" in line
    assert "workspace=agent notes=9" in line
    assert not any(hidden in line for hidden in ("\x1b", SAID))
    logs.configure("auto", "info", elsewhere := Stream())  # which no terminal is
    logs.get().info("woke")
    assert elsewhere.events[0]["event"] == "woke"
    with (tmp_path / "journal").open("w+", encoding="utf-8") as journal:
        there = os.fstat(journal.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{there.st_dev}:{there.st_ino}")
        logs.configure("json", "debug", journal)
        for level in ("debug", "info", "warning", "error"):
            getattr(logs.get(), level)("happened")
        switch_off()
        journal.seek(0)
        lines = journal.read().splitlines()
    assert [line[:3] for line in lines] == ["<7>", "<6>", "<4>", "<3>"]
    assert json.loads(lines[0][3:])["event"] == "happened"


def test_a_stream_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8", buffering=1, closefd=False) as pipe:
        logs.configure("json", "info", pipe)
        logs.get().info("woke")
        logging.getLogger("uvicorn.error").error("boom")
        with (tmp_path / "sink").open("w") as sink:  # what Python still has for the pipe goes there
            os.dup2(sink.fileno(), writing)
    os.close(writing)
    logs.get().info("woke")  # the file is closed
