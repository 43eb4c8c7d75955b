"""Repository: git's state of a file, read from `.git` without running git.

Anybody may have written a folder's `.git`: what is read of it is bounded, never waited for, and only compared with
what was there before. Whatever cannot be read counts as changed.
"""

import hashlib
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from state.stores.disk.git_index import Index
from state.stores.disk.stamp import Stamp
from state.stores.disk.worktree import Checkout, checkout_of, content_of, size_of

UNKNOWN = "?"
"""The blob of a file whose entry in the index cannot be read."""
_BUSY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
# Messages in HEAD's log for changes that leave every file as it is. A commit that ends a merge is not one of them.
_KEEPS_FILES = (b"commit: ", b"commit (initial): ", b"commit (amend): ", b"Branch: renamed ")
# Messages for a conflict that was abandoned, so that git restored another state, or that was resolved.
_GIVEN_UP = (b"reset: ", b"checkout: ", b"rebase (abort)")
_RESOLVED = (b"commit (merge): ", b"commit (cherry-pick): ", b"rebase (continue): ")
_MOST_LOGGED = 1 << 18
_LONGEST_OBJECT = 1 << 22
_DIGESTS = {40: "sha1", 64: "sha256"}


@dataclass(frozen=True, slots=True)
class GitFile:
    """Git's state of a file at one moment.

    `head` is HEAD's reference and commit, `busy` the operations that git is in the middle of, `log` the length of
    HEAD's log. `blob` is the file's digest in the index, empty if git does not track it. `resolved` says that this
    file was in conflict, and that a person is resolving it or has done so.
    """

    head: str
    busy: str
    log: int
    blob: str
    resolved: bool = False


def git_file(path: Path) -> GitFile | None:
    """Return git's state of the file at this path; None outside a repository."""
    real = Path(os.path.realpath(path))
    checkout = checkout_of(real.parent)
    if checkout is None or not real.is_relative_to(checkout.top):
        return None
    busy = " ".join(name for name in _BUSY if os.path.lexists(checkout.own / name))
    return GitFile(_head(checkout), busy, size_of(_log(checkout)), *_indexed(checkout, real))


def put_by_git(path: Path, before: GitFile, now: GitFile) -> str | None:
    """Return the blob that git has put in place of the file since `before`; None if it has only made commits.

    What a later commit made of the file is a person's work. A conflict that is gone from the index counts, too.
    """
    if (before.head, before.busy, before.log) == (now.head, now.busy, now.log):
        return now.blob if before.blob == UNKNOWN != now.blob else None
    checkout = checkout_of(Path(os.path.realpath(path)).parent)
    moves = _moves(checkout, path, before, now) if checkout else None
    if not checkout or moves is None:
        return now.blob
    if not moves:
        return None
    commit = moves[-1].split(b" ")[1].decode(errors="replace")
    return _blob_of(checkout, commit, _name(checkout, path)) or now.blob


def is_given_up(path: Path, before: GitFile) -> bool:
    """Return whether the conflict of `before` was abandoned: git's last entry about it restored another state.

    Entries that leave HEAD at its commit (a new branch, a reset to HEAD) count only if no other entry moved it.
    """
    checkout, now = checkout_of(Path(os.path.realpath(path)).parent), git_file(path)
    if checkout is None or now is None:
        return False
    # A resolved conflict leaves its sides in the index until HEAD moves. A reset of a detached HEAD has no log entry.
    is_same_commit = (now.head, now.busy) == (before.head, before.busy)
    if before.resolved and is_same_commit and not now.resolved and now.blob != UNKNOWN:
        return True
    rows = content_of(_log(checkout), before.log + _MOST_LOGGED)[before.log :].splitlines()
    told = [(len(set(row.split(b" ")[:2])) > 1, row.partition(b"\t")[2]) for row in rows]
    ends = [(is_move, what) for is_move, what in told if what.startswith(_GIVEN_UP + _RESOLVED)]
    moves = [one for one in ends if one[0]]
    return any(what.startswith(_GIVEN_UP) for _, what in (moves or ends)[-1:])


def text_of_blob(path: Path, blob: str) -> str | None:
    """Return the text of git's object with this digest; None if it is packed or cannot be read."""
    checkout = checkout_of(Path(os.path.realpath(path)).parent)
    content = _object(checkout, blob) if checkout is not None else b""
    return content.decode(errors="replace") if content else None


def is_blob(content: bytes, blob: str) -> bool:
    """Return whether a file with this content is the object with this digest, with either kind of line ending."""
    named = _DIGESTS.get(len(blob))
    texts = (content, content.replace(b"\r\n", b"\n"))
    return named is not None and any(
        hashlib.new(named, b"blob %d\0" % len(one) + one, usedforsecurity=False).hexdigest() == blob for one in texts
    )


