"""Editors of configuration files: how what they write looks, and what they refuse."""

import pytest

from daemon.connect.editors.editor import EDITORS, Format
from state.errors import DocumentError, UsageError

SERVER = {"command": "dreamd", "args": ["mcp"]}
HOOK = {"matcher": "startup", "hooks": [{"type": "command", "command": "dreamd hook"}]}

JSONC: dict[str, tuple[str, str]] = {
    "nothing": ("", '{\n  "mcpServers": {\n    "dreamd": {\n      "on": 1\n    }\n  }\n}\n'),
    "one line": ('{"a": 1}', '{"a": 1, "mcpServers": {"dreamd": {"on": 1}}}'),
    "an empty object": (
        '{\n\t"mcpServers": {},\n\t"b": []\n}\n',
        '{\n\t"mcpServers": {\n\t\t"dreamd": {\n\t\t\t"on": 1\n\t\t}\n\t},\n\t"b": []\n}\n',
    ),
    "comments": (
        '{\n "mcpServers": {\n  "b": {} // of b\n  // "c": {}\n }\n}',
        '{\n "mcpServers": {\n  "b": {}, // of b\n  "dreamd": {\n   "on": 1\n  }\n  // "c": {}\n }\n}',
    ),
    "a comma at the end": (
        '{\r\n "mcpServers": {\r\n  "b": {}, // of b\r\n },\r\n}\r\n',
        '{\r\n "mcpServers": {\r\n  "b": {}, // of b\r\n  "dreamd": {\r\n   "on": 1\r\n  },\r\n },\r\n}\r\n',
    ),
    "two of one name": (
        '{"mcpServers": {"old": 1}, "mcpServers": {"new": 1}}',
        '{"mcpServers": {"old": 1}, "mcpServers": {"new": 1, "dreamd": {"on": 1}}}',
    ),
}


@pytest.mark.parametrize(("before", "after"), JSONC.values(), ids=JSONC)
def test_json_is_written_as_the_rest_of_the_file_is(before: str, after: str) -> None:
    assert EDITORS["json"].with_value(before, ("mcpServers", "dreamd"), {"on": 1}) == after


def test_toml_is_written_at_the_end_with_headers() -> None:
    before = 'model = "x" # mine\n\n[[hooks.Stop]]\nmatcher = ""\n\n[features]\nweb = true\n'
    edit = EDITORS["toml"]
    after = edit.with_value(before, ("mcp_servers", "dreamd"), {**SERVER, "env": {"A.B": "1"}})
    after = edit.with_item(after, ("hooks", "SessionStart"), HOOK)
    after = edit.with_value(after, ("features", "hooks"), value=True)
    assert after == before.replace("web = true\n", "web = true\nhooks = true\n") + (
        '\n[mcp_servers.dreamd]\ncommand = "dreamd"\nargs = ["mcp"]\n[mcp_servers.dreamd.env]\n"A.B" = "1"\n'
        '\n[[hooks.SessionStart]]\nmatcher = "startup"\n'
        '[[hooks.SessionStart.hooks]]\ntype = "command"\ncommand = "dreamd hook"\n'
    )
    after = edit.without_value(after, ("features", "hooks"))
    after = edit.without_value(after, ("mcp_servers", "dreamd"))
    assert edit.without_item(after, ("hooks", "SessionStart"), HOOK) == before


def test_a_table_within_a_line_takes_in_what_belongs_to_it() -> None:
    before = 'mcp_servers = { other = { command = "x" } } # mine\n'
    after = EDITORS["toml"].with_value(before, ("mcp_servers", "dreamd"), {"command": "dreamd"})
    assert after == ('mcp_servers = { other = { command = "x" }, dreamd = { command = "dreamd" } } # mine\n')
    assert EDITORS["toml"].without_value(after, ("mcp_servers", "dreamd")) == before


def test_of_an_object_only_what_differs_is_written() -> None:
    before = '{"dreamd": {"command": "old", /* mine */ "args": ["mcp"], "gone": 1}}'
    after = EDITORS["json"].with_value(before, ("dreamd",), SERVER)
    assert after == '{"dreamd": {"command": "dreamd", /* mine */ "args": ["mcp"]}}'
    before = '[dreamd]\ncommand = "old" # mine\nargs = ["mcp"]\ngone = 1\n# the end\n'
    after = EDITORS["toml"].with_value(before, ("dreamd",), SERVER)
    assert after == '[dreamd]\ncommand = "dreamd" # mine\nargs = ["mcp"]\n# the end\n'


def test_a_comment_beside_what_is_taken_out_stays() -> None:
    edit = EDITORS["json"]
    assert edit.without_value('{\n  // c\n  "a": 1, "b": 2 // d\n}', ("a",)) == '{\n  // c\n   "b": 2 // d\n}'
    assert edit.without_value('{"b": 2, // c\n  "a": 1 }', ("a",)) == '{"b": 2 // c\n   }'
    assert edit.without_value('{"a": {"b": {/* c */}}}', ("a", "b"), prune=True) == "{}"
    assert edit.without_value('{"a": {"b": {}, /* c */}}', ("a", "b"), prune=True) == '{"a": { /* c */}}'
    assert EDITORS["toml"].without_value("[a] # c\nb = 1 # d\n", ("a",)) == "# c\n# d\n"


def test_of_two_members_of_one_name_none_is_left() -> None:
    assert EDITORS["json"].without_value('{"a": 1, "b": 2, "a": 3}', ("a",)) == '{"b": 2}'


