"""Worktree: find the main checkout of a linked git worktree by reading git's few small files, without running git."""

import os
import re
import stat
from itertools import islice
from pathlib import Path
from typing import NamedTuple

_LINK = ".git"
_MOST_WORKTREES = 500
_LONGEST_LINE = 4_200  # PATH_MAX and a few words
_LONGEST_CONFIG = 1 << 20
_BARE = re.compile(rb"^\s*bare\s*=\s*true\b", re.MULTILINE | re.IGNORECASE)


class Worktree(NamedTuple):
    """A linked worktree: its folder, its repository (git's common dir), and the folder of the main checkout.

    `main` is None if there is none: for a bare repository, or a submodule's. All paths are real ones.
    """

    top: Path
    repository: Path
    main: Path | None


class Checkout(NamedTuple):
    """A checkout: its folder, its own git directory (with the index), and the one shared by all worktrees.

    `main` is the folder of the main checkout, or that of the repository if it has none.
    """

    top: Path
    own: Path
    common: Path
    main: Path


def checkout_of(folder: Path) -> Checkout | None:
    """Return the checkout that contains a folder; None without one, or if its `.git` may lead to somebody else's."""
    for above in (folder, *folder.parents):
        if os.path.lexists(above / _LINK):
            return checkout_at(above)
    return None


def checkout_at(top: Path) -> Checkout | None:
    """Return the checkout whose top is this folder, a real path; None if it is none, as in `checkout_of`."""
    link = top / _LINK
    if not link.is_symlink() and link.is_dir():
        return Checkout(top, link, link, top)
    if (own := _pointed(top)) is None:
        return None
    if (tree := worktree_at(top)) is not None:
        return Checkout(top, own, tree.repository, tree.main or tree.repository)
    is_module = any(own.is_relative_to(one / _LINK / "modules") for one in top.parents)
    # With `--separate-git-dir`, or a bare repository in the folder. The `.git` of another folder is that folder's.
    is_apart = own.name != _LINK and own.parent.name != "worktrees" and (own / "HEAD").is_file()
    is_apart = is_apart and (own.parent == top or not _is_bare(own))  # which has only linked worktrees
    return Checkout(top, own, own, top) if is_module or is_apart else None


def worktree_at(folder: Path) -> Worktree | None:
    """Return the linked worktree whose top is this folder, a real path; None if it is anything else.

    A `.git` file alone proves nothing: the repository that it names must name this very folder as its worktree.
    Nothing blocks and nothing raises.
    """
    own = _pointed(folder)
    if own is None or own.parent.name != "worktrees":
        return None
    repository, common, back = own.parent.parent, _line(own / "commondir"), _line(own / "gitdir")
    if not common or not back or os.path.realpath(own / common) != str(repository):
        return None
    link = own / back  # an absolute path replaces `own`
    if link.name != _LINK or os.path.realpath(link.parent) != str(folder):
        return None
    # A bare repository beside its worktrees belongs to its parent folder if a `.git` file there names it.
    is_main = repository.name == _LINK or _pointed(repository.parent) == repository
    return Worktree(folder, repository, repository.parent if is_main else None)


def repository_top(folder: Path) -> Path | None:
    """Return the top of the main checkout of a folder's repository; without one, the top of the linked checkout."""
    for above in (folder, *folder.parents):
        if os.path.lexists(above / _LINK):
            tree = worktree_at(above)
            return tree.main if tree is not None and tree.main is not None else above
    return None


def worktrees_of(main: Path) -> tuple[Path, ...]:
    """Return the tops of the linked worktrees of a main checkout, ordered by name; at most 500."""
    return tuple(top for top in _claimed(main) if (tree := worktree_at(top)) is not None and tree.main == main)


def removed_worktrees(main: Path) -> tuple[Path, ...]:
    """Return the folders that do not exist and that a main checkout claims as its worktrees, which proves nothing."""
    return tuple(top for top in _claimed(main) if not os.path.lexists(top))


def _claimed(main: Path) -> tuple[Path, ...]:
    repository = _pointed(main) or main / _LINK
    try:
        with os.scandir(repository / "worktrees") as entries:
            known = sorted(entry.path for entry in islice(entries, _MOST_WORKTREES))
    except OSError:
        return ()
    links = ((Path(own), _line(Path(own) / "gitdir")) for own in known)
    return tuple(Path(os.path.realpath((own / link).parent)) for own, link in links if link)


def _is_bare(repository: Path) -> bool:
    return _BARE.search(_content_of(repository / "config", _LONGEST_CONFIG)) is not None


def _pointed(folder: Path) -> Path | None:
    """Return where the `.git` file of a folder points; None if there is no such file."""
    word, _, name = _line(folder / _LINK).partition(": ")
    return Path(os.path.realpath(folder / name)) if word == "gitdir" and name else None


def _line(file: Path) -> str:
    """Return the only line of a small regular file; "" for anything else."""
    line = _content_of(file, _LONGEST_LINE).rstrip(b"\r\n")
    return "" if b"\n" in line or b"\0" in line else os.fsdecode(line)


def _content_of(file: Path, longest: int) -> bytes:
    """Return the content of a regular file; empty if it is longer than `longest` or anything else.

    It follows no link, waits for no FIFO and raises nothing.
    """
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):  # most are folders, and devices must not be opened
            return b""
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    with os.fdopen(fd, "rb") as opened:
        try:
            content = opened.read(longest + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        except OSError:
            return b""
    return content if len(content) <= longest else b""
