"""Session working memory: which sessions there are, what is in one, what left it, when and why."""

import argparse
from typing import TYPE_CHECKING, Protocol, TypeVar

from daemon.api.text import counted
from daemon.cli.parsing import caller_of, takes_workspace
from daemon.cli.terminal import out, say, show_json, show_table
from state.errors import UsageError
from state.sessions.page import MOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.api.dispatch import Caller
    from daemon.api.operations.sessions import Events
    from daemon.sessions.answers import Restored, SessionStats, SessionSummary
    from state.sessions.item import Item

    class Paged(Protocol):
        """A part of a list."""

        @property
        def next_cursor(self) -> str | None: ...

    PageT = TypeVar("PageT", bound=Paged)
    One = TypeVar("One")

_WHAT = """what to do:
  list                    the sessions, the latest first
  show SESSION            what is in it
  stats SESSION           counts, limits, how full it is, who leaves next and why
  events SESSION [MEMORY] what entered and left it, when and why, the latest first; or the story of one memory
  restore SESSION MEMORY  put a memory that left back into it

A session or memory whose id begins with - goes after --."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: what to show, and of which session."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _WHAT
    parser.add_argument("what", choices=_ACTS, metavar="WHAT", help=", ".join(_ACTS))
    parser.add_argument("session", nargs="?", metavar="SESSION", help="its id")
    parser.add_argument("memory", nargs="?", metavar="MEMORY", help="the id of a memory")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="of events; default %(default)s")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show it, or put a memory back."""
    what, session, memory = arguments.what, arguments.session, arguments.memory
    if what == "list" and session is not None:
        raise UsageError("'dreamd session list' takes no session", f"'dreamd session show {session}' shows one")
    if what != "list" and session is None:
        raise UsageError(f"which session? 'dreamd session list' shows them, then: dreamd session {what} SESSION")
    if what == "restore" and memory is None:
        raise UsageError("which memory? 'dreamd session events SESSION' shows what left it")
    if what not in ("restore", "events") and memory is not None:
        raise UsageError(f"'dreamd session {what}' takes no memory", "'dreamd session events' tells its story")
    return _ACTS[what](caller_of(arguments, "session"), arguments)


def _list(caller: "Caller", arguments: argparse.Namespace) -> int:
    from daemon.api.operations.sessions import session_list

    sessions = _all(lambda cursor: caller.ask(session_list, limit=MOST, cursor=cursor), lambda part: part.sessions)
    show_json(sessions) if arguments.json else _show_list(sessions)
    return 0


def _all(ask: "Callable[[str], PageT]", of: "Callable[[PageT], tuple[One, ...]]") -> "tuple[One, ...]":
    """Return a whole list, asked for page by page."""
    part = ask("")
    items = [*of(part)]
    while part.next_cursor is not None:
        part = ask(part.next_cursor)
        items += of(part)
    return tuple(items)


def _show_list(sessions: "tuple[SessionSummary, ...]") -> None:
    if not sessions:
        say("no session yet; an agent makes one with working_memory_add or session_open")
        return
    rows = [
        (
            one.policy,
            "closed" if one.closed_at else one.status,
            str(one.count),
            f"{one.token_count:,}",
            f"{one.utilisation:.0f} %",
            one.opened_at.strftime("%Y-%m-%d %H:%M"),
            _line(one.session_id),
        )
        for one in sessions
    ]
    show_table(("policy", "status", "items", "tokens", "full", "opened", "session"), rows)


def _show(caller: "Caller", arguments: argparse.Namespace) -> int:
    from daemon.api.operations.sessions import export
    from daemon.sessions.answers import Memories

    memories = _all(
        lambda cursor: caller.ask(export, session_id=arguments.session, limit=MOST, cursor=cursor),
        lambda part: part.memories,
    )
    if not memories:
        _require(caller, arguments.session)
    show_json(Memories(memories, len(memories), arguments.session)) if arguments.json else _show_items(memories)
    return 0


