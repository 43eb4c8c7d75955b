"""Show the hormone levels as they are now, and the mood."""

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from daemon.cli.parsing import config_of, takes_json, takes_workspace, workspace_of
from daemon.cli.terminal import out, show_json

if TYPE_CHECKING:
    from state.hormones import Hormones

_BAR = 20


def add(parser: argparse.ArgumentParser) -> None:
    """Of which workspace."""
    takes_workspace(parser)
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print them."""
    workspace, config = workspace_of(arguments), config_of(arguments)
    from daemon.compose import visited

    with visited(workspace, config) as store:
        levels = store.feelings.levels(datetime.now(UTC))
    show_levels(levels, as_json=arguments.json)
    return 0


def show_levels(levels: "Hormones", *, as_json: bool) -> None:
    """The levels and the mood."""
    from state.codec import plain
    from state.hormones import Hormone, mood

    if as_json:
        show_json({**plain(levels), "mood": mood(levels)})
        return
    for hormone in Hormone:
        level = levels.level(hormone)
        out(f"{hormone.value:<9} {level:.2f} {'█' * round(level * _BAR):<{_BAR}}".rstrip())
    out(f"mood      {mood(levels)}")
