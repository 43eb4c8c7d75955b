"""Changes of agents' files, as values: what a file holds before and after, and what to take out of it again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import eq

from daemon.connect.agent import AgentFile, Setting, calls_dreamd
from daemon.connect.editors.editor import EDITORS, Editor, Format
from state.errors import DocumentError

_MISSING = object()
# Each that is taken out has the file read anew; a list with more came from nobody who means it.
_MOST_OF_OURS = 20


@dataclass(frozen=True, slots=True)
class Written:
    """What was put into a file: enough to take out exactly that.

    `created`: there was no file. `made`: the paths of those settings that were put into an object or a list of their
    own, which was not there. `found`: of those that stood there already, by somebody else. `replaced`: values that
    stood where ours stand now, were empty before, or are hooks of dreamd's that somebody had written by hand.
    """

    path: str
    format: Format
    created: bool
    settings: tuple[Setting, ...]
    made: tuple[tuple[str, ...], ...] = ()
    found: tuple[tuple[str, ...], ...] = ()
    replaced: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """A file before and after; None: there is no file. `left` are settings that somebody changed, and that stay."""

    before: str | None
    after: str | None
    left: tuple[Setting, ...] = ()


def connected(file: AgentFile, text: str | None, last: Written | None) -> tuple[Change, Written]:
    """The file with its settings, in place of those written last. Raises DocumentError for a broken text."""
    editor = EDITORS[file.format]
    if (
        last is not None
        and text is not None
        and last.settings == file.settings
        and _holds(editor, text, last.settings)
    ):
        return Change(text, text), last
    removed = disconnected(text, last) if last is not None else Change(text, text)
    created = removed.after is None
    current = removed.after or ""
    made, known = list[tuple[str, ...]](), list[tuple[str, ...]]()
    replaced = _empty(editor.parse(current), file.settings)
    for setting in file.settings:
        before = editor.parse(current)
        if _holds(editor, current, (setting,)):
            known.append(setting.path)
            continue
        if at(before, setting.path if setting.item else setting.path[:-1]) is _MISSING:
            made.append(setting.path)
        found = at(before, setting.path)
        if not setting.item:
            replaced += [Setting(setting.path, found)] if found is not _MISSING else []
            current = editor.with_value(current, setting.path, setting.value)
            continue
        for other in _of_ours(setting, found, calls_dreamd):
            replaced.append(Setting(setting.path, other, item=True))
            current = editor.without_item(current, setting.path, other)
        current = editor.with_item(current, setting.path, setting.value)
    written = Written(str(file.path), file.format, created, file.settings, tuple(made), tuple(known), tuple(replaced))
    return Change(text, current, removed.left), written


def disconnected(text: str | None, last: Written) -> Change:
    """The file without what was written last; what somebody changed since stays. Raises DocumentError."""
    if text is None:
        return Change(None, None)
    editor, current, left = EDITORS[last.format], text, list[Setting]()
    before = {setting.path: setting.value for setting in last.replaced if not setting.item}
    for setting in reversed(last.settings):
        found, prune = at(editor.parse(current), setting.path), setting.path in last.made
        if setting.path in last.found:
            continue
        if setting.item:
            _of_ours(setting, found, partial(eq, setting.value))
            current = editor.without_item(current, setting.path, setting.value, prune=prune)
        elif found != setting.value:
            left += [setting] if found is not _MISSING else []
        elif setting.path in before:
            current = editor.with_value(current, setting.path, before[setting.path])
        else:
            current = editor.without_value(current, setting.path, prune=prune)
    for setting in last.replaced:
        if setting.item:
            current = editor.with_item(current, setting.path, setting.value)
        elif at(editor.parse(current), setting.path) is _MISSING:  # what was empty before goes with the last in it
            current = editor.with_value(current, setting.path, setting.value)
    empty = last.created and editor.is_empty(current)
    return Change(text, None if empty else current, tuple(left))


def missing(written: Written, text: str | None) -> tuple[Setting, ...]:
    """The settings that a file does not hold as they were written. Raises DocumentError for a broken text."""
    editor = EDITORS[written.format]
    return tuple(one for one in written.settings if not _holds(editor, text or "", (one,)))


def at(value: object, path: Sequence[str]) -> object:
    """What stands at a path in a parsed file; a mark of its own where nothing does."""
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return _MISSING
        value = value[key]
    return value


def _of_ours(setting: Setting, found: object, is_ours: Callable[[object], object]) -> list[object]:
    """The items of the list at the setting's path that are dreamd's. Raises DocumentError when there are too many."""
    ours = [one for one in found if is_ours(one) is True] if isinstance(found, list) else []
    if len(ours) > _MOST_OF_OURS:
        raise DocumentError(
            f"{'.'.join(setting.path)} has {len(ours):,} items of dreamd's",
            "take them out by hand; nothing was changed",
        )
    return ours


def _empty(known: object, settings: Sequence[Setting]) -> list[Setting]:
    """The objects and lists on the way that are there and empty."""
    paths = dict.fromkeys(one.path[:end] for one in settings for end in range(1, len(one.path) + one.item))
    return [Setting(path, found) for path in paths if (found := at(known, path)) in ({}, [])]


def _holds(editor: Editor, text: str, settings: Sequence[Setting]) -> bool:
    known = editor.parse(text)
    return all(_stands(setting, at(known, setting.path)) for setting in settings)


def _stands(setting: Setting, found: object) -> bool:
    return isinstance(found, list) and setting.value in found if setting.item else found == setting.value
