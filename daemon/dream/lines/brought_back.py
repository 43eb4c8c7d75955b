"""Brought back: lines that a dream without a model replaced become pending notes again, once for each workspace."""

from daemon.workspace.document import read_document
from daemon.workspace.stores import Store
from state.document.document import SectionName, parse
from state.scratch import Note
from state.signals.hormones import is_hormone_event
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.meta import Meta
from state.text.words import normalise

BROUGHT_BACK = "lines_brought_back"
"""In `meta`: how many lines came back."""
_FACTS = frozenset((SectionName.PHENOTYPE, SectionName.BOND, SectionName.NICHE, SectionName.CONTEXT))


def bring_back(store: Store) -> int:
    """Append each line that code replaced, and that stands no longer, as a note of the time when it was written.

    Returns how many; 0 when that was done before. Whoever is killed on the way does it again: what is pending already
    is not appended twice.
    """
    meta = Meta(store.crystals.connection)
    if meta.get(BROUGHT_BACK) is not None:
        return 0
    store.check()
    lost = replaced_by_code(store)
    pending = {normalise(note.text) for note in store.notes.each_pending()} if lost else set()
    for note in lost:
        if normalise(note.text) not in pending:
            store.notes.say_again(note, store.config.secrets.redaction)
    meta.put(BROUGHT_BACK, str(len(lost)))
    return len(lost)


def replaced_by_code(store: Store) -> list[Note]:
    """Return the facts that a dream without a model put another line in the place of, as notes, each once.

    Left out is what stands in MEMORY.md, what its owner deleted and what is forgotten.
    """
    known = {block.key for part in parse(read_document(store)[0]).parts for block in part.lines}
    known |= {normalise(text) for text in store.lineage.tombstones()}
    forgotten = store.crystals.forgotten.tombstones()
    lost = dict[str, Note]()
    for section, note in Supersessions(store.crystals).replaced_by_code():
        key = normalise(note.text)
        if section not in _FACTS or not key or key in known or is_hormone_event(note.text):
            continue
        if not forgotten.found(note.text):
            lost.setdefault(key, note)
    return list(lost.values())
