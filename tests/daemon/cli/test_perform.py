"""One description, one answer: what a command prints is what HTTP, the client and an agent are answered."""

import re
from pathlib import Path
from typing import Any

import pytest

from daemon.api.access import LocalAccess
from daemon.api.operations.operation import AnyOperation, FieldsError
from daemon.api.operations.table import OPERATIONS
from daemon.api.text import ABOUT
from daemon.cli import OPERATIONS as COMMANDS
from daemon.cli import perform
from daemon.config.settings import Config
from daemon.mcp.tools import TOOLSETS, arguments_of, text_of
from daemon.workspace.adoption import open_workspace
from state.codec import plain
from tests.daemon.mcp.agents import asking, in_process, run, shown
from tests.support.running import NOTES, Caller

# Each command that is an operation, with its words and the fields of the request that these are.
TALK: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
    ("search", ("hot", "drink", "--limit", "2"), {"query": "hot drink", "limit": 2}),
    ("search", ("tea", "--origin", "seed"), {"query": "tea", "origin": "seed"}),
    ("why", (NOTES[0],), {"text": NOTES[0]}),
    ("why-not", ("ledger",), {"text": "ledger"}),
    ("history", ("--limit", "1"), {"limit": 1}),
    ("mood", (), {}),
    ("feel", ("social", "--because", "hi"), {"event": "social", "because": "hi"}),
    ("supersede", (NOTES[0], NOTES[1]), {"older": NOTES[0], "newer": NOTES[1]}),
    ("restore", ("1",), {"version": 1}),
)
# What differs between two calls that ask the same.
_MOVING = re.compile(
    r"mood  .*|\d+ s old|\d+\.\d\d(?: █+)?|version \d+|\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?|[0-9a-f]{12,}"
)
_NUMBERS = (
    "mood",
    "age_days",
    "score",
    "dopamine",
    "cortisol",
    "oxytocin",
    "at",
    "number",
    "dream",
    "cosine",
    "turned",
)


def still(value: Any) -> Any:
    """The value without what moves."""
    if isinstance(value, str):
        return _MOVING.sub("…", value)
    if isinstance(value, list):
        return [still(one) for one in value]
    if isinstance(value, dict):
        return {name: still(one) for name, one in value.items() if name not in _NUMBERS}
    return value


@pytest.mark.parametrize(("command", "words", "fields"), TALK)
def test_a_command_prints_the_reply_that_every_window_has(
    dreamd: Caller, here: Path, command: str, words: tuple[str, ...], fields: dict[str, Any]
) -> None:
    for note in NOTES:
        assert dreamd("note", "-w", here, note).status == 0
    assert dreamd("dream", here).status == 0
    operation = perform.operation_at(COMMANDS[command])
    with LocalAccess(open_workspace(here), Config(), "a test") as access:
        reply = operation.answer(access, operation.bind(**fields))
    printed = dreamd(command, *words, "-w", here)
    assert printed.status == 0, printed.err
    said = text_of(operation, reply).removeprefix(ABOUT).lstrip("\n")
    assert still(printed.out.strip()) in still(said), printed.err
    assert still(dreamd(command, *words, "-w", here, "--json").json) == still(plain(reply))
    if operation.agents:

        async def body() -> None:
            async with in_process(asking(open_workspace(here))) as client:
                assert still(await shown(client, operation.name, **fields)) == still(text_of(operation, reply))

        run(body)


def test_the_talk_has_every_command_that_is_an_operation() -> None:
    assert {command for command, *_ in TALK} == set(COMMANDS)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_wrong_arguments_are_named_by_every_operation(operation: AnyOperation) -> None:
    with pytest.raises(FieldsError) as refused:
        operation.bind(nonsense=1, **{one.name: object() for one in operation.parameters})
    named = {name.partition(".")[0] for name in dict(refused.value.details["fields"])}  # type: ignore[call-overload]
    aliases = {str(one.bounds.get("alias", one.name)) for one in operation.parameters}
    assert named - {one.name for one in operation.parameters} <= {"nonsense", *aliases}
    assert "nonsense" in named
    assert "object at" not in str(refused.value)


def test_an_agent_may_set_what_is_not_its_owners_alone() -> None:
    for operation in TOOLSETS["memory"]:
        assert not {"mode", "explain", "look", "receipt", "agent"} & set(arguments_of(operation))
