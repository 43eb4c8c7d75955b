"""Generic: the page of any operation that has none of its own: a form from its parameters, and its reply below."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import create_model

from daemon.api.operations.operation import AnyOperation, Parameter
from daemon.api.operations.request import Request
from daemon.api.operations.table import OPERATIONS
from daemon.pages.page import Act, Ask, Done, Page

# A person who looks uses nothing of what is found, and is not an agent that is given something.
_LOOKING = {"look": True, "receipt": "none"}
# What fills a reply that has nothing in it yet.
_FILLED_BY = {
    "gaps": "A search that finds nothing good leaves a question here, and so does a question in a note.",
    "skills": "A task that is asked for in several sessions shows here, once a pass over the memory has looked.",
    "mood": "Errors and thanks in transcripts raise the levels, and so does 'dreamd feel'.",
    "acts": "A row for each thing that you do here: accept, edit, restore, forget.",
    "configuration": "Your own values go into ~/.config/dreamd/config.yaml; a variable of the daemon's environment"
    " overrides them. Secrets are never shown.",
    "doctor": "It looks at the configuration, the model, the files and every store, and mends a torn index; nothing"
    " is asked of the network.",
}
# These say more as tables and curves than their text does.
_LAID_OUT = {"configuration", "doctor", "history", "mood"}
_LONG = 1_000


@cache
def page_of(name: str) -> Page | None:
    """Return the page of this operation; None if there is none that may be asked over a network."""
    operation = OPERATIONS.get(name)
    if operation is None or not operation.remote:
        return None
    controls = tuple(_controls(operation))
    known = {one.name for one in operation.parameters}
    at_once = operation.reads and not operation.long
    title = name.replace("_", " ").capitalize()
    as_text = operation.text is not None and name not in _LAID_OUT
    beside = {"operation": operation, "controls": controls, "at_once": at_once, "as_text": as_text}
    beside["filled_by"] = _FILLED_BY.get(name, "")

    def asked(ask: Ask, fields: Mapping[str, object]) -> object:
        given = {name: value for name, value in fields.items() if value is not None}
        return ask(operation, **given, **{name: value for name, value in _LOOKING.items() if name in known})

    def read(ask: Ask, **fields: object) -> Mapping[str, object]:
        """Answer at once what only reads, if it has all that it needs."""
        is_whole = at_once and all(fields[one.name] is not None for one, *_ in controls if one.required)
        return beside | {"reply": asked(ask, fields) if is_whole else None}

    def run(ask: Ask, **fields: object) -> Done:
        return Done("Done.", replies={"reply": asked(ask, fields)})

    # None of its fields has to be given: the operation says what is missing.
    fields: dict[str, Any] = {
        one.name: (one.kind | None, None)
        for one in operation.parameters
        if one.name == "cursor" or one in [control for control, *_ in controls]
    }
    form = create_model(name, __base__=Request, **fields)
    if at_once:
        is_live = not any(kind == "text" for _, kind, _ in controls)
        return Page(name, title, read, live=is_live, under="settings", template="generic", own_query=form)
    act = Act(run, "run", operation.long, operation.reads, form)
    return Page(name, title, read, acts=(act,), under="settings", template="generic", own_query=Request)


def _controls(operation: AnyOperation) -> Iterator[tuple[Parameter, str, tuple[str, ...]]]:
    """Yield the parameters that a person sets, each with the kind of its control, and what it is chosen from.

    What no form can hold (tables, lists of changes) is for programs alone.
    """
    for one in operation.parameters:
        found = _control_of(one)
        if found is not None and one.name not in {"cursor", *_LOOKING}:
            yield one, *found


def _control_of(one: Parameter) -> tuple[str, tuple[str, ...]] | None:
    kind = one.type
    if get_origin(kind) is Literal:
        return "select", tuple(str(each) for each in get_args(kind) if each != "")
    if not isinstance(kind, type):
        return None
    if issubclass(kind, bool | Enum):
        return "select", ("true", "false") if kind is bool else tuple(str(each.value) for each in kind)
    if issubclass(kind, int | float):
        return "number", ()
    is_long = issubclass(kind, str) and one.bounds.get("max_length", 0) > _LONG
    return ("area" if is_long else "text", ()) if issubclass(kind, str | datetime) else None
