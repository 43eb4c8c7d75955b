"""Tells when something in the watched workspaces may have changed: scratch.md, MEMORY.md, transcripts.

A look decides: what the folders hold now is compared with what they held at the look before. Events of the kernel
(inotify, through watchfiles) only say where to look at once. Without them every place is looked at every few
seconds; with them as well, but transcripts twelve times more rarely. So what the events lose (a queue that overflows,
a folder made a moment ago, the time in which the watches are set anew) is found by the next look.

Each folder is watched for itself: watchfiles' recursive mode follows links, and a link to / would lead it far away.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread, current_thread
from typing import TYPE_CHECKING

from daemon.looking import Pattern, View, devices_shared_now, look, patterns_of
from state.stores.workspace import SCRATCH

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

# Changes within this time are told once.
_WINDOW_SECONDS = 0.2
# How often watchfiles asks whether there are events, and how often it returns without any.
_STEP_MS = 100
_TURN_SECONDS = 0.4
_OVERDUE_SECONDS = 2.0
# A place that takes long to look at is looked at more rarely: the share of the time that its looks may take.
_SHARE = 0.01
_SHARE_AFTER_EVENTS = 0.05
_RARER = 12
_CLOSE_SECONDS = 5.0
_ADDED, _DELETED = 1, 3  # watchfiles.Change
_POLLING = "WATCHFILES_FORCE_POLLING"


class Change(StrEnum):
    """What of a workspace may have changed."""

    SCRATCH = "scratch"
    DOCUMENT = "document"
    TRANSCRIPT = "transcript"


@dataclass(frozen=True, slots=True)
class _Place:
    root: Path
    change: Change


@dataclass(slots=True)
class _Watch:
    """How it stands with a place.

    `root` has no links in it; `cost` is the seconds of the last look, `look_at` monotonic; `tell`: an event came.
    """

    root: Path
    patterns: tuple[Pattern, ...]
    view: View
    cost: float
    look_at: float = 0.0
    tell: bool = False


_Order = tuple[Path, dict[_Place, _Watch]]


def _logged(error: Exception) -> None:
    logging.getLogger("dreamd.watching").error("watching_failed", exc_info=error)


class Watcher:
    """One thread that watches any number of workspaces.

    `changed` is called in that thread, so it has to be quick; it may raise: `failed` is told, and the watching goes
    on. `failed` must not raise. A call means "look there", not more: now and then nothing has changed.
    """

    def __init__(
        self,
        changed: Callable[[Path, Change], None],
        *,
        polling_seconds: float = 5.0,
        force_polling: bool = False,
        look: Callable[[Path, tuple[Pattern, ...]], View] = look,
        failed: Callable[[Exception], None] = _logged,
    ) -> None:
        wish = os.environ.get(_POLLING, "").lower()
        self._changed, self._failed, self._every, self._look_at = changed, failed, polling_seconds, look
        self._events_wanted = not force_polling and wish in ("", "false", "disable", "disabled")
        self._problem = ""
        self._touched_at: float | None = None
        self._orders: SimpleQueue[_Order] = SimpleQueue()
        self._wanted: set[Path] = set()
        self._closing, self._ordered = Event(), Event()
        # What follows belongs to the thread.
        self._native: RustNotify | None = None
        self._watches: dict[_Place, _Watch] = {}
        self._globs: dict[str, dict[_Place, list[str]]] = {}  # by folder
        self._blind: set[_Place] = set()
        self._stale, self._renew_at = False, 0.0
        self._thread = Thread(target=self._run, name="watching", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str:
        """Why there are no events of the kernel and what to do, or nothing."""
        return self._problem

    @property
    def stuck_for(self) -> float:
        """For how many seconds it has waited for one disk."""
        began = self._touched_at
        return 0.0 if began is None else time.monotonic() - began

    def watch(self, root: Path, transcripts: Sequence[str]) -> None:
        """Watch the workspace: whatever changes after this returns is told. Again: with other transcripts."""
        if self._closing.is_set():
            raise RuntimeError("the watcher is closed")
        places = {
            Change.SCRATCH: patterns_of([SCRATCH]),
            Change.DOCUMENT: patterns_of(["MEMORY.md"]),
            Change.TRANSCRIPT: patterns_of(transcripts),
        }
        real = Path(os.path.realpath(root))
        order = {
            _Place(root, change): _Watch(real, patterns, *self._measured(real, patterns))
            for change, patterns in places.items()
        }
        self._wanted.add(root)
        self._order(root, order)

    def forget(self, root: Path) -> None:
        """Watch the workspace no longer. A call for it that was just beginning may still come."""
        self._wanted.discard(root)
        self._order(root, {})

    def close(self, *, wait: bool = True) -> None:
        """Stop. A call that is under way is waited for, but not for ever."""
        self._closing.set()
        self._ordered.set()
        if wait and current_thread() is not self._thread:
            self._thread.join(_CLOSE_SECONDS)

    def _order(self, root: Path, order: dict[_Place, _Watch]) -> None:
        self._orders.put((root, order))
        self._ordered.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - told, and the watching goes on
                self._failed(error)
                self._touched_at, self._stale = None, True
                self._closing.wait(self._every)
        self._drop_events()

    def _turn(self) -> None:
        self._take_orders()
        if self._stale and time.monotonic() >= self._renew_at:
            self._renew()
        for kind, path in self._events():
            self._note(kind, path)
        now = time.monotonic()
        for place in [place for place, watch in self._watches.items() if watch.look_at <= now]:
            self._look(place)

    def _take_orders(self) -> None:
        self._ordered.clear()
        while True:
            try:
                root, order = self._orders.get_nowait()
            except Empty:
                return
            for change in Change:
                place = _Place(root, change)
                old, new = self._watches.pop(place, None), order.get(place)
                if new:
                    new.tell = old is not None and (old.tell or old.view.seen != new.view.seen)
                    self._watches[place] = new
                    self._renew_at = 0.0
            self._stale = True

    def _renew(self) -> None:
        """Set the watches for the folders that there are now, then look everywhere: nothing falls in between."""
        began = self._touched_at = time.monotonic()
        self._stale = False
        covered = self._set_watches({folder for watch in self._watches.values() for folder in watch.view.folders})
        shared = devices_shared_now()
        self._globs, self._blind = {}, set()
        for place, watch in self._watches.items():
            folders = watch.view.folders
            if (
                not folders
                or not folders.keys() <= covered
                or any(device in shared for device, _ in folders.values())
            ):
                self._blind.add(place)
            for folder in folders:
                self._globs.setdefault(folder, {})[place] = []
            for folder, glob in watch.view.names:
                self._globs[folder][place].append(glob)
        for place in list(self._watches):
            self._look(place)
        now = time.monotonic()
        self._renew_at = now + max(1.0, (now - began) / _SHARE_AFTER_EVENTS)
        self._touched_at = None
        if self._problem:  # tried again later
            self._stale, self._renew_at = True, now + max(1.0, self._every * _RARER)

    def _set_watches(self, folders: set[str]) -> set[str]:
        """Replace the watches; returns the folders that have one."""
        before, self._native, self._problem = self._native, None, ""
        covered: set[str] = set()
        if self._events_wanted and folders:
            try:
                self._native, covered = _events_of(folders, round(self._every * 1000))
            except (ImportError, OSError, RuntimeError) as error:
                self._problem = (
                    f"no events of the file system ({error}); looked at every {self._every:g} s instead; raise "
                    "fs.inotify.max_user_watches and fs.inotify.max_user_instances (sysctl)"
                )
        if before is not None:
            before.close()
        return covered

    def _drop_events(self) -> None:
        if self._native is not None:
            self._native.close()
            self._native = None

    def _events(self) -> set[tuple[int, str]]:
        """Wait until there is something to do; the events that came."""
        ends = [watch.look_at for watch in self._watches.values()] + [self._renew_at] * self._stale
        wait = max(0.0, min(ends, default=3600.0) - time.monotonic())
        if self._native is None:
            if not self._closing.is_set():  # `close` orders after that: the order is not missed
                self._ordered.wait(wait)
            return set()
        wait = min(wait, _TURN_SECONDS)
        try:
            events = self._native.watch(1, _STEP_MS, max(1, round(wait * 1000)), _Late(self._closing, wait))
        except RuntimeError:
            # A name that is not UTF-8, for one: watchfiles gives up. New watches are set, and everything looked at.
            self._drop_events()
            self._stale, events = True, "stop"
        if isinstance(events, set):
            return events
        if events != "timeout":
            for watch in self._watches.values():
                watch.look_at = 0.0
        return set()

    def _note(self, kind: int, path: str) -> None:
        folder, name = os.path.split(path)
        now = time.monotonic()
        for place, globs in self._globs.get(folder, {}).items():
            named = any(fnmatchcase(name, glob) for glob in globs)
            if place in self._watches and (named or _is_folder(kind, path, self._globs)):
                watch = self._watches[place]
                # Told even when it looks the same: two writes of one size may share a timestamp.
                watch.tell = watch.tell or named
                watch.look_at = min(watch.look_at, now + max(_WINDOW_SECONDS, watch.cost / _SHARE_AFTER_EVENTS))

    def _look(self, place: _Place) -> None:
        """Look at the place, and tell when it changed."""
        watch, self._touched_at = self._watches[place], time.monotonic()
        before, (watch.view, watch.cost) = watch.view, self._measured(watch.root, watch.patterns)
        self._touched_at = None
        if (before.folders, before.names) != (watch.view.folders, watch.view.names):
            self._stale = self._stale or self._events_wanted
        often = self._native is None or place in self._blind or place.change is not Change.TRANSCRIPT
        pause = self._every if often else self._every * _RARER
        watch.look_at = time.monotonic() + max(pause, watch.cost / _SHARE)
        if watch.tell or before.seen != watch.view.seen:
            watch.tell = False
            if place.root in self._wanted and not self._closing.is_set():
                try:
                    self._changed(place.root, place.change)
                except Exception as error:  # noqa: BLE001 - told, and the watching goes on
                    self._failed(error)

    def _measured(self, root: Path, patterns: tuple[Pattern, ...]) -> tuple[View, float]:
        began = time.monotonic()
        return self._look_at(root, patterns), time.monotonic() - began


class _Late:
    """Ends a wait that outlasts its time: watchfiles measures it by the clock of the wall, which may be set back."""

    def __init__(self, closing: Event, seconds: float) -> None:
        self._closing = closing
        self._end = time.monotonic() + seconds + _OVERDUE_SECONDS

    def is_set(self) -> bool:
        return self._closing.is_set() or time.monotonic() > self._end


def _is_folder(kind: int, path: str, known: Mapping[str, object]) -> bool:
    """Did a folder come or go?"""
    return kind in (_ADDED, _DELETED) and (path in known or os.path.isdir(path))  # noqa: PTH112 - Path.is_dir may raise


def _events_of(folders: set[str], poll_delay_ms: int) -> tuple["RustNotify", set[str]]:
    """Events of these folders, of those that can be watched; which ones these are."""
    from watchfiles._rust_notify import RustNotify

    for _ in range(3):
        able = {folder for folder in folders if _watchable(folder)}
        try:
            return RustNotify(sorted(able), False, False, poll_delay_ms, False, False), able  # noqa: FBT003 - it takes no names
        except (FileNotFoundError, PermissionError) as error:  # one went since
            last = error
    raise last


def _watchable(folder: str) -> bool:
    try:
        folder.encode()  # watchfiles takes UTF-8 alone
    except UnicodeEncodeError:
        return False
    return os.access(folder, os.R_OK | os.X_OK)
