"""Logs: the daemon's events on stderr, one per line with fields; JSON for journald, readable on a terminal.

Only `configure()` imports structlog, because that takes longer than most commands, and code that logs runs in
commands too. Before it is called, as in every command but the daemon, events are dropped.

The log contains no memory: a text under a name in `WITHHELD` is replaced by its length, all others are shortened, and
secrets are redacted. Above DEBUG, foreign errors and libraries that quote their input show only class and place. All
of this is decided here and not by the callers, so that it can be tested in one place.
"""

import logging
import os
import re
import sys
import traceback
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partialmethod
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TextIO

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


class _Sink:
    """structlog's logger (None: drop events), and the lowest level that is written."""

    emit: Any = None
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


def _structlog() -> ModuleType:
    """Import structlog without rich and greenlet: megabytes for tracebacks that our log does not print."""
    found = {name: sys.modules.get(name) for name in ("rich", "greenlet")}
    sys.modules.update(dict.fromkeys(found))  # type: ignore[arg-type]  # makes their import fail
    try:
        import structlog
    finally:
        for name, module in found.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module
    return structlog


def configure(form: Form = "auto", level: Level = "info", stream: TextIO | None = None) -> None:
    """Write events of this level and above to the stream (stderr); a second call replaces the first.

    `auto` is readable on a terminal and JSON elsewhere. Libraries' records from WARNING up become events too.
    """
    structlog, stream = _structlog(), stream or sys.stderr
    processors: list[Any] = [structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"), _filter_fields]
    if form == "console" or (form == "auto" and stream.isatty()):
        colours = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        processors += [structlog.dev.ConsoleRenderer(colors=colours, timestamp_key="at", sort_keys=False)]
    else:
        processors += [structlog.processors.JSONRenderer(ensure_ascii=False)]
        processors += [_with_priority] if _is_journal(stream) else []
    own = {"wrapper_class": structlog.BoundLogger, "cache_logger_on_first_use": False}
    _Sink.emit = structlog.wrap_logger(structlog.WriteLogger(stream), processors=processors, **own)
    _Sink.threshold = LEVELS[level]
    _capture_libraries()


def _write(level: str, event: str, fields: Mapping[str, object]) -> None:
    if _Sink.emit is None:
        return
    renamed = {f"{name}_" if name in _OWN_NAMES else name: value for name, value in fields.items()}
    try:
        getattr(_Sink.emit, level)(event, level=level, **renamed)
    except (OSError, ValueError):
        return  # stderr is closed; go on without a log


def _filter_fields(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return the event as plain, redacted data, standard fields first: a structlog processor."""
    standard, error = {name: event.pop(name) for name in ("at", "level", "event")}, event.pop("error", None)
    standard["event"] = _line(str(standard["event"]))
    fields = {name: _loggable(name, value) for name, value in event.items()}
    if isinstance(error, BaseException):
        fields |= _error_fields(error, at_debug=_Sink.threshold <= LEVELS["debug"])
    elif error is not None:
        fields["error"] = _loggable("error", error)
    return {**standard, **fields}


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


def _with_priority(_logger: object, method: str, line: str) -> str:
    """Return the line with its priority, for `journalctl -p` (sd-daemon(3)): a structlog processor."""
    return f"<{_PRIORITIES[method]}>{line}"


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
