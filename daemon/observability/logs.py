"""Logs: the daemon's events on stderr, one per line with fields; JSON for journald, readable on a terminal.

Before `configure()` is called, as in every command but the daemon, events are dropped.

The log contains no memory: a text under a name in `WITHHELD` is replaced by its length, all others are shortened, and
secrets are redacted. Above DEBUG, foreign errors and libraries that quote their input show only class and place. All
of this is decided here and not by the callers, so that it can be tested in one place.
"""

import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial, partialmethod
from pathlib import Path
from typing import Literal, TextIO

from daemon.observability.failures import without_secrets
from daemon.observability.printable import safe
from state.errors import DreamdError

Form = Literal["auto", "json", "console"]
Level = Literal["debug", "info", "warning", "error"]

LEVELS: Mapping[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}
# Names of fields whose texts come from the memory, a model or a user.
WITHHELD = frozenset(
    "text texts note notes line lines query queries excerpt excerpts before after content contents document memory"
    " prompt prompts reply answer question topic keywords bootstrap diff draft crystal scratch body payload arguments"
    " input output value quote sentence transcript user_message summary".split()
)
# Libraries whose messages quote what passes through them: prompts, requests, replies.
_QUOTING = ("mcp", "litellm", "openai", "anthropic", "httpx", "httpcore", "langgraph", "langchain", "chromadb")
_LONGEST = 300
_MOST_ITEMS = 50
_MOST_FRAMES = 20
_SHORTEST_SECRET = 16
_OWN_NAMES = frozenset({"event", "level", "at"})
# Fields that name a folder of the owner or a place in the code. They do not load the rules for secrets, 14 MiB.
_PLACES = frozenset({"workspace", "root", "entrances", "place", "logger"})
# Fields with a sentence of dreamd's own.
_SENTENCES = frozenset({"error", "why", "problem"})
_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3}  # of syslog(3)
_COLOURS = {"debug": 2, "info": 32, "warning": 33, "error": 31}  # of a terminal


class _Sink:
    """What writes an event (None: it is dropped), and the lowest level that is written."""

    write: Callable[[Mapping[str, object]], None] | None = None
    threshold: int = LEVELS["info"]


@dataclass(frozen=True, slots=True)
class Log:
    """A logger that adds these fields to its events. No method raises: the work matters more than its log.

    `warning`: somebody should look at it this week. `error`: something was lost; its field `error` is the exception.
    """

    fields: Mapping[str, object] = field(default_factory=dict)

    def _emit(self, level: str, event: str, /, **fields: object) -> None:
        if LEVELS[level] >= _Sink.threshold:
            _write(level, event, {**self.fields, **fields})

    debug = partialmethod(_emit, "debug")
    info = partialmethod(_emit, "info")
    warning = partialmethod(_emit, "warning")
    error = partialmethod(_emit, "error")


def get(**fields: object) -> Log:
    """Return a logger that adds these fields to its events. It costs nothing, so any module may have one."""
    return Log(fields)


def configure(form: Form = "auto", level: Level = "info", stream: TextIO | None = None) -> None:
    """Write events of this level and above to the stream (stderr); a second call replaces the first.

    `auto` is readable on a terminal and JSON elsewhere. Libraries' records from WARNING up become events too.
    """
    there = stream or sys.stderr
    in_colour = there.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    row_of: Callable[[Mapping[str, object]], str] = partial(json.dumps, ensure_ascii=False)
    if form == "console" or (form == "auto" and there.isatty()):
        row_of = partial(_readable, in_colour=in_colour)
    elif _is_journal(there):
        row_of = _with_priority

    def write(event: Mapping[str, object]) -> None:
        there.write(f"{row_of(event)}\n")
        there.flush()

    _Sink.write, _Sink.threshold = write, LEVELS[level]
    _capture_libraries()


def _readable(event: Mapping[str, object], *, in_colour: bool) -> str:
    """Return an event as a person reads it at a terminal."""
    level = str(event["level"])
    shown = f"\x1b[{_COLOURS[level]}m{level:<7}\x1b[0m" if in_colour else f"{level:<7}"
    fields = (f"{name}={value}" for name, value in event.items() if name not in _OWN_NAMES)
    return " ".join((str(event["at"]), shown, str(event["event"]), *fields))


def _with_priority(event: Mapping[str, object]) -> str:
    """Return an event in JSON with its priority, for `journalctl -p` (sd-daemon(3))."""
    return f"<{_PRIORITIES[str(event['level'])]}>{json.dumps(event, ensure_ascii=False)}"


def _write(level: str, event: str, fields: Mapping[str, object]) -> None:
    if _Sink.write is not None:
        with suppress(OSError, ValueError):  # stderr is closed; go on without a log
            _Sink.write(_plain(level, event, fields))


