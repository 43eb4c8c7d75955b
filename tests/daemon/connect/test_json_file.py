"""One entry of an agent's JSON file: put in and taken out, with nothing else lost, or refused in words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.connect.json_file import Entry
from state.errors import DocumentError

SERVER = {"command": "/bin/dreamd", "args": ["mcp"], "env": {}}
HOOK, OLD = ({"command": f"{folder}/dreamd bootstrap --agent cursor"} for folder in ("/bin", "/old"))


def server(path: Path) -> Entry:
    return Entry(path, ("mcpServers", "dreamd"), SERVER, path.parent / "copies")


def hook(path: Path) -> Entry:
    keys = ("hooks", "sessionStart")
    return Entry(path, keys, HOOK, path.parent / "copies", ours="--agent cursor", head={"version": 1})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
OTHERS = st.dictionaries(st.text(max_size=5), JSON, max_size=3)
HOOKS = {"sessionStart": st.lists(st.just({"command": "lint"}), max_size=2), "stop": st.just([])}
FILES = st.fixed_dictionaries(
    {}, optional={"mcpServers": OTHERS, "hooks": st.fixed_dictionaries({}, optional=HOOKS), "theme": JSON}
)


@given(
    st.sampled_from([server, hook]), st.none() | st.sampled_from(["", "\n"]) | FILES, st.sampled_from([None, "\t"])
)
def test_an_entry_is_put_in_beside_all_else_and_the_file_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, kind: Callable[[Path], Entry], file: Any, indent: str | None
) -> None:
    path = tmp_path_factory.mktemp("home") / "agent" / "settings.json"
    text = json.dumps(file, indent=indent) if isinstance(file, dict) else file
    if text is not None:
        path.parent.mkdir()
        path.write_text(text)
    entry = kind(path)
    before: dict[str, Any] = file if isinstance(file, dict) else dict(entry.head)
    assert (str(path) in entry.change(), entry.remains()) == (True, "")
    entry.put()
    within = before.get(entry.keys[0], {})
    new = SERVER if kind is server else [*within.get("sessionStart", []), HOOK]
    assert json.loads(path.read_text()) == before | {entry.keys[0]: within | {entry.keys[1]: new}}
    assert (entry.change(), str(path) in entry.remains()) == ("", True)
    assert "\n\t" in path.read_text() or "\n\t" not in (text or "")
    assert [copy.read_text() for copy in entry.copies.glob("*")] == [text] * (text is not None)
    for _ in range(2):
        entry.take()
        assert (path.read_text() if path.exists() else None) == text
        assert entry.remains() == ""


def test_what_the_owner_wrote_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"mcpServers":{}}')
    server(path).put()
    path.write_text(json.dumps({**json.loads(path.read_text()), "theme": "dark"}))
    server(path).take()
    assert json.loads(path.read_text()) == {"theme": "dark"}


def test_half_an_emoji_stays_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(r'{"title": "cut \ud83d", "mcpServers": {"dreamd": "\ud83e"}}')
    said = server(path).change()
    said.encode()
    server(path).put()
    assert json.loads(path.read_text()) == {"title": "cut \ud83d", "mcpServers": {"dreamd": SERVER}}


def test_an_entry_of_an_earlier_program_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "hooks.json"
    path.write_text(json.dumps({"version": 1, "hooks": {"sessionStart": [OLD, {"command": "lint"}]}}))
    hook(path).put()
    assert json.loads(path.read_text())["hooks"]["sessionStart"] == [{"command": "lint"}, HOOK]


@pytest.mark.parametrize(
    "text",
    [
        '// dreamd\n{"a": 1}',
        '{"a": 1,}',
        '{"a": 1, "a": 2}',
        "[]",
        '{"mcpServers": 7}',
        '"dreamd"',
        "\ufeff{}",
        "[" * 100_000,
    ],
)
def test_a_file_that_would_lose_something_is_refused_with_what_to_put_in(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    for act in (server(path).change, server(path).put):
        with pytest.raises(DocumentError) as refused:
            act()
        assert str(path) in refused.value.what
    assert path.read_text() == text


def test_a_link_into_a_folder_of_dotfiles_stays_one(tmp_path: Path) -> None:
    (tmp_path / "dotfiles.json").write_text("{}")
    path = tmp_path / "settings.json"
    path.symlink_to("dotfiles.json")
    for act in (server(path).put, server(path).take):
        act()
        assert path.is_symlink()
    assert json.loads((tmp_path / "dotfiles.json").read_text()) == {}