def _head(checkout: Checkout) -> str:
    """Return HEAD's reference and its commit; in a repository with reftables also the list of their tables."""
    head = _text(checkout.own / "HEAD")
    name = head.removeprefix("ref: ")
    commit = ""
    if name != head and name.startswith("refs/") and ".." not in name and "\0" not in name:
        commit = _text(checkout.own / name) or _text(checkout.common / name) or _packed(checkout, name)
    tables = (_text(folder / "reftable" / "tables.list") for folder in (checkout.own, checkout.common))
    return " ".join((head, commit, *tables)).strip()


def _packed(checkout: Checkout, name: str) -> str:
    refs = content_of(checkout.common / "packed-refs")
    found = re.search(rb"(?m)^([0-9a-f]{40,64}) " + re.escape(os.fsencode(name)) + rb"$", refs)
    return found[1].decode() if found else ""


def _text(file: Path) -> str:
    return content_of(file, _MOST_LOGGED).decode(errors="replace").strip()


def _log(checkout: Checkout) -> Path:
    return checkout.own / "logs" / "HEAD"


def _name(checkout: Checkout, path: Path) -> bytes:
    return os.fsencode(Path(os.path.realpath(path)).relative_to(checkout.top))


def _moves(checkout: Checkout, path: Path, before: GitFile, now: GitFile) -> list[bytes] | None:
    """Return the new entries of HEAD's log that may have changed the file; None if the log cannot tell."""
    if before.busy != now.busy or now.log <= before.log:
        return None
    content = content_of(_log(checkout), before.log + _MOST_LOGGED)
    if before.log and content[before.log - 1 : before.log] != b"\n":
        return None
    name = _name(checkout, path)
    return [row for row in content[before.log :].splitlines() if not _keeps_file(row, checkout, name)]


def _keeps_file(row: bytes, checkout: Checkout, name: bytes) -> bool:
    """Return whether a move of HEAD left the file alone: by its kind, or because both commits have the same blob."""
    moved, _, message = row.partition(b"\t")
    commits = moved.decode(errors="replace").split(" ")[:2]
    if message.startswith(_KEEPS_FILES):
        return True
    if len(set(commits)) == 1:  # a reset to HEAD discards uncommitted changes
        return not message.startswith(b"reset: ")
    before, now = (_blob_of(checkout, commit, name) for commit in commits)
    return before is not None and before == now


def _blob_of(checkout: Checkout, commit: str, name: bytes) -> str | None:
    """Return a path's blob in a commit, "" if it has none; None if an object is packed or cannot be read."""
    word, _, tree_digest = _object(checkout, commit).partition(b"\n")[0].partition(b" ")
    digest = tree_digest.decode(errors="replace") if word == b"tree" else ""
    for part in name.split(b"/"):
        tree = _object(checkout, digest)
        if not tree:
            return None
        found = next((blob for entry, blob in _entries(tree, len(commit) // 2) if entry == part), b"")
        if not found:
            return ""
        digest = found.hex()
    return digest


def _entries(tree: bytes, digest: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the names in a tree with their digests."""
    at = 0
    while (end := tree.find(b"\0", at)) > 0:
        yield tree[at:end].partition(b" ")[2], tree[end + 1 : end + 1 + digest]
        at = end + 1 + digest


def _object(checkout: Checkout, digest: str) -> bytes:
    """Return the content of a loose object; empty for any other."""
    if len(digest) not in _DIGESTS or digest.strip("0123456789abcdef"):
        return b""
    packed = content_of(checkout.common / "objects" / digest[:2] / digest[2:], _LONGEST_OBJECT)
    try:
        return zlib.decompressobj().decompress(packed, _LONGEST_OBJECT).partition(b"\0")[2]
    except zlib.error:
        return b""


def _indexed(checkout: Checkout, file: Path) -> tuple[str, bool]:
    """Return a file's blob in the index, and whether a conflict in it was, or is being, resolved."""
    if not os.path.lexists(checkout.own / "index"):
        return "", False
    return _read_index(checkout, file, Stamp.of(str(checkout.own / "index")))


@lru_cache(maxsize=64)
def _read_index(checkout: Checkout, file: Path, _: Stamp | None) -> tuple[str, bool]:
    """Read the index once per version that git wrote, because a large repository's takes a tenth of a second."""
    name = _name(checkout, file)
    index = Index(checkout)
    found = [entry for entry in index.entries() if entry.name == name]
    if not index.is_whole:
        return UNKNOWN, False
    blob = next((entry.blob for entry in found if entry.stage == 0), UNKNOWN if found else "")
    return blob, any(entry.stage for entry in found) or name in index.resolved()
