"""Every operation answers through every door what the table says, and what is refused has one code everywhere."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from daemon.api.daemon import HOUSEHOLD
from daemon.api.operations.operation import AnyOperation, FieldsError
from daemon.api.operations.table import OPERATIONS
from daemon.cli import OPERATIONS as COMMANDS
from daemon.mcp.tools import TOOLSETS, arguments_of
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.vector_index import Embedding
from state.stores.crystals.crystals import Crystals
from state.stores.database.opening import open_database
from tests.daemon.http.house import OwnHouse
from tests.daemon.mcp.agents import talking
from tests.daemon.pages.browser import Browser, windowed
from tests.doors.doors import BOTH, COMMAND_OF, DOORS, Answered, Place, agent_of, here, post
from tests.doors.rows import HOSTILE, ROOMS, Row, filled, is_like, is_part, lacks, rows_of
from tests.support.committing import id_of
from tests.support.running import Caller
from tests.support.working import SECRET

# What differs between two calls that ask the same: moments, ids, what is reckoned of them, this process.
_MOVING = re.compile(
    r"_\d{8}-\d{6}|\bnow\b|[\d.]+ (?:s|min)\b(?: ago)?|\d+\.\d\d+(?: █+)?|\d+ ms"
    r"|\d{4}-\d\d-\d\d[T ][\d:.]+Z?|\d\d:\d\d(?::\d\d)?Z?|[0-9a-f]{8,}"
)
_REDONE = ("age_days", "score", "at", "seconds", "bytes", "cosine", "size", "oldest_seconds", "later")
# Every call writes down that it was made, says what the machine has, or which door it was.
_OF_THIS_MACHINE = ("export", "doctor", "acts", "check_agent")

MISSING = "working_memory_chat-nobody_20200101-000000"


def still(value: Any, root: Path) -> Any:
    """The value without what moves."""
    if isinstance(value, Answered):
        return replace(value, reply=still(value.reply, root), text=still(value.text, root))
    if isinstance(value, str):
        if "\n@@ " in value:  # where the day of the last dream is another, more is about it
            value = "\n".join(row for row in value.split("\n") if row[:1] in set("+-") and "_Last dream" not in row)
        value = re.sub(r"\n +later: .*", "", value)  # of the next second
        return _MOVING.sub("…", value.replace(str(root), "ROOT").replace(str(root.parent), "FOLDER"))
    if isinstance(value, float):
        return round(value, 1)
    if isinstance(value, list):
        return [still(one, root) for one in value]
    if isinstance(value, dict):
        return {name: still(one, root) for name, one in value.items() if name not in _REDONE}
    return value


class Names(dict[str, str]):
    """What the table's names stand for in a workspace."""

    def __init__(self, root: Path) -> None:
        places = {"<root>": str(root), "<folder>": str(root.parent)}
        super().__init__({**places, "<secret>": SECRET, "<hostile>": HOSTILE, "<missing>": MISSING})
        self.root = root

    def learn(self, row: Row, answer: Answered) -> None:
        """Keep the id of what the row gives a name to."""
        if row.named:
            self[f"<{row.named}>"] = (answer.reply.get("memory") or answer.reply)["id"]

    def __missing__(self, name: str) -> str:
        assert name.startswith("<id of "), name
        return id_of(open_workspace(self.root).database, name[7:-1])


