"""Blocks: writes the lines of MEMORY.md into the files of agents where the owner wants them, and takes edits back.

MEMORY.md is the original. What a person changed in a block goes into MEMORY.md first, as if it had been typed there,
and then each block is written anew. So a crash costs a repeated step: an edit that is in MEMORY.md already changes
nothing, and a block that was not written is written by the next one who opens the workspace.
"""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unicodedata import category

from daemon.workspace.block_wishes import (
    LONGEST,
    BlockFile,
    Wish,
    Wishes,
    block_in,
    digest,
    disk_of,
    file_of,
    is_newer,
    keep_wishes,
    key_of,
    resolved,
    rows_in,
    saved_beside,
    wishes_of,
)
from daemon.workspace.document import read_document
from daemon.workspace.redaction import shown_of
from daemon.workspace.stores import Store, utc_now
from state.changes.owner import match
from state.document.agent_block import AgentBlock, Cap, StandingLine, absorbed, edits_of, render_block
from state.document.agent_caps import CAPS
from state.document.document import parse
from state.document.fence import Fenced, fenced, lead_for, newline_of, opened_fence, without_block
from state.document.merge import is_conflicted, with_lines_of
from state.errors import (
    ConflictError,
    DocumentError,
    DreamdError,
    FencedError,
    NotFoundError,
    StorageError,
    UsageError,
)
from state.stores.disk.disk import Disk
from state.stores.disk.swap import change_text
from state.stores.disk.workspace import Workspace
from state.stores.history.memory import decode_document
from state.trust import Trust

# As of a line that the owner wrote into MEMORY.md.
_OWNERS_IMPORTANCE = 0.8
_TRIES = 8
# What may be wrong with one file, beside which the others are written.
_IN_THE_WAY = (NotFoundError, DocumentError, ConflictError, StorageError)
_LEFTOVER_AGE = timedelta(hours=1)


def wish(store: Store, path: Path, agent: str) -> str:
    """Write a block into this file, now and after each version; returns the name that the file has in the status.

    A file that is not there is made. Doing it again is harmless, and changes the agent. Raises UsageError for a file
    that is no agent's, ConflictError for one with a block of another memory, and what the disk fails with.
    """
    if agent not in CAPS:
        raise UsageError(f"there is no agent {agent!r}", f"name one of {', '.join(CAPS)}")
    name = resolved(store.workspace, path)
    wishes = replace(wishes_of(store.workspace), key=key_of(store.workspace))
    known = next((one for one in wishes.files if one.path == name), Wish(name, agent))
    file = file_of(store.workspace, known)
    _require_free(store, wishes, name, file)
    content = disk_of(store.workspace, file).read_optional(file, LONGEST)
    if content and b"\0" in content:
        raise DocumentError(f"{file} holds NUL bytes, so it is no text", "save it as UTF-8 text")
    try:
        if fenced(content or b"") is None:
            known = replace(known, lead=lead_for(content or b""), created=content is None)
        else:
            block_in(content, wishes, known.code)
    except (DocumentError, ConflictError) as error:
        raise type(error)(f"{file}: {error.what}", error.advice) from error
    _keep(store, wishes.with_file(replace(known, agent=agent)))
    try:
        _write_all(store, new=name)
    except _IN_THE_WAY:
        with suppress(*_IN_THE_WAY):
            if fenced(disk_of(store.workspace, file).read_optional(file, LONGEST) or b"") is None:
                _keep(store, wishes.without_file(name))
        raise
    return name


