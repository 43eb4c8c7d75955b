"""Former blocks: takes the blocks of MEMORY.md that an older dreamd kept in agents' files out of them, once.

What a person typed in such a block becomes an edit of MEMORY.md first, one last time. blocks.json in the state folder
says where the blocks are; it has digests of the lines that were written, by which an edit is known.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from hashlib import sha256
from itertools import zip_longest
from typing import Any

from daemon.workspace.agent_files import escaped
from daemon.workspace.redaction import shown_of
from daemon.workspace.stores import Store
from state.document.document import PIN, Edit, SectionName, parse, render
from state.document.editing import edited, item
from state.document.fence import Fenced, fenced, without_block
from state.document.merge import with_lines_of, working
from state.errors import DocumentError, DreamdError, FencedError, StorageError
from state.stores.disk.disk import Disk
from state.stores.disk.swap import change_text
from state.stores.history.memory import decode_document

_LONGEST = 4 * 1024**2
_CODE = re.compile(r"<!-- Made by dreamd [^\n]*? ([0-9a-f]{8}) -->")
_ESCAPED_IMPORT = re.compile(r"(?<![^\W_])\\@(?=\S)")
_Line = tuple[SectionName | None, str, bool]


def remove_blocks(store: Store) -> None:
    """Remove each block, and then the list of them; a notice says so, and which file keeps its block and why."""
    path = store.workspace.state / "blocks.json"
    if not path.exists():
        return
    removed, left, again, wishes = list[str](), list[str](), False, dict[str, Any]()
    with suppress(ValueError, StorageError):  # digests alone are in it
        wishes = json.loads(store.workspace.disk().read_bytes(path))
    for wish in wishes.get("files", ()):
        try:
            _remove(store, wish, wishes)
            removed.append(wish["path"])
        except FencedError:
            raise
        except DreamdError as error:
            left.append(f"{wish['path']} keeps its block: {error.what}")
            again |= isinstance(error, StorageError)
    if not again:  # what a disk refused is done at the next start
        with suppress(StorageError):
            store.disk.remove(path)
    store.notice(
        "MEMORY.md is no longer kept as a block in agents' files"
        f" (removed from {', '.join(removed) or 'none'}{''.join(f'; {one}' for one in left)}); 'dreamd connect' shows"
        " it to agents"
    )


def _remove(store: Store, wish: dict[str, Any], wishes: dict[str, Any]) -> None:
    """Take in what was typed in one file, and take the block out. Raise DreamdError where it has to stay."""
    path = store.workspace.root / wish["path"]
    inside = path.is_relative_to(store.workspace.root)
    disk = Disk(store.workspace.root if inside else path.parent, store.disk.system)
    content = disk.read_optional(path, _LONGEST) if path.parent.is_dir() else None
    found = fenced(content or b"")
    if content is not None and (aside := disk.displaced(path)) is not None:
        before = fenced(aside)
        is_begun = found is not None and without_block(found, wish["lead"]).startswith(aside)
        is_done = found is None and before is not None and without_block(before, wish["lead"]) == content
        if not (is_begun or is_done):
            raise DocumentError("a save of it lies beside it", "put both together by hand")
        disk.settle(path)  # a removal was cut off, before the files changed places or when all was done
    if content is None or found is None:
        return
    _take_in(store, found, wish, wishes)
    store.check()
    after = without_block(found, wish["lead"])
    if (saved := disk.exchange(path, after, mode=0o644)) not in (None, content):
        disk.write_atomic(path, saved)
        disk.settle(path)
        raise DocumentError("it was saved meanwhile", "take the rows out by hand")
    disk.settle(path)
    if wish["created"] and not after:
        disk.remove(path)


def _take_in(store: Store, found: Fenced, wish: dict[str, Any], wishes: dict[str, Any]) -> None:
    """Do in MEMORY.md what a person did in the block. Raise DocumentError for a block of another memory."""
    code, lines = _CODE.search(found.inside), _lines(found.inside)
    named, ids = code[1] if code else wish["code"], [_id(wishes["key"], *line[:2]) for line in lines]
    if sha256("\n".join((wishes["key"], *ids)).encode()).hexdigest()[:8] == named:
        return
    base = next((one["ids"] for one in wishes["written"] if one["code"] == named), None)
    if base is None:
        raise DocumentError("it is of another memory, or was changed and is too old", "take its rows out by hand")
    path = store.workspace.document

    def change(content: bytes) -> bytes:
        text = decode_document(content, path)
        edits = list(_edits(store, text, base, ids, lines, wishes["key"])) if ids else []
        return _absorbed(text, edits).encode() if edits else content

    def join(current: bytes, other: bytes) -> bytes:
        return with_lines_of(decode_document(current, path), decode_document(other, path)).encode()

    store.check()
    if not path.exists():
        raise DocumentError("MEMORY.md is missing", "run 'dreamd dream'")
    change_text(store.disk, path, change, join, "start again")


def _lines(inside: str) -> list[_Line]:
    return [(part.name, block.text, block.pinned) for part in parse(inside).parts for block in part.lines]


def _id(key: str, section: SectionName | None, text: str) -> str:
    return sha256("\n".join((key, section.value if section else "", text)).encode()).hexdigest()[:16]


def _edits(
    store: Store, text: str, base: Sequence[str], ids: Sequence[str], lines: Sequence[_Line], key: str
) -> Iterator[Edit]:
    """Yield what a person did to a block whose lines were `base`: a line that is gone, come or corrected."""
    shown, known = shown_of(store), dict[str, tuple[SectionName, str, bool]]()
    for section, block in parse(text).lines():
        row = item(escaped(shown(block.text).strip()))
        for _, as_read, _ in _lines(f"## {section.value}\n{row}")[:1]:
            known[_id(key, section, as_read)] = (section, block.text, block.pinned)
    for _, first, last, start, end in SequenceMatcher(a=base, b=ids, autojunk=False).get_opcodes():
        gone = [known[one] for one in base[first:last] if one not in ids and one in known]
        new_lines = zip(ids[start:end], lines[start:end], strict=True)
        come = [(line[0] or SectionName.CONTEXT, *line[1:]) for one, line in new_lines if one not in base]
        for section in dict.fromkeys(one[0] for one in (*gone, *come)):
            olds, news = ([one for one in side if one[0] is section] for side in (gone, come))
            for old, new in zip_longest(olds, news):
                pin = f" {PIN}" if (old and old[2]) or (new and new[2]) else ""
                said = f"{_ESCAPED_IMPORT.sub('@', new[1].replace('&lt;!--', '<!--'))}{pin}" if new else None
                yield Edit(section, (old[1],) if old else (), said)


def _absorbed(text: str, edits: Sequence[Edit]) -> str:
    """Return MEMORY.md with these edits; what is said in place of a line that is gone is added."""
    document = working(text)
    for edit in edits:
        document, left_out = edited(document, [edit])
        if left_out and edit.old and edit.new is not None:
            document, _ = edited(document, [Edit(edit.section, (), edit.new)])
    return render(document)
