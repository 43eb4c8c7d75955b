"""Laws of the editors: what is set is read, set twice is set once, set and taken out is the text as it was."""

from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, assume, event, given
from hypothesis import strategies as st

from daemon.connect.editors.editor import EDITORS, Format
from daemon.connect.editors.splices import (
    has_member,
    is_same,
    items_of,
    member_of,
    pruned,
    with_member,
    without_member,
)
from state.errors import DocumentError
from tests.daemon.connect.editors.texts import OBJECTS, SCALARS, held_by_toml, jsonc_texts, toml_texts
from tests.support.long_variants import examples

TEXTS = {"json": jsonc_texts(), "toml": toml_texts()}
PATHS = {
    "json": [
        ("dreamd",),
        ("a",),
        ("a", "b"),
        ("mcpServers", "dreamd"),
        ("hooks", "SessionStart", "x y"),
        ("b", "c", "d"),
    ],
    "toml": [
        *[("dreamd",), ("model",), ("mcp_servers", "dreamd"), ("mcp_servers", "x", "command"), ("features", "a")],
        *[("features", "hooks"), ("profile", "dreamd"), ("hooks", "Stop"), ("quoted name", "ä.b"), ("c", "d", "e")],
    ],
}
VALUES = {"json": SCALARS | OBJECTS | st.lists(OBJECTS, max_size=2)}
VALUES["toml"] = VALUES["json"].filter(held_by_toml)
Case = tuple[str, list[str], tuple[str, ...], Any]


def cases(kind: Format) -> st.SearchStrategy[Case]:
    return st.tuples(TEXTS[kind], st.sampled_from(PATHS[kind]), VALUES[kind]).map(
        lambda each: (each[0][0], each[0][1], each[1], each[2])
    )


def law(count: int) -> Callable[[Callable[[Format, Case], None]], Callable[..., None]]:
    """For both formats: so many examples of each."""

    def both(claim: Callable[[Format, Case], None]) -> Callable[..., None]:
        @pytest.mark.parametrize("kind", ["json", "toml"])
        @examples(count, suppress_health_check=[HealthCheck.filter_too_much])
        @given(drawn=st.data())
        def test(kind: Format, drawn: st.DataObject) -> None:
            claim(kind, drawn.draw(cases(kind)))

        return cast("Callable[..., None]", test)

    return both


def is_way(contents: object, path: tuple[str, ...]) -> bool:
    """Whether nothing but objects stands before the end of the path."""
    return all(
        isinstance(member_of(contents, path[:length]), dict)
        for length in range(len(path))
        if has_member(contents, path[:length])
    )


@pytest.mark.full
@law(400)
def test_what_is_set_is_read_and_setting_it_again_changes_nothing(kind: Format, case: Case) -> None:
    text, _, path, value = case
    editor = EDITORS[kind]
    before = editor.parse(text)
    if not is_way(before, path):
        with pytest.raises(DocumentError):
            editor.with_value(text, path, value)
        return
    event("there" if has_member(before, path) else "new")
    after = editor.with_value(text, path, value)
    assert is_same(editor.parse(after), with_member(before, path, value))
    assert editor.with_value(after, path, value) == after


def prune_for(kind: Format, before: object, path: tuple[str, ...], text: str, after: str) -> bool:
    """Whether the object or array was made too; what stood there may not be empty, nor a table without a place."""
    made = not has_member(before, path)
    there = next(path[:length] for length in range(len(path), -1, -1) if has_member(before, path[:length]))
    assume(not made or not there or member_of(before, there))
    assume(kind == "json" or made or f"[{'.'.join(path)}]" not in after[len(text) :])
    return made


@pytest.mark.full
@law(400)
def test_what_was_not_there_is_taken_out_to_the_byte(kind: Format, case: Case) -> None:
    text, comments, path, value = case
    editor = EDITORS[kind]
    before = editor.parse(text)
    assume(is_way(before, path) and not has_member(before, path))
    after = editor.with_value(text, path, value)
    assert all(comment in after for comment in comments)
    assert editor.without_value(after, path, prune=prune_for(kind, before, path[:-1], text, after)) == text


@law(400)
def test_an_item_is_put_in_once_and_taken_out_to_the_byte(kind: Format, case: Case) -> None:
    text, comments, path, item = case
    editor = EDITORS[kind]
    before = editor.parse(text)
    found = member_of(before, path)
    items = found if isinstance(found, list) else []
    assume(is_way(before, path) and has_member(before, path) == isinstance(found, list))
    assume(not any(is_same(item, each) for each in items))
    if kind == "toml" and items and isinstance(items[0], dict):
        assume(isinstance(item, dict))
    after = editor.with_item(text, path, item)
    assert is_same(editor.parse(after), with_member(before, path, [*items, item]))
    assert all(comment in after for comment in comments)
    assert editor.with_item(after, path, item) == after
    made = prune_for(kind, before, path, text, after)
    if made and len(path) > 1 and has_member(before, path[:-1]):
        prune_for(kind, before, path[:-1], text, after)
    assert editor.without_item(after, path, item, prune=made) == text


@law(300)
def test_what_is_taken_out_is_gone_and_everything_else_is_there(kind: Format, case: Case) -> None:
    text, _, path, _ = case
    editor = EDITORS[kind]
    before = editor.parse(text)
    path = next(iter(places(before, dict | list)), path)
    after = editor.without_value(text, path)
    assert any(is_same(editor.parse(after), each) for each in pruned(without_member(before, path), path[:-1]))
    assert editor.without_value(after, path) == after
    assert has_member(before, path) or after == text


def places(contents: object, kind: type | UnionType) -> Iterator[tuple[str, ...]]:
    """The paths of all values of this kind, the deepest first."""
    for name, value in contents.items() if isinstance(contents, dict) else ():
        yield from ((name, *path) for path in places(value, kind))
        if isinstance(value, kind):
            yield (name,)


@law(300)
def test_of_a_scalar_only_its_own_characters_change(kind: Format, case: Case) -> None:
    text = case[0]
    editor = EDITORS[kind]
    path = next(places(editor.parse(text), str | int | float), ())
    assume(path)
    after = editor.with_value(text, path, "another one")
    head, _, tail = after.partition('"another one"')
    assert text.startswith(head)
    assert text.endswith(tail)


@law(300)
def test_items_of_a_kind_are_taken_out_and_the_others_stay_in_their_order(kind: Format, case: Case) -> None:
    text = case[0]
    editor = EDITORS[kind]
    before = editor.parse(text)
    path = next(places(before, list), ())
    assume(path)
    left = [each for each in items_of(before, path) if not isinstance(each, dict)]
    after = editor.without_item(text, path, lambda each: isinstance(each, dict))
    assert is_same(items_of(editor.parse(after), path), left)
    assert editor.without_item(text, path, lambda _: False) == text
