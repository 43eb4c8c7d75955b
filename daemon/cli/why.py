"""Show where a line of MEMORY.md comes from: dream, operation, crystals, file and lines; and what it replaced."""

import argparse
from typing import TYPE_CHECKING

from daemon.cli.parsing import caller_of, takes_workspace
from daemon.cli.terminal import out, show_json

if TYPE_CHECKING:
    from daemon.api.provenance import Evidence, LineHistory, Removal, WrittenBy


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument: which line."""
    parser.add_argument("text", nargs="+", metavar="TEXT", help="words of the line, or its id (L12)")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the stories of the lines that are meant."""
    caller = caller_of(arguments, "why")
    from daemon.api.operations.search import memory_why

    stories = caller.ask(memory_why, text=" ".join(arguments.text)).lines
    if arguments.json:
        show_json(stories)
        return 0
    for number, story in enumerate(stories):
        out("") if number else None
        _show(story)
    return 0


def _show(story: "LineHistory") -> None:
    out(f"{story.id or '(new)'}  {story.section or 'above the sections'}: {story.text}", "bold")
    out(f"  {_written(story.writing)}")
    for witness in story.evidence:
        out(f"  rests on {_witnessed(witness)}")
    for old in story.replaced:
        out(f"  replaced {old.id} ({old.fate} in version {old.gone_in}): {old.text}")
    if story.ending:
        out(f"  {_ended(story.ending)}", "yellow")


def _written(writing: "WrittenBy | None") -> str:
    if writing is None:
        return "written by hand; no dream has met it yet"
    when = f"written {writing.at:%Y-%m-%d %H:%M} in version {writing.version}"
    if not writing.dream:
        return f"{when}, whose record is gone"
    by = " ".join([writing.model, *(f"({prompt})" for prompt in writing.prompts)]).strip()
    parts = [
        when,
        f"{writing.cause} {writing.dream} ({writing.reason})",
        writing.operation,
        *([f"by {by}"] if by else []),
    ]
    return ", ".join(parts)


def _witnessed(witness: "Evidence") -> str:
    if witness.at is None:
        return f"crystal {witness.crystal[:12]}, which was forgotten"
    where = "; ".join(witness.sources) or "no file"
    made = f", made from {', '.join(parent[:12] for parent in witness.parents)}" if witness.parents else ""
    heard = f"heard: {witness.heard}, " if witness.heard else ""
    superseded = (
        f"\n    superseded {witness.superseded_at:%Y-%m-%d} by crystal {witness.superseded_by[:12]}, found by "
        f"{witness.found_by}: {witness.holds_now}\n    (both hold? dreamd supersede --undo {witness.crystal[:12]} "
        f"{witness.superseded_by[:12]})"
        if witness.superseded_at
        else ""
    )
    return (
        f"crystal {witness.crystal[:12]} ({witness.origin}, trust {witness.trust}, {heard}{witness.at:%Y-%m-%d}, "
        f"{where}{made}): {witness.text}{superseded}"
    )


def _ended(ending: "Removal") -> str:
    parts = [f"left in version {ending.version}: {ending.fate}"]
    parts += [f"now: {ending.successor}"] if ending.successor else []
    parts += [f"search: {ending.keywords}"] if ending.keywords else []
    parts += [f"kept as crystal {ending.crystal[:12]}"] if ending.crystal else ["kept in 'dreamd history'"]
    return ", ".join(parts)
