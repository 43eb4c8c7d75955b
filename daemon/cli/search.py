"""Search the long-term memory by meaning and by words."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from daemon.cli.parsing import caller_of, takes_workspace
from daemon.cli.terminal import duration, out, say, show_json
from state.errors import UsageError

if TYPE_CHECKING:
    from daemon.api.operations.search import SearchHit, SearchReply
    from daemon.api.reasons import SearchSignals

Name = TypeVar("Name", bound=StrEnum)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: what for, and among which crystals."""
    parser.add_argument("query", nargs="+", metavar="QUERY")
    parser.add_argument("--limit", type=int, default=8, metavar="N", help="default %(default)s")
    parser.add_argument("--origin", metavar="NAME", help="scratch, session, seed, dream, working or evicted")
    parser.add_argument("--kind", metavar="NAME", help="fact, preference, episode, goal …")
    parser.add_argument("--session", metavar="ID")
    parser.add_argument("--speaker", metavar="NAME")
    parser.add_argument("--since", type=_moment, metavar="TIME", help="from this day or time on (ISO 8601)")
    parser.add_argument("--until", type=_moment, metavar="TIME", help="before this day or time (ISO 8601)")
    parser.add_argument(
        "--as-of", type=_day_over, metavar="DATE", help="as it was known at the end of this day, or then"
    )
    parser.add_argument("--trust", metavar="NAME", help="at least: owner, agent, tool or web")
    parser.add_argument("--archived", action="store_true", help="also what left sessions and was not kept")
    parser.add_argument("--explain", action="store_true", help="say why each result stands where it does")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is found, best first.

    Pending notes are searched as well. While another process holds the workspace it is only read: a note of this
    minute may then be missed, and the search leaves no trace.
    """
    caller = caller_of(arguments, "search")
    from daemon.api.operations.search import memory_search
    from state.crystals.crystal import Kind, Origin
    from state.trust import Trust

    reply = caller.ask(
        memory_search,
        query=" ".join(arguments.query),
        limit=arguments.limit,
        origin=_named(Origin, "origin", arguments.origin),
        kind=_named(Kind, "kind", arguments.kind),
        session=arguments.session,
        speaker=arguments.speaker,
        since=arguments.since,
        until=arguments.until,
        as_of=arguments.as_of,
        trust=_named(Trust, "trust", arguments.trust),
        archived=arguments.archived,
        explain=arguments.explain,
    )
    _show(reply, as_json=arguments.json)
    return 0


def _show(reply: "SearchReply", *, as_json: bool) -> None:
    if as_json:
        show_json(reply)
        return
    if "dense" not in reply.arms:
        say("notice: searched by words only")
    if not reply.good:
        say("nothing answers this well; what follows is the nearest" if reply.hits else "nothing was found")
    for number, hit in enumerate(reply.hits, 1):
        first, *more = hit.text.split("\n")
        out(f"{number}. {first}")
        for row in more:  # a text that goes on cannot be taken for the next hit
            out(f"   | {row}")
        if hit.superseded_at is not None:
            newer = " ".join(hit.superseded_by.split())
            out(f"   superseded {hit.superseded_at:%Y-%m-%d} by: {newer}", "dim")
        out(f"   {_about(hit)}", "dim")
        for row in _reasons(hit.signals) if hit.signals else ():
            out(f"   {row}", "dim")
    for left in reply.archived:
        first, *more = left.text.split("\n")
        out("\n".join([f"-  {first}", *(f"   | {row}" for row in more)]))
        about = f"left session {left.session}, trust {left.trust}, {duration(left.age_days * 86_400)} old"
        out(f"   {' '.join(about.split())}", "dim")


def _reasons(signals: "SearchSignals") -> Iterator[str]:
    """Yield rows that say why a result stands where it does: what added to it, what moved it, what is beside it."""
    if signals.shares:
        shares = [
            f"{one.name} {one.share:+.2f} ({one.value:.2f} x {one.weight:g})" for one in signals.shares if one.value
        ]
        yield f"relevance {signals.relevance:.2f}: {', '.join(shares) or 'nothing'}"
    else:
        yield "not found itself: it gives a result below another value"
    if signals.cosine is not None and signals.usual is not None:
        yield f"meaning: cosine {signals.cosine:.2f}, of unrelated texts {signals.usual:.2f}"
    if signals.boosts:
        yield f"moved by {', '.join(f'{one.name} x {one.factor:.2f}' for one in signals.boosts)}"
    for one in signals.neighbours:
        said = f"{one.speaker}: {one.text}" if one.speaker else one.text
        yield f"{f'{-one.place} before' if one.place < 0 else f'{one.place} after'}: {' '.join(said.split())}"


def _about(hit: "SearchHit") -> str:
    parts = [f"{hit.score:.2f}", hit.origin, hit.kind, f"trust {hit.trust}"]
    parts += [hit.context] if hit.context else []
    parts += [f"{duration(hit.age_days * 86_400)} old"]
    parts += [hit.provenance] if hit.provenance else []
    parts += [f"crystal {hit.id[:12]}"]
    return " ".join(", ".join(parts).split())


def _named(names: type[Name], option: str, value: str | None) -> Name | None:
    if value is None:
        return None
    try:
        return names(value)
    except ValueError:
        raise UsageError(f"there is no {option} {value!r}", f"there are {', '.join(names)}") from None


def _day_over(text: str) -> datetime:
    moment = _moment(text)
    return moment + timedelta(days=1) if len(text) == len("2026-03-12") else moment


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no day or time such as 2026-03-12 or 2026-03-12T14:30Z"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
