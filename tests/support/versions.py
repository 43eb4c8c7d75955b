"""Builds lines and changes of versions for tests."""

from datetime import UTC, datetime

from state.changes.change import Change, CurrentLine
from state.document.operations import Why
from state.document.pointer import render_pointer
from state.document.sections import SectionName
from state.trust import Trust

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)


def line(name: str, section: SectionName, text: str, trust: Trust = Trust.AGENT, crystal: str = "") -> CurrentLine:
    """Return a line; `crystal` is the one with its text, or the one a pointer leads to."""
    return CurrentLine(name, section, text, 0.5, trust, AT, crystal=crystal)


def pointer(name: str, topic: str, keywords: str, crystal: str) -> CurrentLine:
    return line(name, SectionName.POINTERS, render_pointer(topic, keywords), crystal=crystal)


def added(*lines: CurrentLine, evidence: tuple[str, ...] = ()) -> tuple[Change, ...]:
    """Return one change per line, each adding it."""
    return tuple(Change(Why.ADDED, (), (one,), evidence) for one in lines)
