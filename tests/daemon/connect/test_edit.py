"""Edits of agents' files: what is put in is read, all else stays, and taking it out leaves the bytes as they were."""

import json
import re
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from daemon.connect.edit import Format, Setting, at, cut, holds, put, read
from state.errors import DocumentError, UsageError
from tests.support.long_variants import fewer, variants

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
VALUE = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(NAMES, VALUE, max_size=4)
JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\s+|[^\s"{}\[\],:]+|[{}\[\],:]')
COMMENTS = ["", '/* "n{n}" }} */', "// {{ 'n{n}' ],\n"]
GAPS = ["", "", "", " ", "\n", "\n\t ", *COMMENTS]
TOML_ROOT = """model = "gpt # 5"
notify = ["a",  'b']
mcp_servers.x.command = "c"
"tools".web = true
lines = '''|[[no.header]] # no comment'''
profile = { name = "x", deep = { } }
dates = [ 1979-05-27 07:32:00, 1.5e3, inf ]
rows = []
hooks = { Stop = [] }
features.a = 1""".split("\n")
TOML_TABLES = (
    "[mcp_servers.x] [mcp_servers.x.env] [mcp_servers] [features] [[hooks.Stop]] [[hooks.Stop.hooks]]"
    ' [[hooks.SessionStart]] [hooks.SessionStart.extra] [hooks] ["quoted-name"]'
).split()
TOML_ENTRIES = ["a = 1", "  b = 'x'", 'c.d = """|# no comment|[x]"""', "e = [|  1, # one|  2,|]", "f = { g = 1 }"]


def held_by_toml(value: object) -> bool:
    """Whether there is no null in it."""
    if isinstance(value, dict):
        return all(map(held_by_toml, value.values()))
    return all(map(held_by_toml, value)) if isinstance(value, list) else value is not None


@st.composite
def jsonc_texts(draw: Draw) -> tuple[str, list[str]]:
    """An object in JSON with comments, and its comments; what is empty has no white space within its brackets."""
    text = json.dumps(draw(OBJECTS), indent=draw(st.sampled_from([None, 2, "\t"])), ensure_ascii=draw(st.booleans()))
    parts, comments, last, is_plain = list[str](), list[str](), "{", draw(st.booleans())
    for token in JSON_TOKEN.findall(text):
        is_empty = token in ("}", "]") and last in ("{", "[")
        if token in ("}", "]") and not is_empty and not is_plain:
            parts.append(draw(st.sampled_from(["", ","])))
        gap: str = "" if token.isspace() or is_plain else draw(st.sampled_from(COMMENTS if is_empty else GAPS))
        if "n{n}" in gap:
            gap = gap.format(n=len(comments))
            comments.append(gap.strip())
        parts += [gap, token]
        last = last if token.isspace() else token
    whole = "".join([draw(st.sampled_from(["", "\ufeff"])), *parts, draw(st.sampled_from(["", "\n"]))])
    return whole.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))), comments


@st.composite
def toml_texts(draw: Draw) -> tuple[str, list[str]]:
    """A text that is TOML, and its comments."""
    rows = draw(st.lists(st.sampled_from(TOML_ROOT), unique=True, max_size=4))
    for table in draw(st.lists(st.sampled_from(TOML_TABLES), max_size=5)):
        rows += [table, *draw(st.lists(st.sampled_from(TOML_ENTRIES), unique=True, max_size=2))]
    lines, comments = list[str](), list[str]()
    for row in rows:
        end: str = draw(st.sampled_from(["", "", "|", " # [n]", "|# [n]"]))
        if "#" in end:
            comments.append(f"# [n{len(comments)}]")
        lines.append(row + end.replace("# [n]", comments[-1] if comments else ""))
    text = "|".join(lines) + draw(st.sampled_from(["", "|", "||"]))
    text = draw(st.sampled_from(["", "\ufeff"])) + text.replace("|", draw(st.sampled_from(["\n", "\r\n"])))
    try:
        tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError:
        assume(condition=False)
    return text, comments