def unwish(store: Store, path: Path) -> str:
    """Take the block out of this file, which is then as it was without it, and write none any more.

    What a person changed in the block goes into MEMORY.md first. A block that is not clear, or of another memory,
    stays where it is: the words returned say so, else they are empty. Raises NotFoundError when none is wished there.
    """
    name = resolved(store.workspace, path)
    found = next((one for one in wishes_of(store.workspace).files if one.path == name), None)
    if found is None:
        raise NotFoundError(f"no block of this memory is wished in {path}", "'dreamd block' lists those that are")
    _write_all(store)
    file, problem = file_of(store.workspace, found), ""
    disk = disk_of(store.workspace, file, store.disk)
    for _ in range(_TRIES):
        wishes = wishes_of(store.workspace)
        content = disk.read_optional(file, LONGEST)
        try:
            block = block_in(content, wishes, found.code)
        except NotFoundError:
            break
        except DreamdError as error:
            problem = f"{file} keeps its block: {error.what}; {error.advice}"
            break
        left = without_block(block.parts, found.lead)
        if _swapped(store, disk, found, wishes, block.content, left):
            if found.created and not left and not disk.read_optional(file, LONGEST):
                disk.remove(file)
            break
    _keep(store, wishes_of(store.workspace).without_file(name))
    return problem


def write_blocks(store: Store) -> None:
    """Take in what a person changed in the blocks, then write each as MEMORY.md is now.

    What is in the way becomes a notice: a version that is committed stays so, and the status says what to do.
    """
    try:
        _write_all(store)
    except FencedError:
        raise
    except DreamdError as error:
        store.notice(f"the blocks of MEMORY.md in files of agents were not written ({error})")


def finish_blocks(store: Store) -> None:
    """Write the blocks that lack the last version, because the process that committed it was cut off."""
    try:
        wishes = wishes_of(store.workspace)
    except DreamdError as error:
        store.notice(f"the blocks of MEMORY.md in files of agents were not written ({error})")
        return
    if wishes.files and wishes.version < store.lineage.last_version():
        write_blocks(store)


def wished_files(workspace: Workspace) -> tuple[Path, ...]:
    """The files in which a block is wished."""
    return tuple(file_of(workspace, one) for one in wishes_of(workspace).files)


def _write_all(store: Store, new: str = "") -> None:
    """Take in and write all; `new` names a file that is to have a block although it has none."""
    wishes = wishes_of(store.workspace)
    if not wishes.files:
        return
    content = store.disk.read_optional(store.workspace.document) or b""
    if store.lineage.last_version() and (not content.strip() or is_conflicted(content.decode(errors="replace"))):
        return  # MEMORY.md is missing or was emptied, which is an accident; or a person is resolving a conflict
    failed = list[str]()
    for one in wishes.files:
        try:
            _write(store, one.path, new)
        except _IN_THE_WAY as error:
            if new == one.path:
                raise
            failed.append(f"{one.path}: {error.what}")
    _keep(store, replace(wishes_of(store.workspace), version=store.lineage.last_version()))
    for problem in failed:
        store.notice(f"a block was not written: {problem}; 'dreamd status' says what to do")


def _write(store: Store, name: str, new: str) -> None:
    """Take in the edits of one file and write its block, until no save comes in between."""
    for _ in range(_TRIES):
        wishes = wishes_of(store.workspace)
        found = next(one for one in wishes.files if one.path == name)
        file = file_of(store.workspace, found)
        disk = disk_of(store.workspace, file, store.disk)
        content = _settled(disk, file, found)
        parts = fenced(content or b"")
        if parts is None and name == new:
            parts = opened_fence(content or b"", found.lead)
        else:
            block = block_in(content, wishes, found.code)
            parts = block.parts
            _take_in(store, wishes, block)
        rendered = _rendered(store, wishes, parts, CAPS[found.agent])
        target = parts.with_block(rendered.text.encode())
        found = replace(found, code=rendered.code, left_out=rendered.left_out)
        wishes = wishes.with_file(found).with_written(rendered.code, rendered.ids)
        if target == content:
            if wishes != wishes_of(store.workspace):
                _keep(store, wishes)
            return
        if _swapped(store, disk, found, wishes, content, target):
            return
    raise DocumentError(f"{name} changed {_TRIES} times while it was written", "stop what writes it")


