"""Document: MEMORY.md of a workspace as it is on the disk, the last version of one that was emptied, or as it was."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta

from daemon.workspace.stores import Store
from state.bootstrap import digest_of
from state.document.document import parse
from state.dream import Dream
from state.errors import NotFoundError, StorageError
from state.stores.history.bootstraps import BootstrapReceipt
from state.stores.history.memory import decode_document

# What MEMORY.md was is looked for in so many versions that came after.
_LATER = 5


def read_document(store: Store) -> tuple[str, tuple[str, ...]]:
    """The text of MEMORY.md, and the problems with it.

    A file that is missing or was emptied is read from the last committed version: an empty file is an accident
    far more often than a wish. Raises DocumentError for a file that is no text.
    """
    path = store.workspace.document
    content = store.disk.read_optional(path)
    text = decode_document(content or b"", path)
    last = store.lineage.last_version()
    if text.strip() or not last:
        return text, ()
    how = "is missing" if content is None else "is empty"
    return store.memory.text(last), (f"MEMORY.md {how}; version {last} is taken as the old state",)


def document_of(store: Store, receipt: BootstrapReceipt, *others: str) -> str | None:
    """MEMORY.md as it was when this was given; None when that cannot be known.

    Its owner may have written the file after the last version of then. Such a text is known while it stands (`others`
    are looked at like it), and once a dream has read it.
    """
    later = [receipt.version, *store.lineage.versions_after(receipt.version)[:_LATER]]
    if receipt.digest:
        texts = (*others, "", *_texts(store, later))
        return next((text for text in texts if digest_of(text) == receipt.digest), None)
    with suppress(OSError):  # an earlier dreamd left no digest
        if store.workspace.document.stat().st_mtime <= (receipt.at + timedelta(seconds=1)).timestamp():
            return others[0] if others else None
    records = [_record(store, number) for number in later[:2]]
    own, following = (*records, None, None)[:2]
    return own.text if own and following and own.text == following.before else None


def _texts(store: Store, versions: list[int]) -> Iterator[str]:
    """What MEMORY.md was before and in each of these versions."""
    for number in versions:
        if (record := _record(store, number)) is not None:
            yield from (record.before, record.text)


def _record(store: Store, number: int) -> Dream | None:
    with suppress(NotFoundError, StorageError):  # it is gone, or damaged
        return store.memory.version(number)
    return None


def without_lines(text: str, lines: Iterable[str]) -> str:
    """MEMORY.md without these lines: what it was if nothing else was written since."""
    for line in lines:
        text = text.replace(line, "", 1)
    return text


def lines_with(text: str, wanted: str) -> Iterator[tuple[str, int]]:
    """The lines that hold this, each with the number of its first row."""
    at = 1
    for part in parse(text).parts:
        at += part.heading.count("\n")
        for block in part.blocks:
            if block.content and wanted in block.key:
                yield block.raw, at
            at += block.raw.count("\n")