TEXTS = {"json": jsonc_texts(), "toml": toml_texts(), "md": st.tuples(st.text(max_size=40), st.just([]))}
PATHS: dict[str, list[tuple[str, ...]]] = {
    "json": [("dreamd",), ("a",), ("a", "b"), ("mcpServers", "dreamd"), ("hooks", "SessionStart"), ("b", "c", "d")],
    "toml": [
        *[("dreamd",), ("mcp_servers", "dreamd"), ("features", "a"), ("features", "hooks"), ("hooks", "Stop")],
        *[("hooks", "SessionStart"), ("hooks", "state", "ä.b", "hash"), ("quoted name", "c"), ("c", "d", "e")],
    ],
    "md": [("lines",)],
}
VALUES: dict[str, st.SearchStrategy[Any]] = {"json": SCALARS | OBJECTS | st.lists(OBJECTS, max_size=2)}
VALUES["toml"] = OBJECTS.filter(held_by_toml) | SCALARS.filter(held_by_toml)
VALUES["md"] = st.sampled_from(["@.gemini/dreamd.md", "@x"])
SERVER = {"command": "dreamd", "args": ["mcp"]}


def settings_of(form: Format) -> st.SearchStrategy[Setting]:
    items = st.just(value=True) if form == "md" else st.booleans()
    return st.builds(Setting, st.sampled_from(PATHS[form]), VALUES[form], items)


@pytest.mark.parametrize("count", variants(0, 12_000))
@pytest.mark.parametrize("form", ["json", "toml", "md"])
def test_random_files_are_edited_and_restored_byte_for_byte(form: Format, count: int) -> None:
    @settings(max_examples=count or fewer(40, 400), suppress_health_check=list(HealthCheck))
    @given(TEXTS[form], st.lists(settings_of(form), min_size=1, max_size=3))
    def holds_for(drawn: tuple[str, list[str]], wanted: list[Setting]) -> None:
        text, comments = drawn
        current, puts = text, []
        for setting in wanted:
            before = read(form, current)
            try:
                current, one = put(form, current, setting)
            except DocumentError:
                event("refused")
                assert not holds(form, current, setting)
                continue
            event("edited" if one.text else "there already")
            puts.append(one)
            assert holds(form, current, setting)
            assert without(read(form, current), setting) == without(before, setting)
            assert put(form, current, setting) == (current, type(one)(setting, ""))
        assert all(comment in current for comment in comments)
        for one in reversed(puts):
            current = (cut(form, current, one) or "") if one.text else current
        assert current == text

    holds_for()


def without(value: Any, setting: Setting) -> Any:
    """What a file says apart from one setting, and from objects that hold nothing."""

    def inner(value: Any, path: tuple[str, ...]) -> Any:
        if path and isinstance(value, dict):
            rest = {name: one for name, one in value.items() if name != path[0]}
            left = inner(value.get(path[0], {}), path[1:])
            return {**rest, path[0]: left} if left else rest
        if setting.item and isinstance(value, list):
            left = list(value)
            if setting.value in left:
                left.remove(setting.value)
            return left
        return {} if value == setting.value else value

    return inner(value, setting.path)


@pytest.mark.parametrize("count", variants(0, 4_000))
def test_what_an_agent_has_written_anew_comes_out_of_its_json_all_the_same(count: int) -> None:
    @settings(max_examples=count or fewer(40, 400), suppress_health_check=list(HealthCheck))
    @given(jsonc_texts(), settings_of("json"), st.sampled_from([None, 2, 4, "\t"]))
    def holds_for(drawn: tuple[str, list[str]], setting: Setting, indent: int | str | None) -> None:
        before = read("json", drawn[0])
        try:
            text, one = put("json", drawn[0], setting)
        except DocumentError:
            return
        anew = json.dumps(read("json", text), indent=indent, ensure_ascii=False)
        if one.text:
            after = cut("json", anew, one)
            assert after is not None
            assert without(read("json", after), setting) == without(before, setting)

    holds_for()


TABLES = [
    (("mcp_servers", "dreamd"), {**SERVER, "env": {"A.B": "1\x7f"}}, False,
     '\n[mcp_servers.dreamd]\ncommand = "dreamd"\nargs = ["mcp"]\n[mcp_servers.dreamd.env]\n"A.B" = "1\\u007f"\n'),
    (("hooks", "Stop"), {"hooks": [SERVER]}, True,
     '\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = "dreamd"\nargs = ["mcp"]\n'),
    (("projects", "/a b", "trust_level"), "trusted", False, '\n[projects."/a b"]\ntrust_level = "trusted"\n'),
]  # fmt: skip


