"""Texts of configuration files in every layout that a person or a program leaves behind."""

import json
import tomllib
from collections.abc import Callable
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

NAMES = st.sampled_from(["a", "b", "mcpServers", "hooks", "SessionStart", 'Ada\'s "own"', "ä.b"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.sampled_from(["// no comment", "/* none */", "# none", '"', "\\", "\x7f", "'''", '"""'])
)
OBJECTS = st.dictionaries(
    NAMES,
    st.recursive(
        SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3), max_leaves=8
    ),
    max_size=4,
)


def held_by_toml(value: object) -> bool:
    """Whether there is no null in it."""
    if isinstance(value, dict):
        return all(map(held_by_toml, value.values()))
    return all(map(held_by_toml, value)) if isinstance(value, list) else value is not None


@st.composite
def jsonc_texts(draw: Draw) -> tuple[str, list[str]]:
    """An object in JSON with comments, and its comments; what is empty has no white space within its brackets."""
    contents = draw(OBJECTS)
    line_end: str = draw(st.sampled_from(["\n", "\r\n"]))
    if draw(st.booleans()):
        text = json.dumps(
            contents, indent=draw(st.sampled_from([None, 2, 4, "\t"])), ensure_ascii=draw(st.booleans())
        )
        end: str = draw(st.sampled_from(["", line_end]))
        return text.replace("\n", line_end) + end, []
    comments: list[str] = []

    def gap(*, has_comment: bool = False) -> str:
        kind: int = draw(st.integers(5 if has_comment else 0, 8))
        if kind < 5:
            return ["", "", " ", line_end, f"{line_end}\t "][kind]
        is_line = kind > 6
        comments.append(f"// {{ 'n{len(comments)}' ]," if is_line else f'/* "n{len(comments)}" }} */')
        return ["", " "][kind % 2] + comments[-1] + (line_end if is_line else "")

    def written(value: object) -> str:
        if isinstance(value, dict):
            parts = [f"{gap()}{json.dumps(n)}{gap()}:{gap()}{written(each)}{gap()}" for n, each in value.items()]
        elif isinstance(value, list):
            parts = [f"{gap()}{written(each)}{gap()}" for each in value]
        else:
            return json.dumps(value)
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        if not parts:
            return opening + (gap(has_comment=True) if draw(st.booleans()) else "") + closing
        end: str = draw(st.sampled_from(["", ",", f",{line_end}"]))
        return opening + ",".join(parts) + end + closing

    head: str = draw(st.sampled_from(["", "\ufeff"]))
    return f"{head}{gap()}{written(contents)}{gap()}", comments


_ROOT = """model = "gpt # 5"
notify = ["a",  'b']
mcp_servers.x.command = "c"
"tools".web = true
lines = '''
[[no.header]] # no comment'''
profile = { name = "x", deep = { } }
dates = [ 1979-05-27 07:32:00, 1.5e3, inf ]
rows = []
hooks = { Stop = [] }
features.a = 1"""
_TABLES = """[mcp_servers.x]
[mcp_servers.x.env]
[mcp_servers]
[ features ]
[[hooks.Stop]]
[[hooks.Stop.hooks]]
[[hooks.SessionStart]]
[hooks.SessionStart.extra]
[hooks]
["quoted name"]"""
_ENTRIES = ["a = 1", "  b = 'x'", 'c.d = """\n# no comment\n[x]"""', "e = [\n  1, # {n}\n  2,\n]", "f = {{ g = 1 }}"]


@st.composite
def toml_texts(draw: Draw) -> tuple[str, list[str]]:
    """A text that is TOML, and its comments."""
    lines: list[str] = []
    comments: list[str] = []

    def add(line: str) -> None:
        if "{n}" in line:
            comments.append(f"# n{len(comments)}")
        lines.append(line.replace("# {n}", comments[-1] if comments else "").replace("{{", "{").replace("}}", "}"))
        kind = draw(st.integers(0, 5))
        if kind > 3:
            comments.append(f"# [n{len(comments)}]")
            lines[-1 if kind == 4 else len(lines) :] = [f"{lines[-1]} {comments[-1]}" if kind == 4 else comments[-1]]
        elif kind == 3:
            lines.append("")

    root = _ROOT.replace("'''\n", "'''\0").split("\n")
    for line in draw(st.lists(st.sampled_from(root), unique=True, max_size=4)):
        add(line.replace("\0", "\n"))
    for table in draw(st.lists(st.sampled_from(_TABLES.split("\n")), max_size=5)):
        add(table)
        for line in draw(st.lists(st.sampled_from(_ENTRIES), unique=True, max_size=2)):
            add(line)
    text = "\n".join([*draw(st.lists(st.sampled_from(["", " "]), max_size=1)), *lines])
    text = (text + draw(st.sampled_from(["", "\n", "\n\n"]))).replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(condition=False)
    head: str = draw(st.sampled_from(["", "\ufeff"]))
    return head + text, comments
