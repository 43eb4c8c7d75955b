"""Measure what the dream is worth: the same life of notes remembered in several ways, and asked.

Everything happens in temporary workspaces; yours are not touched. Without --model no model is called.
"""

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.parsing import config_of, takes_json
from daemon.cli.terminal import agreed, can_ask, out, say, show_json, show_table, working
from state.errors import UsageError

if TYPE_CHECKING:
    from daemon.config.settings import Config
    from daemon.evaluation.life import Life
    from daemon.evaluation.report import Report

_TOKENS = 3_000
_LEAST_TOKENS = 100


def add(parser: argparse.ArgumentParser) -> None:
    """Which life, and whether a model may be paid for."""
    parser.add_argument("--life", type=Path, metavar="FILE", help="a life of your own (docs/eval.md); TOML or JSON")
    parser.add_argument("--model", action="store_true", help="also dream with the configured model: it costs money")
    parser.add_argument("--yes", action="store_true", help="do not ask before a model is paid for")
    parser.add_argument(
        "--tokens",
        type=int,
        default=_TOKENS,
        metavar="N",
        help="budget of the bootstrap and five hits together; default %(default)s",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the intervals; default %(default)s")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration")
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Live, ask, print."""
    config = config_of(arguments)
    if arguments.tokens < _LEAST_TOKENS:
        raise UsageError(f"a budget of {arguments.tokens} tokens is impossible", f"give {_LEAST_TOKENS} or more")
    if arguments.seed < 0:
        raise UsageError(f"a seed of {arguments.seed} is impossible", "give 0 or more")
    from daemon.evaluation.life import built_in, read_life

    life = read_life(arguments.life) if arguments.life else built_in()
    if arguments.model:
        _agree_to_costs(life, config, agreed_before=arguments.yes)
    from daemon.evaluation.arms import Setting
    from daemon.evaluation.report import evaluate
    from daemon.workspace.stores import utc_now
    from daemon.workspace.vector_index import Embedding

    with tempfile.TemporaryDirectory(prefix="dreamd-eval-") as home, working("living…") as tell:
        setting = Setting(
            life=life,
            config=config,
            embedding=Embedding(download=config.embeddings.download),
            home=Path(home),
            tokens=arguments.tokens,
            started=utc_now(),
            with_model=arguments.model,
            tell=lambda line: tell(f"  {line}"),
        )
        found = evaluate(setting, arguments.seed)
    if arguments.json:
        show_json(found)
    else:
        _show(found)
    return 0


def _agree_to_costs(life: "Life", config: "Config", *, agreed_before: bool) -> None:
    """Say what the model may cost, and go on only when that is agreed to. Raises UsageError."""
    if config.model.name is None:
        raise UsageError("--model needs one", "set model.name in the configuration")
    from daemon.evaluation.costs import costs_of

    say(str(costs_of(life, config)))
    if agreed_before:
        return
    if not can_ask():
        raise UsageError("a model costs money, and nobody is here to agree", "say --yes")
    if not agreed("Go on?"):
        raise UsageError("nothing was done, and nothing paid for", "leave --model out for the rest")


def _show(found: "Report") -> None:
    from daemon.evaluation.report import compared, table

    changing = f"{found.facts} facts, {found.changing} of which change"
    out(f"{found.life}: {found.days} days, {found.notes} notes, {changing}", "bold")
    show_table(*table(found))
    out(f"means over facts with 95 % intervals; bootstrap and hits within {found.tokens:,} tokens", "dim")
    if not found.embeddings:
        say("notice: searched by words only, for there is no embedding model")
    for line in compared(found):
        out(line)
    for one in found.arms:
        paid = (
            f", {one.spent.calls} calls, {one.spent.tokens:,} tokens, ${one.spent.usd:.2f}" if one.spent.calls else ""
        )
        refused = f", {one.refused} dreams refused" if one.refused else ""
        out(f"{one.arm}: {one.seconds:.0f} s{paid}{refused}", "dim")
