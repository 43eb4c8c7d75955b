"""Check everything and say what to do: configuration, model, files, disk, stores, indexes, pointers."""

import argparse
import os
from typing import TYPE_CHECKING

from daemon.cli.parsing import takes_folder, takes_json, workspace_of
from daemon.cli.terminal import out, show_json

if TYPE_CHECKING:
    from daemon.examining import Finding

_STYLES = {"ok": "green", "warning": "yellow", "problem": "red"}


def add(parser: argparse.ArgumentParser) -> None:
    """Which workspace."""
    takes_folder(parser)
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print each finding; 1 when there is a problem. Nothing is asked of the network."""
    workspace = workspace_of(arguments)
    from daemon.doctor import examine
    from daemon.examining import Level

    findings = []
    for finding in examine(workspace, arguments.config, os.environ, lambda: _stores(arguments)):
        findings.append(finding)
        if not arguments.json:
            advice = f"; {finding.advice}" if finding.advice else ""
            out(f"{finding.level:<8} {finding.about:<13} {finding.what}{advice}", _STYLES[finding.level])
    if arguments.json:
        show_json(findings)
    return 1 if any(finding.level is Level.PROBLEM for finding in findings) else 0


def _stores(arguments: argparse.Namespace) -> "tuple[Finding, ...]":
    """What the owner of the stores finds in them: the daemon, or this process."""
    from daemon.asking import Caller
    from daemon.config import Config, load
    from daemon.operations.dreams import EXAMINE
    from daemon.operations.operation import Nothing
    from state.errors import ConfigError

    try:
        config = load(arguments.config)
    except ConfigError:  # a finding of its own
        config = Config()
    return Caller(workspace_of(arguments), config, "dreamd doctor").ask(EXAMINE, Nothing()).findings
