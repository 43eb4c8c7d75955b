"""One entry of an agent's JSON file: put in and taken out, with nothing else lost, or refused in words."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.connect.json_file import Entry
from state.errors import DocumentError

SERVER = {"command": "/bin/dreamd", "args": ["mcp"], "env": {}}
HOOK, OLD = ({"command": f"{folder}/dreamd bootstrap --agent cursor"} for folder in ("/bin", "/old"))


def server(path: Path) -> Entry:
    return Entry(path, ("mcpServers", "dreamd"), SERVER, path.parent / "copies")


def hook(path: Path) -> Entry:
    keys = ("hooks", "sessionStart")
    return Entry(path, keys, HOOK, path.parent / "copies", ours="--agent cursor", head={"version": 1})


@pytest.mark.parametrize(
    ("kind", "before", "during"),
    [
        (server, None, {"mcpServers": {"dreamd": SERVER}}),
        (server, {"mcpServers": {"other": {}}}, {"mcpServers": {"other": {}, "dreamd": SERVER}}),
        (
            server,
            {"a": [1.5, "ü"], "mcpServers": {"b": 1}},
            {"a": [1.5, "ü"], "mcpServers": {"b": 1, "dreamd": SERVER}},
        ),
        (hook, None, {"version": 1, "hooks": {"sessionStart": [HOOK]}}),
        (
            hook,
            {"version": 1, "hooks": {"sessionStart": [{"command": "lint"}], "stop": []}},
            {"version": 1, "hooks": {"sessionStart": [{"command": "lint"}, HOOK], "stop": []}},
        ),
    ],
)
def test_an_entry_is_put_in_and_taken_out(
    tmp_path: Path, kind: Callable[[Path], Entry], before: object, during: object
) -> None:
    path = tmp_path / "agent" / "settings.json"
    if before is not None:
        path.parent.mkdir()
        path.write_text(json.dumps(before, indent="\t"))
    entry = kind(path)
    assert (str(path) in entry.change(), entry.remains()) == (True, "")
    entry.put()
    assert json.loads(path.read_text()) == during
    assert (entry.change(), before is None or "\n\t" in path.read_text()) == ("", True)
    assert [json.loads(copy.read_text()) for copy in (path.parent / "copies").glob("*")] == [before] * (
        before is not None
    )
    assert str(path) in entry.remains()
    entry.take()
    assert (json.loads(path.read_text()) if path.exists() else None) == before
    assert entry.remains() == ""
    entry.take()


@pytest.mark.parametrize("kind", [server, hook])
@pytest.mark.parametrize(
    "text", ["", "\n", "{}", '{"mcpServers":{}}', '{"hooks": {"sessionStart": []}}\n', '{"a": [1,2]}']
)
def test_a_file_of_the_owners_comes_back_as_it_was(tmp_path: Path, kind: Callable[[Path], Entry], text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    kind(path).put()
    kind(path).take()
    assert path.read_text() == text


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
