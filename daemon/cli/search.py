"""Search the long-term memory by meaning and by words."""

import argparse
from contextlib import ExitStack
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from daemon.cli.parsing import config_of, takes_json, takes_workspace, workspace_of
from daemon.cli.terminal import duration, out, say, show_json, tell_notices
from state.errors import BusyError, UsageError

if TYPE_CHECKING:
    from state.ranking import Filters, Findings, Hit

Name = TypeVar("Name", bound=StrEnum)

MAX_LIMIT = 1_000


def add(parser: argparse.ArgumentParser) -> None:
    """What for, and among which crystals."""
    parser.add_argument("query", nargs="+", metavar="QUERY")
    parser.add_argument("--limit", type=int, default=8, metavar="N", help="default %(default)s")
    parser.add_argument("--origin", metavar="NAME", help="scratch, session, seed, dream, working or evicted")
    parser.add_argument("--kind", metavar="NAME", help="fact, preference, episode, goal …")
    parser.add_argument("--session", metavar="ID")
    parser.add_argument("--speaker", metavar="NAME")
    parser.add_argument("--since", type=_moment, metavar="TIME", help="from this day or time on (ISO 8601)")
    parser.add_argument("--until", type=_moment, metavar="TIME", help="before this day or time (ISO 8601)")
    parser.add_argument("--trust", metavar="NAME", help="at least: owner, agent, tool or web")
    takes_workspace(parser)
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is found, best first.

    Pending notes are searched as well. While another process holds the workspace it is only read: a note of this
    minute may then be missed, and the search leaves no trace.
    """
    if not 1 <= arguments.limit <= MAX_LIMIT:
        raise UsageError(f"a limit of {arguments.limit} is impossible; give a number from 1 to {MAX_LIMIT}")
    query, filters = " ".join(arguments.query), _filters(arguments)
    workspace, config = workspace_of(arguments), config_of(arguments)
    from daemon.compose import owned, visited
    from daemon.searching import look, recall

    with ExitStack() as stack:
        try:
            store = stack.enter_context(owned(workspace, config, "dreamd search"))
            found = recall(store, query, arguments.limit, filters)
        except BusyError as busy:
            say(f"notice: searched as it stands: {busy}")
            store = stack.enter_context(visited(workspace, config))
            found = look(store, query, arguments.limit, filters)
        tell_notices(store.notices)
    _show(query, found, as_json=arguments.json)
    return 0


def _show(query: str, found: "Findings", *, as_json: bool) -> None:
    if as_json:
        from state.codec import plain

        hits = [
            {"id": hit.crystal.id, "score": hit.score, "age_days": hit.age_days, **plain(hit.crystal)}
            for hit in found.hits
        ]
        show_json({"query": query, "good": found.good, "arms": found.arms, "hits": hits})
        return
    if "dense" not in found.arms:
        say("notice: searched by words only")
    if not found.good:
        say("nothing answers this well; what follows is the nearest" if found.hits else "nothing was found")
    for number, hit in enumerate(found.hits, 1):
        out(f"{number}. {hit.crystal.text}")
        out(f"   {_about(hit)}", "dim")


def _about(hit: "Hit") -> str:
    crystal = hit.crystal
    parts = [f"{hit.score:.2f}", crystal.origin.value, crystal.kind.value, f"trust {crystal.trust.value}"]
    parts += [crystal.context] if crystal.context else []
    parts += [f"{duration(hit.age_days * 86_400)} old"]
    parts += [str(crystal.source)] if crystal.source else []
    return ", ".join(parts)


def _filters(arguments: argparse.Namespace) -> "Filters":
    from state.crystal import Kind, Origin, Trust
    from state.ranking import Filters

    return Filters(
        origin=_named(Origin, "origin", arguments.origin),
        kind=_named(Kind, "kind", arguments.kind),
        session=arguments.session,
        speaker=arguments.speaker,
        since=arguments.since,
        until=arguments.until,
        trust=_named(Trust, "trust", arguments.trust),
    )


def _named(names: type[Name], option: str, value: str | None) -> Name | None:
    if value is None:
        return None
    try:
        return names(value)
    except ValueError:
        raise UsageError(f"there is no {option} {value!r}; there are {', '.join(names)}") from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no day or time such as 2026-03-12 or 2026-03-12T14:30Z"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
