"""Watcher: tells the daemon when scratch.md, MEMORY.md or transcripts of its workspaces may have changed.

Comparison decides: each look compares what the folders hold with what they held at the look before. Every place is
looked at every 30 s, and at once after an event of the kernel (inotify, through watchfiles). So a lost event (a queue
that overflows, a folder made a moment ago, a file system that other machines write to) delays a change and loses
none. Without events every place is looked at every 5 s.

Each folder is watched for itself: watchfiles' recursive mode follows links, and a link to / would lead it far away.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event, Lock, Thread, current_thread

from daemon.workspace.scan import Pattern, View, patterns_of, scan
from daemon.workspace.status import Problem
from state.stores.disk.workspace import SCRATCH

# Changes within the window are reported once; watchfiles asks for events every step, and returns after a turn.
_WINDOW_MS, _STEP_MS, _TURN_MS = 200, 100, 400
_OVERDUE_SECONDS = 5.0
# A place that takes long to look at is looked at more rarely: the share of the time that its looks may take.
_SHARE = 0.05
_RARER = 6
_CLOSE_SECONDS = 5.0
_POLLING = "WATCHFILES_FORCE_POLLING"

# As watchfiles yields them: the kind of the change, and the path.
_Events = Iterable[tuple[int, str]]


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
    """The last look at a place, and when the next one may and must be, on the monotonic clock.

    `root` has no links in it; `tell`: an event came, which is to be reported.
    """

    root: Path
    patterns: tuple[Pattern, ...]
    view: View
    not_before: float = 0.0
    look_at: float = 0.0
    tell: bool = False


def _logged(error: Exception) -> None:
    logging.getLogger("dreamd.watching").error("watching_failed", exc_info=error)


class Watcher:
    """One thread that watches any number of workspaces.

    `changed` is called in that thread, so it has to be quick; when it raises, `failed` gets the error and the thread
    goes on. `failed` must not raise. A call is a hint: now and then nothing has changed.
    """

    def __init__(
        self,
        changed: Callable[[Path, Change], None],
        *,
        polling_seconds: float = 5.0,
        force_polling: bool = False,
        failed: Callable[[Exception], None] = _logged,
        scan: Callable[[Path, tuple[Pattern, ...]], View] = scan,
    ) -> None:
        polling = os.environ.get(_POLLING, "").lower()
        self._changed, self._failed, self._every, self._view_of = changed, failed, polling_seconds, scan
        self._events_wanted = not force_polling and polling in ("", "false", "disable", "disabled")
        self._problem: Problem | None = None
        self._touched_at: float | None = None  # since when the thread waits for a disk
        self._watches: dict[_Place, _Watch] = {}
        self._lock = Lock()  # of the dictionary; what is in it belongs to the thread
        self._closing, self._renew = Event(), Event()
        self._thread = Thread(target=self._run, name="watching", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> Problem | None:
        """Why there are no events of the kernel."""
        return self._problem

    @property
    def stuck_for(self) -> float:
        """For how many seconds it has waited for one disk."""
        began = self._touched_at
        return 0.0 if began is None else time.monotonic() - began

    def watch(self, root: Path, transcripts: Sequence[str]) -> None:
        """Report changes of the workspace from now on; a second call replaces the transcript patterns."""
        if self._closing.is_set():
            raise RuntimeError("the watcher is closed")
        places = {
            Change.SCRATCH: patterns_of([SCRATCH]),
            Change.DOCUMENT: patterns_of(["MEMORY.md"]),
            Change.TRANSCRIPT: patterns_of(transcripts),
        }
        real = Path(os.path.realpath(root))
        for change, patterns in places.items():
            place, watch = _Place(root, change), _Watch(real, patterns, self._view_of(real, patterns))
            with self._lock:
                before = self._watches.get(place)
                watch.tell = before is not None and (before.tell or before.view.seen != watch.view.seen)
                self._watches[place] = watch
        self._renew.set()

    def forget(self, root: Path) -> None:
        """Watch the workspace no longer. A call for it that was just beginning may still come."""
        with self._lock:
            for change in Change:
                self._watches.pop(_Place(root, change), None)
        self._renew.set()

    def close(self, *, wait: bool = True) -> None:
        """Stop. A call that is under way is waited for, but not for ever."""
        self._closing.set()
        if wait and current_thread() is not self._thread:
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._watch_folders()
            except Exception as error:  # noqa: BLE001 - reported, and the watching goes on
                self._touched_at = None
                self._failed(error)
                self._closing.wait(self._every)

    def _watch_folders(self) -> None:
        """Look everywhere, then wherever it is time or an event came, until other folders have to be watched."""
        self._renew.clear()
        watches = self._current()
        renew_at = 0.0
        for _, watch in watches:
            watch.look_at = 0.0
        for events in self._turns([watch for _, watch in watches]):
            _apply_events(watches, events)
            now = time.monotonic()
            for place, watch in watches:
                if self._closing.is_set():
                    return
                if watch.look_at <= now:
                    self._look(place, watch)
            if not renew_at:  # the look everywhere that each renewal costs is a small share of the time as well
                renew_at = now + max(_TURN_MS / 1000, (time.monotonic() - now) / _SHARE)
            if self._renew.is_set() and now >= renew_at:
                return

    def _current(self) -> list[tuple[_Place, _Watch]]:
        with self._lock:
            return list(self._watches.items())

    def _turns(self, watches: Sequence[_Watch]) -> Iterator[_Events]:
        """Yield the events of their folders, empty ones when none came for a while; end when no more can come.

        Without events of the kernel: empty ones whenever a look is due, until it is time to try again or to close.
        """
        folders = {folder for watch in watches for folder in watch.view.folders}
        able = sorted(filter(_watchable, folders)) if self._events_wanted else []
        if able:
            try:
                yield from self._kernel_events(able)
            except Exception as error:  # noqa: BLE001 - whatever keeps the events away, the looks go on
                what = f"no events of the file system ({error}), looked at every {self._every:g} s instead"
                advice = "raise fs.inotify.max_user_watches and fs.inotify.max_user_instances (sysctl)"
                self._problem = Problem(what, advice)
            else:
                return
        retry_at = time.monotonic() + (self._every * _RARER if able else float("inf"))
        while time.monotonic() < retry_at and not self._closing.is_set():
            yield ()
            due = min((watch.look_at for watch in watches), default=retry_at)
            self._closing.wait(max(0.0, min(due - time.monotonic(), _TURN_MS / 1000)))

    def _kernel_events(self, folders: list[str]) -> Iterator[_Events]:
        """Yield watchfiles' events. Raise its error when it cannot begin; ends when it gives up later."""
        from watchfiles import watch

        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        deadline = _Deadline(self._closing)
        events = watch(
            *folders,
            watch_filter=None,
            debounce=_WINDOW_MS,
            step=_STEP_MS,
            stop_event=deadline,
            rust_timeout=_TURN_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            force_polling=False,
            recursive=False,
        )
        begun = False
        while True:
            deadline.renew()
            self._touched_at = None if begun else time.monotonic()  # watches are set
            try:
                batch = next(events, None)
            except FileNotFoundError:  # a folder went since
                return
            except RuntimeError:
                if begun:
                    return
                raise
            self._touched_at = None
            if batch is None:
                return
            begun, self._problem = True, None
            yield batch

    def _look(self, place: _Place, watch: _Watch) -> None:
        """Look at the place, and report a change."""
        before, began = watch.view, time.monotonic()
        self._touched_at = began
        watch.view = self._view_of(watch.root, watch.patterns)
        self._touched_at, now = None, time.monotonic()
        watch.not_before = now + (now - began) / _SHARE
        pause = self._every if self._problem or not self._events_wanted else self._every * _RARER
        watch.look_at = max(now + pause, watch.not_before)
        if before.folders != watch.view.folders and self._events_wanted:
            self._renew.set()
        if not (watch.tell or before.seen != watch.view.seen):
            return
        watch.tell = False
        if self._watches.get(place) is watch and not self._closing.is_set():
            try:
                self._changed(place.root, place.change)
            except Exception as error:  # noqa: BLE001 - reported, and the watching goes on
                self._failed(error)