def test_json_is_written_as_the_rest_of_the_file_is_and_toml_at_its_end() -> None:
    server = Setting(("mcpServers", "dreamd"), {"on": 1})
    for before, after in {
        "": '{\n  "mcpServers": {\n    "dreamd": {\n      "on": 1\n    }\n  }\n}\n',
        "// mine": '// mine\n{\n  "mcpServers": {\n    "dreamd": {\n      "on": 1\n    }\n  }\n}\n',
        '{"a": 1}': '{"mcpServers": {"dreamd": {"on": 1}}, "a": 1}',
        '{\n\t"mcpServers": {}\n}\n': '{\n\t"mcpServers": {\n\t\t"dreamd": {\n\t\t\t"on": 1\n\t\t}\n\t}\n}\n',
        '{\r\n "mcpServers": {\r\n  "b": {}, // of b\r\n },\r\n}\r\n': (
            '{\r\n "mcpServers": {\r\n  "dreamd": {\r\n   "on": 1\r\n  },\r\n  "b": {}, // of b\r\n },\r\n}\r\n'
        ),
    }.items():
        assert put("json", before, server)[0] == after
    for path, value, item, table in TABLES:
        for before in ('model = "x" # mine\n', 'model = "x" # mine'):
            assert put("toml", before, Setting(path, value, item))[0] == f'model = "x" # mine\n{table}'


@pytest.mark.parametrize(
    ("form", "text"),
    [
        *[
            ("json", text)
            for text in ("[]", "{", '{"a": NaN}', "{'a': 1}", "{1 2}", "{,}", "{},", '{"a": /* }', "{}{}")
        ],
        *[("json", '{"a": ' + "[" * 100_000), ("json", '{"a": 1' + "1" * 5_000 + "}")],
        *[("toml", "a = "), ("toml", "[a]\n[a]\n"), ("toml", "a = 1" + "1" * 5_000)],
    ],
)
def test_a_broken_file_is_refused(form: Format, text: str) -> None:
    with pytest.raises(DocumentError, match="this is no"):
        put(form, text, Setting(("mcpServers", "dreamd"), SERVER))


@pytest.mark.parametrize(
    ("form", "text", "setting", "why"),
    [
        ("json", '{"a": {"dreamd": 1}}', Setting(("a", "dreamd"), SERVER), "another value already"),
        ("json", '{"a": [1]}', Setting(("a", "dreamd"), SERVER), "belongs into an object"),
        ("json", '{"a": {}}', Setting(("a",), SERVER, item=True), "is a list"),
        ("json", '{"a": {"b": 1}, "a": {"c": 1}}', Setting(("a", "dreamd"), SERVER), "cannot be added"),
        ("toml", "a = {}", Setting(("a", "dreamd"), SERVER), "cannot be added"),
        ("toml", "[a]\nb = []", Setting(("a", "b"), SERVER, item=True), "cannot be added"),
        ("toml", "[projects.x]\nb = 1", Setting(("projects", "x", "trust_level"), "trusted"), "cannot be added"),
    ],
)
def test_what_is_in_the_way_is_named_and_the_text_to_put_in(
    form: Format, text: str, setting: Setting, why: str
) -> None:
    with pytest.raises(DocumentError, match=why) as refused:
        put(form, text, setting)
    assert json.dumps(setting.value) in refused.value.advice


@pytest.mark.parametrize(
    ("form", "path", "more"), [("json", "mcpServers", ""), ("toml", "mcp_servers", "more = 1\n")]
)
def test_what_somebody_changed_since_stays(form: Format, path: str, more: str) -> None:
    text, one = put(form, "", Setting((path, "dreamd"), SERVER))
    assert cut(form, text.replace('"mcp"', '"MCP"'), one) is None
    assert cut(form, "", one) == ""
    assert not more or cut(form, text + more, one) is None


def test_what_codex_has_written_anew_comes_out_of_its_toml_all_the_same() -> None:
    text, one = put("toml", 'model = "x"\n', Setting(("mcp_servers", "dreamd"), {**SERVER, "env": {"A": "1"}}))
    other = '\n[mcp_servers.other]\ncommand = "x"\n'
    anew = text.replace("\n[mcp_servers.dreamd.env]", "\n\n[mcp_servers.dreamd.env]") + other
    after = cut("toml", anew, one)
    assert after is not None
    assert read("toml", after) == read("toml", f'model = "x"\n{other}')


def test_of_two_alike_the_right_one_is_taken_out() -> None:
    before = '{"Stop": [], "End": []}'
    text, first = put("json", before, Setting(("Stop",), SERVER, item=True))
    text, second = put("json", text, Setting(("End",), SERVER, item=True))
    assert first.text == second.text
    after = cut("json", text, first)
    assert after is not None
    assert at(read("json", after), ("End",)) == [SERVER]
    assert cut("json", after, second) == before


def test_what_no_file_can_hold_is_refused() -> None:
    with pytest.raises(UsageError):
        put("json", "{}", Setting(("a",), "\udcff"))