def done(root: Path, deed: dict[str, str], names: Names) -> None:
    """Something that happens to the workspace: files written, a statement of SQL, a crystal that is gone."""
    database = open_workspace(root).database
    for name, text in deed.items():
        if name in ("sql", "gone"):
            with closing(open_database(database)) as connection:
                if name == "sql":
                    connection.execute(text)
                else:
                    Crystals(connection).remove([id_of(database, text)])
        else:
            path = root / filled(name, names)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def life(root: Path, room: str) -> Iterator[tuple[Row, AnyOperation, Names]]:
    """The calls of a room, one by one."""
    names = Names(root)
    for row in rows_of(room):
        if row.do:
            done(root, row.do, names)
        else:
            call = replace(row, fields=filled(row.fields, names), words=filled(row.words, names))
            yield call, OPERATIONS[row.operation], names


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Logged in at a server with every door."""
    with windowed(tmp_path_factory.mktemp("state"), OwnHouse(embedding=Embedding())) as one:
        yield one


@pytest.fixture
def place(browser: Browser, tmp_path: Path, dreamd: Caller, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    server = browser.server
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    name = server.house.make(tmp_path / "memory")
    with talking(agent_of(server.house, name), config=BOTH) as talk:
        yield Place(server, name, server.house.roots[name], dreamd, monkeypatch, talk)


@pytest.fixture(scope="module")
def answers(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Answered]]:
    """What the functions answer in a room, asked once."""

    @cache
    def asked(room: str) -> list[Answered]:
        root = init_workspace(tmp_path_factory.mktemp(room) / "memory").root
        answered = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", str(root.parent / "config"))
            for row, operation, names in life(root, room):
                answered.append((row, here(root, browser.server.house.embedding, operation, row), names))
                names.learn(row, answered[-1][1])
        wrong = [
            f"{row.operation} {row.fields}: {said}"
            for row, one, names in answered
            if (said := unlike(row, one, names))
        ]
        assert not wrong, "\n".join(wrong)
        return [still(one, root) for _, one, _ in answered]

    return asked


@pytest.mark.parametrize("room", ROOMS)
def test_an_operation_answers_what_the_table_says(answers: Callable[[str], list[Answered]], room: str) -> None:
    assert answers(room)


# Commands show sessions in a way of their own.
@pytest.mark.parametrize(
    ("door", "room"), [pair for pair in product(DOORS, ROOMS) if pair != ("command", "sessions")]
)
def test_every_door_answers_the_same(
    place: Place, answers: Callable[[str], list[Answered]], door: str, room: str
) -> None:
    """What a door has no way to ask is asked beside it."""
    wrong, through = [], 0
    for (row, operation, names), expected in zip(life(place.root, room), answers(room), strict=True):
        asked = DOORS[door](place, operation, row)
        through += asked is not None
        found = asked or post(place, operation, row)
        names.learn(row, found)
        said = differs(row, expected, found, names, is_command=door == "command")
        wrong += [f"{row.operation} {row.fields}: {said}"] if said else []
    assert not wrong, "\n".join(wrong)
    assert through


def unlike(row: Row, answer: Answered, names: Names) -> list[str]:
    """In what an answer is not what the table says."""
    if row.code or answer.code:
        is_so = answer.code == row.code and (row.wrong or is_like(f"…{row.said}…", answer.said, names))
        is_so = is_so and answer.wrong == frozenset(row.wrong.split())
        if "session_id" in row.fields and not row.wrong:  # it says which session and memory it is about
            is_so = is_so and {*(answer.about or ())} == {"session_id", "memory_id"} & row.fields.keys()
        return [] if is_so else [str(answer)]
    is_text = is_like(row.text or "…", answer.text or "", names)
    return [*lacks(row.reply or {}, answer.reply, names), *([] if is_text else [str(answer.text)])]


def differs(row: Row, expected: Answered, found: Answered, names: Names, *, is_command: bool) -> str:
    """How an answer differs from that of the function."""
    if found.code != expected.code or (
        found.wrong is not None and (found.wrong, found.about) != (expected.wrong, expected.about)
    ):
        return f"{found}"
    if found.code:
        return "" if row.wrong or is_like(f"…{row.said}…", found.said, names) else found.said
    if row.operation in _OF_THIS_MACHINE:
        return ""
    if is_command and row.prints:
        return "" if is_like(row.prints, found.text or "", names) else f"{found.text}"
    same = still(found, names.root)
    if same.reply is not None and not is_part(same.reply, expected.reply):
        return f"{same.reply}\n{expected.reply}"
    # A person at a terminal is not told that it is data, and in a browser there is more about it.
    shown, whole = " ".join((same.text or "").split()), " ".join((expected.text or "").split())
    return "" if shown in whole or whole in shown else f"{shown}\n{whole}"


def test_the_table_has_every_operation() -> None:
    rows = [row for room in ROOMS for row in rows_of(room) if not row.do]
    every = {row.operation for row in rows if not row.code}
    assert OPERATIONS.keys() == every
    assert {row.operation for row in rows} <= OPERATIONS.keys()
    assert set(COMMAND_OF.values()) == set(COMMANDS)


def test_wrong_arguments_are_named_at_every_door(place: Place) -> None:
    """Of all operations, also of those of the daemon itself; no value is said."""
    wrong: dict[str, Any] = {
        one.name: {"nonsense": 1, **{each.name: {"no": ["such"]} for each in one.parameters}}
        for one in (*OPERATIONS.values(), *HOUSEHOLD.values())
    }
    for operation in (*OPERATIONS.values(), *HOUSEHOLD.values()):
        with pytest.raises(FieldsError) as error:
            operation.bind(**wrong[operation.name])
        assert "nonsense" in str(error.value)
        assert "such" not in str(error.value).replace("nonsense", "")
        there = place.path(operation) if operation.name in OPERATIONS else f"/v1/{operation.name}"
        ask = place.server.ask if operation.remote else place.server.ask_socket
        answers = [ask("POST", there, wrong[operation.name])]
        if operation.reads:
            answers.append(ask("GET", f"{there}?nonsense=1"))
        for answer in answers:
            assert (answer.status, answer.code) == (422, "VALIDATION_ERROR"), answer.body
            assert "nonsense" in answer.json["details"]["fields"]
    for tool in (*TOOLSETS["memory"], *TOOLSETS["sessions"]):
        assert place.talk.refused(tool.name, **wrong[tool.name])["code"] == "VALIDATION_ERROR"
    for name in COMMANDS:
        assert place.dreamd(name, "-w", place.root, "--nonsense", "1").status == 2


def test_an_agent_may_set_what_is_not_its_owners_alone() -> None:
    for operation in TOOLSETS["memory"]:
        assert not {"mode", "explain", "look", "receipt", "agent"} & set(arguments_of(operation))
