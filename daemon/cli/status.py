"""Show how a workspace is: pending notes, the last dream, crystals, spend, problems."""

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from daemon.cli.parsing import config_of, takes_folder, takes_json, workspace_of
from daemon.cli.terminal import ago, counted, duration, out, show_json

if TYPE_CHECKING:
    from daemon.status import LastDream, Spending, Status


def add(parser: argparse.ArgumentParser) -> None:
    """Which workspace."""
    takes_folder(parser)
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print it; works while a dream runs, and before the first one."""
    workspace, config = workspace_of(arguments), config_of(arguments)
    from daemon.status import status

    value = status(workspace, config, datetime.now(UTC))
    if arguments.json:
        show_json(value)
    else:
        _show(value)
    return 0


def _show(value: "Status") -> None:
    count = f"{counted(value.pending.notes, 'note')} pending"
    waits = f", the oldest for {duration(value.pending.oldest_seconds)}" if value.pending.notes else ""
    kinds = ", ".join(f"{number} {stage}" for stage, number in value.crystals.items())
    waiting = f"; {value.waiting_embeddings} wait for an embedding" if value.waiting_embeddings else ""
    rows = [
        ("workspace", value.workspace),
        ("MEMORY.md", f"version {value.version}, {value.characters:,} characters"),
        ("last dream", _dream(value.last_dream, value.at)),
        ("next dream", value.next_dream),
        ("notes", count + waits),
        ("crystals", f"{sum(value.crystals.values()):,}" + (f" ({kinds})" if kinds else "") + waiting),
        ("spent today", _spent(value.spending)),
    ]
    rows += [("breaker", f"open: {value.spending.breaker}")] if value.spending.breaker else []
    rows += [("held by", str(value.holder))] if value.holder else []
    rows += [("proposal", f"{dream} waits; 'dreamd review' shows it") for dream in value.proposals]
    for name, text in rows:
        out(f"{name:<12} {text}")
    for refusal in value.rejections:
        out(f"{'refused':<12} {refusal.guard} ({refusal.scope}): {refusal.figures}", "yellow")
    for problem in value.problems:
        out(f"{'problem':<12} {problem.what}; {problem.advice}", "red")


def _dream(last: "LastDream | None", now: datetime) -> str:
    if last is None:
        return "never"
    parts = [f"{ago(last.at, now)}, {last.reason}: {last.outcome}"]
    parts += [f"version {last.version}"] if last.version else []
    parts += [last.model] if last.model else []
    parts += [f"{last.tokens:,} tokens, ${last.usd:.4f}"] if last.tokens else []
    parts += [last.detail] if last.detail else []
    return ", ".join(parts)


def _spent(spending: "Spending") -> str:
    return (
        f"${spending.usd:.4f} of ${spending.usd_per_day:.2f}, "
        f"{spending.tokens:,} of {spending.tokens_per_day:,} tokens, {counted(spending.calls, 'call')}"
    )
