"""Edits of agents' files: what is put in is read, all else stays, and taking it out leaves the bytes as they were."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from daemon.connect.edit import Format, Setting, at, cut, holds, put, read
from state.errors import DocumentError, UsageError
from tests.daemon.connect.texts import OBJECTS, SCALARS, held_by_toml, jsonc_texts, toml_texts
from tests.support.long_variants import fewer, variants

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
        '{"a": 1}': '{"mcpServers": {"dreamd": {"on": 1}}, "a": 1}',
        '{\n\t"mcpServers": {}\n}\n': '{\n\t"mcpServers": {\n\t\t"dreamd": {\n\t\t\t"on": 1\n\t\t}\n\t}\n}\n',
        '{\r\n "mcpServers": {\r\n  "b": {}, // of b\r\n },\r\n}\r\n': (
            '{\r\n "mcpServers": {\r\n  "dreamd": {\r\n   "on": 1\r\n  },\r\n  "b": {}, // of b\r\n },\r\n}\r\n'
        ),
    }.items():
        assert put("json", before, server)[0] == after
    for path, value, item, table in TABLES:
        assert put("toml", 'model = "x" # mine\n', Setting(path, value, item))[0] == f'model = "x" # mine\n{table}'


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
