"""Session working memory: which sessions there are, what is in one, what left it, when and why."""

import argparse
from typing import TYPE_CHECKING

from daemon.cli.parsing import caller_of, takes_json, takes_workspace
from daemon.cli.terminal import counted, out, say, show_json, show_table

if TYPE_CHECKING:
    from daemon.asking import Caller
    from daemon.operations.session_minds import Events, SessionList
    from daemon.sessions.values import Memories, Restored
    from state.sessions.standing import Standing


def add(parser: argparse.ArgumentParser) -> None:
    """What to show, and of which session."""
    parser.add_argument("what", choices=("list", "show", "stats", "events", "restore"))
    parser.add_argument("session", nargs="?", metavar="SESSION", help="its id; all but list need it")
    parser.add_argument("memory", nargs="?", metavar="MEMORY", help="the id of a memory, for restore and events")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="of events; default %(default)s")
    takes_workspace(parser)
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show it, or put a memory back."""
    from state.errors import UsageError

    if arguments.what != "list" and arguments.session is None:
        raise UsageError(f"which session? 'dreamd session list' shows them, then: dreamd session {arguments.what} ID")
    if arguments.what == "restore" and arguments.memory is None:
        raise UsageError("which memory? 'dreamd session events SESSION' shows what left it")
    caller = caller_of(arguments, "session")
    return _ACTS[arguments.what](caller, arguments)


def _list(caller: "Caller", arguments: argparse.Namespace) -> int:
    from daemon.operations.operation import Nothing
    from daemon.operations.session_minds import SESSIONS

    found = caller.ask(SESSIONS, Nothing())
    show_json(found.sessions) if arguments.json else _show_list(found)
    return 0


def _show_list(found: "SessionList") -> None:
    if not found.sessions:
        say("no session yet; an agent makes one with working_memory_add or session_open")
        return
    rows = [
        (
            one.session_id,
            one.policy,
            "closed" if one.closed_at else one.status,
            str(one.count),
            f"{one.token_count:,}",
            f"{one.utilisation:.0f} %",
            one.opened_at.strftime("%Y-%m-%d %H:%M"),
        )
        for one in found.sessions
    ]
    show_table(("session", "policy", "status", "items", "tokens", "full", "opened"), rows)


def _show(caller: "Caller", arguments: argparse.Namespace) -> int:
    from daemon.operations.session_items import EXPORT, InSession

    found = caller.ask(EXPORT, InSession(session_id=arguments.session))
    show_json(found) if arguments.json else _show_items(found)
    return 0


def _show_items(found: "Memories") -> None:
    for one in found.memories:
        out(f"{one.id}  ({one.priority}, importance {one.importance:.2f}, read {one.access_count} times)", "bold")
        out(f"  {one.content}")
        parts = [f"until {one.expires_at:%Y-%m-%d %H:%M}"] if one.expires_at else []
        parts += [f"tags {', '.join(one.tags)}"] if one.tags else []
        parts += [f"long-term: {one.promoted_to_id}"] if one.promoted_to_id else []
        parts += [one.state] if one.state != "live" else []
        if parts:
            out(f"  {', '.join(parts)}", "dim")
    say(counted(found.count, "item"))


def _stats(caller: "Caller", arguments: argparse.Namespace) -> int:
    from daemon.operations.session_items import STATS, InSession

    found = caller.ask(STATS, InSession(session_id=arguments.session))
    show_json(found) if arguments.json else _show_stats(found)
    return 0


def _show_stats(found: "Standing") -> None:
    limits = found.capacity
    rows = [
        ("policy", f"{limits.policy}, {limits.status}, {limits.utilisation:.0f} % full"),
        ("items", f"{found.total_count} ({found.active_count} active, {found.expired_count} expired)"),
        ("tokens", f"{limits.tokens:,}" + (f" of {limits.max_tokens:,}" if limits.max_tokens else "")),
        ("promoted", f"{found.promoted_count}, {found.pending_promotion} pending"),
        ("priorities", ", ".join(f"{number} {name}" for name, number in found.by_priority.items())),
    ]
    for name, text in rows:
        out(f"{name:<12} {text}")
    for one in found.next_to_leave:
        out(f"{'next':<12} {one.id}: {one.action}, {one.reason}")


def _events(caller: "Caller", arguments: argparse.Namespace) -> int:
    from daemon.operations.session_minds import EVENTS, Story

    asked = Story(session_id=arguments.session, memory_id=arguments.memory, limit=arguments.limit)
    found = caller.ask(EVENTS, asked)
    show_json(found.events) if arguments.json else _show_events(found)
    return 0


def _show_events(found: "Events") -> None:
    for one in found.events:
        figures = ", ".join(f"{name} {value}" for name, value in one.figures.items())
        said = " ".join(part for part in (one.item, one.reason and f"({one.reason})", figures) if part)
        out(f"{one.at:%Y-%m-%d %H:%M:%S}  {one.action:<10} {said}".rstrip())


def _restore(caller: "Caller", arguments: argparse.Namespace) -> int:
    from daemon.operations.session_items import OfMemory
    from daemon.operations.session_minds import RESTORE_MEMORY

    done = caller.ask(RESTORE_MEMORY, OfMemory(session_id=arguments.session, memory_id=arguments.memory))
    show_json(done) if arguments.json else _show_restored(done)
    return 0 if done.restored else 1


def _show_restored(done: "Restored") -> None:
    where = "in the session again" if done.restored else "its own victim: there is no room for it"
    out(f"{done.memory.id} is {where}")
    for one in done.evicted:
        out(f"  {one.memory_id} left for it: {one.reason}")


_ACTS = {"list": _list, "show": _show, "stats": _stats, "events": _events, "restore": _restore}
