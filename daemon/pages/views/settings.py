"""Settings: what is in force and where each value comes from, how agents are connected, the doctor, all the rest."""

from itertools import groupby

from daemon.api.operations.setup import configuration, connection_recipes
from daemon.api.operations.upkeep import doctor
from daemon.config.entries import DEFAULT
from daemon.pages.generic import everything
from daemon.pages.page import Act, Ask, Done, Page, Shown
from daemon.pages.templates import counted
from daemon.upkeep.examine import Level


def _read(ask: Ask) -> Shown:
    found, recipes = ask(configuration), ask(connection_recipes)
    beside = {
        "yours": [one for one in found.entries if one.origin != DEFAULT],
        "sections": [
            (name, list(group)) for name, group in groupby(found.entries, lambda one: one.key.split(".")[0])
        ],
        "agents": [(name, list(group)) for name, group in groupby(recipes.recipes, lambda one: one.agent)],
        "levels": [(Level.PROBLEM, "bad"), (Level.WARNING, "warn"), (Level.OK, "good")],
        "operations": everything(),
    }
    return Shown({"configuration": found, "recipes": recipes}, beside)


def _doctor(ask: Ask) -> Done:
    found = ask(doctor)
    counts = {level: sum(one.level is level for one in found.findings) for level in Level}
    wrong = [counted(counts[level], level.value) for level in (Level.PROBLEM, Level.WARNING) if counts[level]]
    return Done(f"Examined: {' and '.join(wrong) or 'everything is sound'}.", replies={"doctor": found})


PAGE = Page("settings", "Settings", _read, acts=(Act(_doctor, "doctor", long=True, reads=True),))
