"""Watcher: tells when scratch.md, MEMORY.md or transcripts of a workspace may have changed.

Comparison decides: whoever looks after a workspace compares what its folders hold with what they held before
(`Watched`), twice a minute and whenever the kernel says that something happened there (`Events`: inotify, through
watchfiles). So an event that is lost delays a change and loses none; without events there are more looks.

Each folder is watched for itself: watchfiles' recursive mode follows links, and a link to / would lead it far away.
"""

import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event, Lock, Thread, current_thread
from types import SimpleNamespace

from daemon.observability import logs
from daemon.workspace.scan import View, patterns_of, scan
from daemon.workspace.status import Problem
from state.stores.disk.workspace import SCRATCH

# Changes within the window are told once, and a quiet step ends it.
_WINDOW_MS, _STEP_MS = 1_000, 100
_PAUSE_SECONDS = 0.4
_STUCK_SECONDS = 10.0
_RETRY_SECONDS = 30.0
# The share of the time that looks at a place, or setting all watches anew, may take.
_SHARE = 0.05
_CLOSE_SECONDS = 2.0
_POLLING = "WATCHFILES_FORCE_POLLING"


class Change(StrEnum):
    """What of a workspace may have changed."""

    SCRATCH = "scratch"
    DOCUMENT = "document"
    TRANSCRIPT = "transcript"


Views = Mapping[Change, View]


class Watched:
    """The files of one workspace as they were looked at last; one thread at a time looks."""

    def __init__(self, root: Path) -> None:
        self.views: Views = {}
        self._root = root
        self._not_before = 0.0

    def look(self, transcripts: Sequence[str]) -> set[Change]:
        """Return what has changed since the last look; at the first one nothing has."""
        began = time.monotonic()
        if began < self._not_before:
            return set()
        root = Path(os.path.realpath(self._root))
        globs = {Change.SCRATCH: [SCRATCH], Change.DOCUMENT: ["MEMORY.md"], Change.TRANSCRIPT: transcripts}
        before, self.views = self.views, {change: scan(root, patterns_of(some)) for change, some in globs.items()}
        now = time.monotonic()
        self._not_before = now + (now - began) / _SHARE
        return {change for change, view in self.views.items() if before and view.seen != before[change].seen}


class Events:
    """One thread that hears the kernel's events for any number of workspaces.

    `happened` is told, in that thread, which of a workspace's files were written, or None where a look has to show
    what has changed. It has to be quick and must not raise. Now and then nothing has changed.
    """

    def __init__(self, happened: Callable[[Path, Change | None], None]) -> None:
        polling = os.environ.get(_POLLING, "").lower()
        self._is_wanted = polling in ("", "false", "disable", "disabled")
        self._happened = happened
        self._views: dict[Path, Views] = {}
        self._lock = Lock()
        self._why = ""  # there are none
        self._setting_since: float | None = None  # watches are being set, which waits for disks
        self._closing, self._renew = Event(), Event()
        self._thread = Thread(target=self._run, name="watching", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> Problem | None:
        """Why there are no events of the kernel."""
        since = self._setting_since
        if since is not None and time.monotonic() - since > _STUCK_SECONDS:
            return Problem("a file system does not answer to who watches it: files are looked at every few seconds")
        advice = "raise fs.inotify.max_user_watches and fs.inotify.max_user_instances (sysctl)"
        return Problem(self._why, advice) if self._why else None

    @property
    def are_heard(self) -> bool:
        """Whether a change is told at once."""
        return self._is_wanted and self.problem is None

    def watch(self, root: Path, views: Views) -> None:
        """Tell of changes in what a look has found, in place of what was found there before."""
        before = self._views.get(root)
        if before is None or any(
            before[change].folders != view.folders or before[change].names != view.names
            for change, view in views.items()
        ):
            with self._lock:
                self._views[root] = views
            self._renew.set()

    def forget(self, root: Path) -> None:
        """Tell of the workspace no longer."""
        with self._lock:
            self._views.pop(root, None)
        self._renew.set()

    def close(self) -> None:
        """Stop. A call that is under way is waited for, but not for ever."""
        self._closing.set()
        self._renew.set()
        if current_thread() is not self._thread:
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._renew.clear()
                with suppress(FileNotFoundError):  # a folder went since: whoever looks finds others
                    self._hear()
            except Exception as error:  # noqa: BLE001 - whatever keeps the events away, the looks go on
                if self._setting_since is not None:  # else events ended, as a name that is no UTF-8 ends them
                    self._why = f"no events of the file system ({error}), looked at every few seconds instead"
                    logs.get().error("watching_failed", error=error)
            self._setting_since = None
            self._closing.wait(_RETRY_SECONDS if self._why else _PAUSE_SECONDS)

    def _hear(self) -> None:
        """Tell what happens, until other folders are to be watched."""
        self._setting_since = began = time.monotonic()
        from watchfiles import watch

        with self._lock:
            roots = dict(self._views)
        places = defaultdict[str, list[tuple[Path, Change, View]]](list)
        for root, views in roots.items():
            for change, view in views.items():
                for folder in view.folders:
                    places[folder].append((root, change, view))
        folders = sorted(filter(_is_watchable, places)) if self._is_wanted else []
        if not folders:
            self._setting_since = None
            self._renew.wait()
            return
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        renew_at = float("inf")

        def is_over() -> bool:
            """Tell watchfiles whether to end: it asks as soon as the watches are set, and every step from then on."""
            nonlocal renew_at
            now = time.monotonic()
            if self._setting_since is not None:
                # Setting all watches anew is a small share of the time as well.
                self._setting_since, self._why, renew_at = None, "", now + (now - began) / _SHARE
                for root in roots:  # what happened before it was watched
                    self._happened(root, None)
            return self._closing.is_set() or (self._renew.is_set() and now >= renew_at)

        for batch in watch(
            *folders,
            watch_filter=None,
            debounce=_WINDOW_MS,
            step=_STEP_MS,
            stop_event=SimpleNamespace(is_set=is_over),
            raise_interrupt=False,
            force_polling=False,
            recursive=False,
        ):
            self._tell(batch, places)

    def _tell(
        self, events: Iterable[tuple[int, str]], places: Mapping[str, Sequence[tuple[Path, Change, View]]]
    ) -> None:
        from watchfiles import Change as Kind

        told = dict[tuple[Path, Change | None], None]()
        for kind, path in events:
            folder, name = os.path.split(path)
            for root, change, view in places.get(folder, ()):
                # Told even when it looks the same: two writes of one size may share a timestamp.
                if any(folder == where and fnmatchcase(name, glob) for where, glob in view.names):
                    told[root, change] = None
                elif kind != Kind.modified and (path in view.folders or os.path.isdir(path)):  # noqa: PTH112 - Path.is_dir may raise
                    told[root, None] = None  # a folder came or went
        for root, what in told:
            self._happened(root, what)


def _is_watchable(folder: str) -> bool:
    try:
        folder.encode()  # watchfiles takes UTF-8 alone
    except UnicodeEncodeError:
        return False
    return os.access(folder, os.R_OK | os.X_OK)
