"""Session: the command that shows the working memory of sessions, and restores items that left it."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from daemon.api.operations import sessions
from daemon.api.shapes import facts, table
from daemon.cli.parsing import WORKSPACE, arg, caller_of, command
from daemon.cli.perform import show
from state.errors import UsageError
from state.sessions.page import MOST
from state.text.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.api.operations.operation import AnyOperation
    from daemon.sessions.answers import Events, Memories, Restored, SessionList, SessionStats


# Why an item leaves a session, or becomes a crystal, by the policy's name for it.
_REASONS = {
    "capacity_exceeded": "no room",
    "capacity_exceeded_low": "no room, of low importance",
    "capacity_exceeded_expired": "no room, its time is over",
    "capacity_exceeded_protected": "no room, though important",
    "ttl_exceeded": "its time is over",
    "expired": "its time is over",
    "hard_limit": "too many items",
    "soft_limit": "many items",
    "token_limit": "too many tokens",
    "importance_score": "used often",
    "critical_and_accessed": "critical and used",
    "aged_and_active": "old and still used",
}


def _list_text(reply: "SessionList") -> str:
    if not reply.sessions:
        return "no session yet; an agent makes one with working_memory_add or session_open"
    rows = [
        (
            one.policy, "closed" if one.closed_at else one.status, one.count, one.token_count,
            f"{one.utilisation:.0f} %", f"{one.opened_at:%Y-%m-%d %H:%M %Z}", _one_line(one.session_id),
        )
        for one in reply.sessions
    ]  # fmt: skip
    return table("policy,status,items,tokens,full,opened,session", rows)


def _items_text(reply: "Memories") -> str:
    rows = list[str]()
    for one in reply.memories:
        parts = (
            one.priority,
            f"importance {one.importance:.2f}",
            counted(one.access_count, "access", "accesses"),
            f"until {one.expires_at:%Y-%m-%d %H:%M %Z}" if one.expires_at else "",
            f"tags {', '.join(map(_one_line, one.tags))}" if one.tags else "",
            f"long-term: {_one_line(one.promoted_to_id)}" if one.promoted_to_id else "",
            one.state if one.state != "live" else "",
        )
        content = (f"  {row}" for row in one.content.split("\n"))
        rows += [_one_line(one.id), *content, f"  {', '.join(filter(None, parts))}"]
    return "\n".join([*rows, counted(len(reply.memories), "item")])


def _stats_text(reply: "SessionStats") -> str:
    fill = reply.capacity

    def of(number: int, most: int | None) -> str:
        return f"{number:,}" if most is None else f"{number:,} of {most:,}"

    hidden = f", {reply.hidden_count} hidden" if reply.hidden_count else ""
    counts = f"{reply.active_count} active, {reply.expired_count} expired{hidden}"
    return facts(
        ("policy", f"{fill.policy}, {fill.status}, {fill.utilisation:.0f} % full"),
        ("items", f"{of(reply.total_count, fill.max_items)} ({counts})"),
        ("tokens", of(fill.tokens, fill.max_tokens)),
        ("promoted", f"{reply.promoted_count}, {reply.pending_promotion} pending"),
        ("priorities", ", ".join(f"{number} {name}" for name, number in reply.by_priority.items())),
        *(("next", f"{_one_line(one.id)}: {one.action}, {_because(one.reason)}") for one in reply.next_to_leave),
    )


def _events_text(reply: "Events") -> str:
    rows = list[str]()
    for one in reply.events:
        figures = ", ".join(f"{name} {value}" for name, value in one.figures.items())
        why = one.reason and f"({_because(one.reason)})"
        text = "  ".join(_one_line(part) for part in (one.item, why, figures) if part)
        rows.append(f"{one.at:%Y-%m-%d %H:%M:%S %Z}  {one.action:<10} {text}".rstrip())
    return "\n".join(rows)


def _restored_text(done: "Restored") -> str:
    where = "is in the session" if done.restored else "is not in the session: by its policy it would leave first"
    left = [f"  {_one_line(one.memory_id)} left: {_because(one.reason)}" for one in done.evicted]
    return "\n".join([f"{_one_line(done.memory.id)} {where}", *left])


def _because(reason: str) -> str:
    return _REASONS.get(reason, reason)


def _one_line(text: str) -> str:
    """Return a text, which an agent wrote, in one line."""
    return text.replace("\n", "\\n").replace("\t", "\\t")


# By word: the operation, whose parameters say whether it takes SESSION and MEMORY, and the text of its reply.
_COMMANDS: "dict[str, tuple[AnyOperation, Callable[[Any], str]]]" = {
    "list": (sessions.session_list, _list_text),
    "show": (sessions.export, _items_text),
    "stats": (sessions.stats, _stats_text),
    "events": (sessions.events, _events_text),
    "restore": (sessions.restore, _restored_text),
}


@command(
    arg("what", choices=_COMMANDS, metavar="WHAT"),
    arg("session", nargs="?", metavar="SESSION", help="its id"),
    arg("memory", nargs="?", metavar="MEMORY", help="the id of a memory"),
    arg("--limit", type=int, default=100, metavar="N", help="of events; default %(default)s"),
    *WORKSPACE,
)
def session(arguments: argparse.Namespace) -> int:
    """Show the working memory of sessions: which there are, what is in one, what left it, when and why.

    What to do:
      list                    the sessions, the latest first
      show SESSION            what is in it
      stats SESSION           counts, limits, how full it is, who leaves next and why
      events SESSION          what entered and left it, when and why, the latest first
      events SESSION MEMORY   the story of one memory
      restore SESSION MEMORY  put a memory that left back into it

    A session or memory whose id begins with - goes after --.
    """
    what = arguments.what
    operation, text = _COMMANDS[what]
    known = {one.name: one for one in operation.parameters}
    fields = {"limit": arguments.limit if what == "events" else MOST} if "limit" in known else {}
    for noun, shows in (
        ("session", f"'dreamd session list' shows them, then: dreamd session {what} SESSION"),
        ("memory", "'dreamd session events SESSION' shows what left it"),
    ):
        id_, taken = getattr(arguments, noun), known.get(f"{noun}_id")
        if id_ is None and taken and taken.required:
            raise UsageError(f"which {noun}? {shows}")
        if id_ is not None and taken is None:
            raise UsageError(f"'dreamd session {what}' takes no {noun}", "see 'dreamd session --help'")
        fields |= {f"{noun}_id": id_} if id_ is not None else {}
    caller = caller_of(arguments, "session")
    if what in ("show", "stats"):  # these accept any id, so first raise an error for a misspelt one
        caller.ask(sessions.session_summary, session_id=arguments.session)
    reply = part = caller.ask(operation, **fields)
    while (cursor := getattr(part, "next_cursor", None)) is not None:
        part = caller.ask(operation, **fields, cursor=cursor)
        name = "sessions" if what == "list" else "memories"
        items = getattr(reply, name) + getattr(part, name)
        reply = replace(part, **{name: items}, **({"count": len(items)} if what != "list" else {}))
    show(text, reply, caller.config.zone, as_json=arguments.json)
    return int(getattr(reply, "restored", True) is False)