def _show_items(memories: "tuple[Item, ...]") -> None:
    for one in memories:
        out(_line(one.id), "bold")
        out("\n".join(f"  {row}" for row in one.content.split("\n")))
        accesses = "1 access" if one.access_count == 1 else f"{one.access_count:,} accesses"
        parts = [one.priority, f"importance {one.importance:.2f}", accesses]
        parts += [f"until {one.expires_at:%Y-%m-%d %H:%M}"] if one.expires_at else []
        parts += [f"tags {', '.join(map(_line, one.tags))}"] if one.tags else []
        parts += [f"long-term: {_line(one.promoted_to_id)}"] if one.promoted_to_id else []
        parts += [one.state] if one.state != "live" else []
        out(f"  {', '.join(parts)}", "dim")
    say(counted(len(memories), "item"))


def _stats(caller: "Caller", arguments: argparse.Namespace) -> int:
    from daemon.api.operations.sessions import stats

    reply = caller.ask(stats, session_id=arguments.session)
    if not reply.total_count:
        _require(caller, arguments.session)
    show_json(reply) if arguments.json else _show_stats(reply)
    return 0


def _show_stats(reply: "SessionStats") -> None:
    fill = reply.capacity
    counts = [f"{reply.active_count} active", f"{reply.expired_count} expired"]
    counts += [f"{reply.hidden_count} hidden"] if reply.hidden_count else []
    rows = [
        ("policy", f"{fill.policy}, {fill.status}, {fill.utilisation:.0f} % full"),
        ("items", f"{_of(reply.total_count, fill.max_items)} ({', '.join(counts)})"),
        ("tokens", _of(fill.tokens, fill.max_tokens)),
        ("promoted", f"{reply.promoted_count}, {reply.pending_promotion} pending"),
        ("priorities", ", ".join(f"{number} {name}" for name, number in reply.by_priority.items())),
        *(("next", f"{_line(one.id)}: {one.action}, {one.reason}") for one in reply.next_to_leave),
    ]
    for name, text in rows:
        out(f"{name:<12}{text}")


def _of(number: int, most: int | None) -> str:
    return f"{number:,}" if most is None else f"{number:,} of {most:,}"


def _events(caller: "Caller", arguments: argparse.Namespace) -> int:
    from daemon.api.operations.sessions import events

    reply = caller.ask(events, arguments.session, arguments.memory, arguments.limit)
    show_json(reply.events) if arguments.json else _show_events(reply)
    return 0


def _show_events(reply: "Events") -> None:
    for one in reply.events:
        figures = ", ".join(f"{name} {value}" for name, value in one.figures.items())
        parts = (one.item, one.reason and f"({one.reason})", figures)
        text = "  ".join(_line(part) for part in parts if part)
        out(f"{one.at:%Y-%m-%d %H:%M:%S}  {one.action:<10} {text}".rstrip())


def _restore(caller: "Caller", arguments: argparse.Namespace) -> int:
    from daemon.api.operations.sessions import restore

    done = caller.ask(restore, session_id=arguments.session, memory_id=arguments.memory)
    show_json(done) if arguments.json else _show_restored(done)
    return 0 if done.restored else 1


def _show_restored(done: "Restored") -> None:
    where = "is in the session" if done.restored else "is not in the session: by its policy it would leave first"
    out(f"{_line(done.memory.id)} {where}")
    for one in done.evicted:
        out(f"  {_line(one.memory_id)} left: {one.reason}")


def _require(caller: "Caller", session: str) -> None:
    """Raise NotFoundError unless the session was opened: its name may be misspelt."""
    from daemon.api.operations.sessions import events

    caller.ask(events, session_id=session, limit=1)


def _line(text: str) -> str:
    """Return a text from outside in one line."""
    return text.replace("\n", "\\n").replace("\t", "\\t")


_ACTS: "dict[str, Callable[[Caller, argparse.Namespace], int]]" = {
    "list": _list,
    "show": _show,
    "stats": _stats,
    "events": _events,
    "restore": _restore,
}
