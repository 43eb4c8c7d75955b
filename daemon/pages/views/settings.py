"""Settings: the configuration in force and where each value comes from, how agents are connected, the doctor."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby

from daemon.api.operations.request import Nothing
from daemon.api.operations.setup import configuration, connection_recipes
from daemon.api.operations.upkeep import doctor
from daemon.config.entries import DEFAULT, ConfigEntry
from daemon.pages.page import Action, Ask, Done, Page, Replies
from daemon.upkeep.examine import Finding, Level

_WORST_FIRST = (Level.PROBLEM, Level.WARNING, Level.OK)
_KINDS = {Level.PROBLEM: "bad", Level.WARNING: "warn", Level.OK: "good"}


def _read(ask: Ask, _: Nothing) -> Replies:
    return {
        "configuration": ask(configuration),
        "recipes": ask(connection_recipes),
    }


def _view(replies: Replies, _: Nothing, __: datetime) -> Mapping[str, object]:
    every: Sequence[ConfigEntry] = replies["configuration"].entries
    findings: Sequence[Finding] = replies["doctor"].findings if "doctor" in replies else ()
    return {
        "yours": [one for one in every if one.origin != DEFAULT],
        "sections": [(name, list(group)) for name, group in groupby(every, lambda one: one.key.partition(".")[0])],
        "agents": [(name, list(group)) for name, group in groupby(replies["recipes"].recipes, lambda one: one.agent)],
        "findings": sorted(findings, key=lambda one: _WORST_FIRST.index(one.level)),
        "kinds": _KINDS,
    }


def _examine(ask: Ask, _: Nothing) -> Done:
    findings = ask(doctor)
    wrong = [
        f"{number} {what if number == 1 else what + 's'}"
        for level, what in ((Level.PROBLEM, "problem"), (Level.WARNING, "warning"))
        if (number := sum(one.level is level for one in findings.findings))
    ]
    return Done(f"Examined: {' and '.join(wrong) or 'everything is sound'}.", replies={"doctor": findings})


PAGE = Page(
    "settings",
    "Settings",
    _read,
    view=_view,
    actions=(Action("doctor", Nothing, _examine, long=True, reads=True),),
)