@pytest.mark.parametrize(("kind", "left"), [("json", "{}\n"), ("toml", "")])
def test_what_was_made_of_nothing_is_empty_again(kind: Format, left: str) -> None:
    edit = EDITORS[kind]
    after = edit.with_item(edit.with_value("", ("a", "b"), SERVER), ("c", "d"), HOOK)
    assert not edit.is_empty(after)
    after = edit.without_item(edit.without_value(after, ("a", "b"), prune=True), ("c", "d"), HOOK, prune=True)
    assert after == left
    assert edit.is_empty(after)
    assert not edit.is_empty({"json": "// mine\n{}", "toml": "# mine"}[kind])


MEGABYTE = 1_000_000
HOSTILE: dict[Format, list[str]] = {
    "json": [
        *[
            "[]",
            "1",
            "{",
            "{}}",
            "{} {}",
            '{"a"',
            '{"a": }',
            '{"a": 1 "b": 2}',
            "{,}",
            "{a: 1}",
            "{'a': 1}",
            '{"a": NaN}',
        ],
        *[
            '{"a": "',
            '{"a": "\n"}',
            '{"a": "\\x"}',
            "{} /*",
            "{} /",
            '{"a": 01}',
            '{"a": "\ud800"}',
            "{}\0",
            '{"a": \0}',
        ],
        *['{"a": ' + "9" * 10_000 + "}", '{"a": ' * MEGABYTE, '{"a": ' + "[" * MEGABYTE, "/*" + "*" * MEGABYTE],
        *['{"' + "\\" * MEGABYTE, "{" + "/**/" * MEGABYTE, '{"a": 1' + "\n" * MEGABYTE, "\ufeff\ufeff{}"],
    ],
    "toml": [
        *[
            "a",
            "a =",
            "a = 1 b = 2",
            "[a",
            "[[a]",
            "= 1",
            "a = {",
            "a = [",
            "a = [1 2]",
            "[a]\n[a]",
            "a = 1\na = 2",
            "a.b",
        ],
        *[
            'a = "',
            'a = """',
            "a = '''",
            'a = "\\x"',
            "a = 01",
            "a = '\ud800'",
            "a\0 = 1",
            "a = '\0'",
            "# \0",
            "a = 1\r",
        ],
        *[
            "a = " + "9" * 10_000,
            "a = " + "[" * MEGABYTE,
            "a." * MEGABYTE,
            "a = {b" + ".b" * MEGABYTE,
            "[" + "a." * MEGABYTE,
        ],
        *[
            'a = """' + "\\" * MEGABYTE,
            "a = '''" + "''\n" * MEGABYTE,
            "a = " + "{a = " * MEGABYTE,
            'a = """' + '""\n' * MEGABYTE,
        ],
    ],
}


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in HOSTILE.items() for text in texts], ids=lambda text: text[:12]
)
def test_what_is_broken_is_refused_and_never_overwritten(kind: Format, text: str) -> None:
    edit = EDITORS[kind]
    with pytest.raises(DocumentError):
        edit.parse(text)
    if len(text) < MEGABYTE:
        for change in (edit.with_value, edit.with_item, edit.without_item):
            with pytest.raises(DocumentError):
                change(text, ("a", "b"), 1)
        with pytest.raises(DocumentError):
            edit.without_value(text, ("a", "b"))


@pytest.mark.parametrize(("kind", "text"), [("json", '{\n  "a": 1,\n  b: 2\n}'), ("toml", "a = 1\n# c\n  = 2")])
def test_a_person_is_told_the_line_and_the_column(kind: Format, text: str) -> None:
    with pytest.raises(DocumentError, match="line 3, column 3"):
        EDITORS[kind].parse(text)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["json", "toml"])
def test_a_large_file_is_edited(kind: Format) -> None:
    line = {
        "json": '  "name_{n}": [1, {{"a": "text"}}], // {n}\n',
        "toml": '[table.name_{n}]\na = [1, "text"] # {n}\n',
    }[kind]
    text = "".join(line.format(n=number) for number in range(5_000))
    text = f"{{\n{text}}}\n" if kind == "json" else text
    edit = EDITORS[kind]
    assert edit.without_value(edit.with_value(text, ("dreamd",), SERVER), ("dreamd",)) == text


@pytest.mark.parametrize("kind", ["json", "toml"])
@pytest.mark.parametrize("value", [float("nan"), "\ud800", Ellipsis, {1: {2}}, b""], ids=repr)
def test_what_no_file_holds_is_no_value(kind: Format, value: object) -> None:
    with pytest.raises(UsageError):
        EDITORS[kind].with_value("", ("a",), value)
    with pytest.raises(UsageError):
        EDITORS[kind].with_value("", (), 1)


@pytest.mark.parametrize("value", [None, 2**63, [None]])
def test_what_toml_does_not_hold_is_no_value(value: object) -> None:
    with pytest.raises(UsageError):
        EDITORS["toml"].with_value("", ("a",), value)


@pytest.mark.parametrize(("kind", "text"), [("json", '{"a": []}'), ("json", '{"a": null}'), ("toml", "a = 1")])
def test_what_is_no_object_or_array_takes_nothing_in(kind: Format, text: str) -> None:
    with pytest.raises(DocumentError):
        EDITORS[kind].with_value(text, ("a", "b"), 1)
    with pytest.raises(DocumentError):
        EDITORS[kind].with_item(text, ("a", "b"), 1)