class _Deadline:
    """Ends a call of watchfiles that takes too long: its own timeout goes by a clock that may be set back."""

    def __init__(self, closing: Event) -> None:
        self._closing, self._end = closing, 0.0

    def renew(self) -> None:
        self._end = time.monotonic() + _TURN_MS / 1000 + _OVERDUE_SECONDS

    def is_set(self) -> bool:
        return self._closing.is_set() or time.monotonic() > self._end


def _apply_events(watches: Sequence[tuple[_Place, _Watch]], events: _Events) -> None:
    """Have the places that these events concern looked at soon."""
    now = time.monotonic()
    for kind, path in events:
        folder, name = os.path.split(path)
        for _, watch in watches:
            if folder not in watch.view.folders:
                continue
            named = any(folder == where and fnmatchcase(name, glob) for where, glob in watch.view.names)
            if named or _is_folder(kind, path, watch.view):
                # Reported even when it looks the same: two writes of one size may share a timestamp.
                watch.tell = watch.tell or named
                watch.look_at = min(watch.look_at, max(now, watch.not_before))


def _is_folder(kind: int, path: str, view: View) -> bool:
    """Tell whether a folder came or went."""
    from watchfiles import Change as Kind

    return kind != Kind.modified and (path in view.folders or os.path.isdir(path))  # noqa: PTH112 - Path.is_dir may raise


def _watchable(folder: str) -> bool:
    try:
        folder.encode()  # watchfiles takes UTF-8 alone
    except UnicodeEncodeError:
        return False
    return os.access(folder, os.R_OK | os.X_OK)
