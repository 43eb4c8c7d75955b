"""Tracking: whether git tracks a file in a checkout, asked of git itself, with every setting that runs a program off.

Anybody may have written a folder's `.git`; where git cannot say it, a file counts as tracked.
"""

import os
import subprocess
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from state.stores.disk.worktree import Checkout, checkout_of

if TYPE_CHECKING:
    from state.stores.disk.stamp import Stamp

_SECONDS = 10.0
_QUIET = ("--no-pager", "--literal-pathspecs", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_NOTHING_OF_USER = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_OPTIONAL_LOCKS": "0"}
# A partial clone fetches what it lacks, such as a folder of a sparse index, by a program that its config names.
_NO_FETCH = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}


class Tracking(Enum):
    """Whether git tracks a file. UNKNOWN: git is changing files, and says in a moment which of them it tracks."""

    NO = auto()
    YES = auto()
    UNKNOWN = auto()


def tracking(*paths: Path) -> Tracking:
    """Return whether git tracks any of the files at these paths, or a file that one of them leads to."""
    found = {_tracking_of(one) for path in paths for one in {path, Path(os.path.realpath(path))}}
    return next((one for one in (Tracking.UNKNOWN, Tracking.YES) if one in found), Tracking.NO)


def _tracking_of(path: Path) -> Tracking:
    checkout = checkout_of(path.parent)
    if checkout is None:
        return Tracking.NO
    if os.path.lexists(checkout.own / "index.lock"):  # files come before the index that lists them
        return Tracking.UNKNOWN
    if not os.path.lexists(checkout.own / "index"):
        return Tracking.NO
    from state.stores.disk.stamp import Stamp  # late: a session start outside of git does without

    is_tracked = _is_tracked(checkout, path.relative_to(checkout.top), Stamp.of(str(checkout.own / "index")))
    return Tracking.YES if is_tracked else Tracking.NO


@lru_cache(maxsize=64)
def _is_tracked(checkout: Checkout, name: Path, _: "Stamp | None") -> bool:
    """Ask git once per index that it has written."""
    place = (f"--git-dir={checkout.own}", f"--work-tree={checkout.top}")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**inherited, **_NOTHING_OF_USER, **_NO_FETCH}
    try:
        asked = subprocess.run(  # noqa: S603 - git, with fixed words
            ["git", *_QUIET, *place, "ls-files", "--error-unmatch", "--", str(name)],  # noqa: S607
            cwd=checkout.top, env=environment, stdin=subprocess.DEVNULL, check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return True
    return asked.returncode != 1