def _plain(level: str, event: str, fields: Mapping[str, object]) -> dict[str, object]:
    """Return the event as plain, redacted data, standard fields first."""
    at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    shown: dict[str, object] = {"at": at, "level": level, "event": _line(event)}
    for name, value in fields.items():
        if isinstance(value, BaseException) and name == "error":
            shown |= _error_fields(value, at_debug=_Sink.threshold <= LEVELS["debug"])
        elif name != "error" or value is not None:
            shown[f"{name}_" if name in _OWN_NAMES else name] = _loggable(name, value)
    return shown


def _loggable(name: str, value: object) -> object:
    """Return the value as plain data: short, and without secrets and memory."""
    if value is None or isinstance(value, bool | int | float):
        return value
    is_memory = name.lower() in WITHHELD
    if isinstance(value, Mapping):
        # Everything nested under a withheld name is withheld, whatever its own name is.
        items = list(value.items())[:_MOST_ITEMS]
        return {_short(str(key), 80): _loggable(name if is_memory else str(key), one) for key, one in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [_loggable(name, one) for one in list(value)[:_MOST_ITEMS]]
    if isinstance(value, str | Path):
        text = str(value)
        if is_memory:
            return _withheld(text)
        return _line(text) if _is_place(name, text) else _short(text, is_own=name in _SENTENCES)
    # The repr of another type may contain anything.
    return value.isoformat() if isinstance(value, datetime) else f"<{type(value).__name__}>"


def _is_place(name: str, text: str) -> bool:
    """Return whether the field is in `_PLACES`, no part of it looks like a secret, and no word speaks of one."""
    if name not in _PLACES:
        return False
    from state.secrets.policy import is_plain

    # These common prefixes tell nothing.
    parts = [part for part in re.split(r"[\s/._:-]+", text.removeprefix("/root").removeprefix("/run/user")) if part]
    if not all(len(part) < _SHORTEST_SECRET and part.isalnum() for part in parts):
        return False
    return is_plain(" ".join(part.lower() for part in parts if part.isalpha()))


def _error_fields(error: BaseException, *, at_debug: bool) -> dict[str, object]:
    """Return class, code and message, and the traceback of a defect or at DEBUG."""
    import sqlite3

    fields: dict[str, object] = {"error_class": type(error).__name__}
    message = str(error)
    is_defect = not isinstance(error, DreamdError | OSError | sqlite3.Error)
    if isinstance(error, DreamdError):
        fields["code"] = error.code
    # The message of a foreign error may quote anything: a note, a reply, a whole request.
    own = isinstance(error, DreamdError)
    fields["error"] = _short(message, is_own=own) if at_debug or not is_defect else _withheld(message)
    if is_defect or at_debug:
        frames = traceback.extract_tb(error.__traceback__)[-_MOST_FRAMES:]
        fields["traceback"] = [f"{one.filename}:{one.lineno} {one.name}" for one in frames]
    return fields


def _withheld(text: str) -> str:
    return f"[{len(text)} characters]"


def _short(text: str, longest: int = _LONGEST, *, is_own: bool = False) -> str:
    """Return the text, perhaps a sentence of our own, without secrets, as `_line` does."""
    text = text[: 4 * longest]
    if len(text) >= _SHORTEST_SECRET:
        from state.secrets.redaction import redact

        text = without_secrets(text) if is_own else redact(text).text
    return _line(text, longest)


def _line(text: str, longest: int = _LONGEST) -> str:
    """Return the text as one printable line of at most `longest` characters."""
    text = re.sub(r"\s+", " ", text[: 4 * longest].encode(errors="replace").decode())
    return safe(text if len(text) <= longest else f"{text[: longest - 1]}…")


def _is_journal(stream: TextIO) -> bool:
    """Return whether systemd connected the stream to the journal (JOURNAL_STREAM, systemd.exec(5))."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


class _FromLibraries(logging.Handler):
    """Turns records of libraries into the event `library_spoke`."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record; withhold the message of a library that quotes its input."""
        level = "error" if record.levelno >= logging.ERROR else "warning"
        if LEVELS[level] < _Sink.threshold:
            return
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # a library that cannot format its own message
            message = str(record.msg)
        quoting = record.name.lower().split(".")[0].split(" ")[0].startswith(_QUOTING)
        if quoting and _Sink.threshold > LEVELS["debug"]:
            message = _withheld(message)
        place, error = f"{record.module}:{record.lineno}", record.exc_info[1] if record.exc_info else None
        _write(level, "library_spoke", {"logger": record.name, "message": message, "place": place, "error": error})


def _capture_libraries() -> None:
    root = logging.getLogger()
    if not any(isinstance(one, _FromLibraries) for one in root.handlers):
        root.addHandler(_FromLibraries(logging.WARNING))
    root.setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "mcp", "chromadb", "langgraph", "LiteLLM"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(max(logger.level, logging.WARNING))