def _take_in(store: Store, wishes: Wishes, block: BlockFile) -> None:
    """Do in MEMORY.md what a person did in the block."""
    if not block.changed:
        return
    path = store.workspace.document

    def change(content: bytes) -> bytes:
        text = decode_document(content, path)
        edits = edits_of(block.base, block.block, _standing(store, text), wishes.key)
        return absorbed(text, edits).encode() if edits else content

    def join(current: bytes, other: bytes) -> bytes:
        return with_lines_of(decode_document(current, path), decode_document(other, path)).encode()

    store.check()
    change_text(store.disk, path, change, join, "dream again")


def _rendered(store: Store, wishes: Wishes, parts: Fenced, cap: Cap) -> AgentBlock:
    """The block for a file with these bytes around it."""
    around = parts.outside
    room = Cap(cap.lines - rows_in(around) - (not around.endswith(b"\n")), cap.bytes - len(around))
    return render_block(
        _standing(store, read_document(store)[0]),
        room,
        wishes.key,
        newline_of(parts.before + parts.block + parts.after),
    )


def _standing(store: Store, text: str) -> list[StandingLine]:
    """The lines of a MEMORY.md that may be shown."""
    blocks = list(parse(text).lines())
    known = match(store.lineage.current_lines(), [(name, block.text) for name, block in blocks])
    shown = shown_of(store)
    lines = (
        StandingLine(
            section=name,
            text=block.text,
            shown=shown(block.text).strip(),
            importance=line.importance if line else _OWNERS_IMPORTANCE,
            trust=line.trust if line else Trust.OWNER,
            pinned=block.pinned,
        )
        for (name, block), line in zip(blocks, known, strict=True)
    )
    return [line for line in lines if line.shown]


def _settled(disk: Disk, file: Path, wish: Wish) -> bytes | None:
    """The file's content, after a write that was cut off has come to its end."""
    content, aside = disk.read_optional(file, LONGEST), disk.displaced(file)
    if aside is None:
        return content
    if is_newer(file, wish, content, aside):
        disk.write_atomic(file, aside)  # a save between reading and writing
        content = aside
    disk.settle(file)
    return content


def _swapped(store: Store, disk: Disk, wish: Wish, wishes: Wishes, content: bytes | None, target: bytes) -> bool:
    """Write the file if it still is what was read; what is wished is written down before. False: it was saved."""
    _keep(store, wishes.with_file(replace(wish, writing=(digest(content), digest(target)))))
    file = file_of(store.workspace, wish)
    store.check()
    displaced = disk.exchange(file, target, mode=0o644)
    if displaced in (None, content):
        disk.settle(file)
        disk.remove_leftovers(file.parent, (utc_now() - _LEFTOVER_AGE).timestamp())
        return True
    if disk.read_optional(file, LONGEST) != target:
        raise saved_beside(file)
    disk.write_atomic(file, displaced)
    disk.settle(file)
    return False


def _require_free(store: Store, wishes: Wishes, name: str, file: Path) -> None:
    """Return if a block may stand in this file. Raises UsageError and ConflictError."""
    workspace = store.workspace
    real = disk_of(workspace, file).target(file)
    own = (workspace.document, workspace.backup, workspace.genome)
    is_odd = any(category(sign) in ("Cc", "Cs") for sign in name)
    if file.suffix != ".md" or is_odd or real in own or real.is_relative_to(workspace.state):
        raise UsageError(f"{file} is no file of an agent's", "name one such as CLAUDE.md, AGENTS.md or GEMINI.md")
    for one in wishes.files:
        other = file_of(workspace, one)
        if one.path != name and disk_of(workspace, other).target(other) == real:
            raise ConflictError(f"{file} is the same file as {other}, which has a block", f"leave it at {one.path}")


def _keep(store: Store, wishes: Wishes) -> None:
    keep_wishes(store.workspace, wishes, store.disk)
