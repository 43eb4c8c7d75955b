"""Rows: what is asked of each operation and what it answers, by room, in the order of a workspace's life.

`table/ROOM.yaml` has them. A row names the operation with its fields, and what of the answer counts:

    - history: {limit: 1}
      reply: {versions: [{number: 2, cause: dream}]}        a part of it; a list is whole, unless "…" ends it
      text: "version …"                                     as people and agents read it
    - diff: {}
      refused: NOT_FOUND there is no version yet            code, and a part of what is said
    - feel: {event: hungry}
      wrong: event                                          the fields, of a VALIDATION_ERROR if no other

In a text `…` is anything, `<root>` is the workspace, `<id of TEXT>` the crystal or memory that says it. `words` and
`prints` are of a command of another name. What is `named` is later meant by `<NAME>`. Rows with `do` are what happens
to the workspace meanwhile.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HOSTILE = "../../etc/passwd\0'; DROP TABLE sessions; --\r\n\u202e東京 🦓 %s {0} $(id)"
_PLACE = Path(__file__).with_name("table")
_HOLES = re.compile(r"…|<[^<>]+>")


@dataclass(frozen=True, slots=True)
class Row:
    """A call of an operation, or a deed (`do`), and what counts of the answer."""

    operation: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    reply: Any = None
    text: str = ""
    refused: str = ""
    wrong: str = ""
    words: str = ""
    prints: str = ""
    named: str = ""
    do: Any = None

    @property
    def code(self) -> str:
        """The error's code; empty for a good answer."""
        return self.refused.partition(" ")[0] or ("VALIDATION_ERROR" if self.wrong else "")

    @property
    def said(self) -> str:
        """A part of what the error says."""
        return self.refused.partition(" ")[2]


def rows_of(room: str) -> list[Row]:
    """The rows of a room."""
    return [_row(one) for one in yaml.safe_load((_PLACE / f"{room}.yaml").read_text(encoding="utf-8"))]


ROOMS = tuple(sorted(path.stem for path in _PLACE.glob("*.yaml")))


def _row(given: dict[str, Any]) -> Row:
    if "do" in given:
        return Row("", do=given["do"])
    (operation, fields), *more = given.items()
    return Row(operation, fields or {}, **dict(more))


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """A value of the table with the names in it."""
    if isinstance(value, dict):
        return {filled(key, names): filled(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, names) for one in value]
    return re.sub(r"<[^<>]+>", lambda it: names[it[0]], value) if isinstance(value, str) else value


def lacks(expected: Any, answer: Any, names: Mapping[str, str], path: str = "") -> list[str]:
    """What of the expected part is not in the answer."""
    if isinstance(expected, dict) and isinstance(answer, dict):
        every = ((f"{path}.{name}", one, answer.get(name, "nothing")) for name, one in expected.items())
        return [said for where, one, other in every for said in lacks(one, other, names, where)]
    if isinstance(expected, list) and isinstance(answer, list):
        wanted = expected[:-1] if expected and expected[-1] == "…" else expected
        if len(answer) < len(wanted) or (wanted is expected and len(answer) > len(wanted)):
            return [f"{path}: {len(answer)} of {len(wanted)}: {answer}"]
        every_one = enumerate(zip(wanted, answer, strict=False))
        return [said for at, (one, other) in every_one for said in lacks(one, other, names, f"{path}[{at}]")]
    is_text = isinstance(expected, str) and isinstance(answer, str)
    return [] if (is_like(expected, answer, names) if is_text else expected == answer) else [f"{path}: {answer!r}"]


def is_like(expected: str, text: str, names: Mapping[str, str]) -> bool:
    """Whether the text is what is expected, but for white space around its rows."""
    rows, wanted = ("\n".join(row.strip() for row in one.split("\n") if row.strip()) for one in (text, expected))
    parts = [re.escape(part) for part in _HOLES.split(wanted)]
    holes = [".*?" if hole == "…" else re.escape(names[hole]) for hole in _HOLES.findall(wanted)]
    pattern = "".join(part + hole for part, hole in zip(parts, [*holes, ""], strict=True))
    return re.fullmatch(pattern, rows, re.DOTALL) is not None


def is_part(part: Any, whole: Any) -> bool:
    """Whether everything in it stands in the whole under the same names."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and is_part(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(is_part, part, whole))
    return bool(part == whole)
