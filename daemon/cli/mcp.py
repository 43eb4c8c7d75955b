"""Serve an agent over stdio with MCP, for one workspace; this is what an agent's MCP configuration runs."""

import argparse
import os
from io import BufferedWriter

from daemon.cli.parsing import config_of, names_workspace, workspace_of


def add(parser: argparse.ArgumentParser) -> None:
    """Which workspace."""
    names_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until stdin ends. Stdout carries the protocol and nothing else."""
    wire = _wire()  # before anything is imported that might print
    from daemon.mcp.stdio import serve

    return serve(lambda: workspace_of(arguments), lambda: config_of(arguments), wire)


def _wire() -> BufferedWriter:
    """What was stdout. Whatever is printed goes to stderr, even what Python has still buffered when it ends."""
    wire = os.fdopen(os.dup(1), "wb")
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
    return wire
