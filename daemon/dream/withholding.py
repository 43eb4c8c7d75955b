"""What is forgotten and a dream: the owner's hand lifts it, answers are kept without it, and it is counted."""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from daemon.workspace.document import read_document
from daemon.workspace.stores import Store
from graphs.operation_checks import FORGOTTEN
from graphs.ports import Answer
from state.codec import decode, encode
from state.document.document import parse
from state.document.operations import Refusal
from state.errors import DreamdError
from state.stores.database.connection import transaction
from state.stores.erasing.intent import is_unfinished
from state.text.words import normalise


def lift_by_hand(store: Store) -> int:
    """Lift what the owner wrote into MEMORY.md since the last version; returns how many lines held some of it.

    Such a line says so: it stays, and what it says may be learnt again. While something is being erased, nothing is
    lifted: what stands there may still be what is to go.
    """
    connection = store.crystals.connection
    forgotten = store.crystals.forgotten
    if not forgotten.any() or is_unfinished(connection):
        return 0
    text, _ = read_document(store)
    known = {normalise(line.text) for line in store.lineage.standing()}
    last = store.lineage.last_version()
    with suppress(DreamdError):  # a record that cannot be read: the ledger knows the lines of the sections
        committed = parse(store.journal.text(last)) if last else None
        known |= {block.key for part in committed.parts for block in part.lines} if committed else set()
    with transaction(connection):
        written = [block for part in parse(text).parts for block in part.lines if block.key not in known]
        return sum(forgotten.unblock_all_of(block.text) for block in written)


def withheld_lately(store: Store, refusals: Iterable[Refusal]) -> str:
    """How many texts were withheld since the last dream, in words; empty for none. These are the dream's refusals."""
    vetoed = sum(one.figures == FORGOTTEN for one in refusals)
    count = vetoed + store.crystals.forgotten.withheld_lately()
    return f"{count} {'text' if count == 1 else 'texts'} withheld: forgotten" if count else ""


def forget_answers(store: Store, dream: str) -> None:
    """Of what the models answered in this dream, which is over, keep what is not forgotten."""
    buried = store.crystals.forgotten.tombstones()
    if not buried:
        return
    connection = store.crystals.connection
    rows = connection.execute("SELECT key, reply FROM calls WHERE dream = ?", (dream,)).fetchall()
    with transaction(connection):
        for row in rows:
            answer = decode(Answer, row["reply"])
            text = _each_text(answer.text, buried.masked)
            if text != answer.text:
                kept = encode(replace(answer, text=text))
                connection.execute("UPDATE calls SET reply = ? WHERE key = ?", (kept, row["key"]))


def _each_text(answer: str, changed: Callable[[str], str]) -> str:
    """An answer with each of its texts changed; JSON stays JSON."""
    try:
        said = json.loads(answer)
    except (ValueError, RecursionError):
        return changed(answer)

    def walked(value: object) -> object:
        if isinstance(value, dict):
            return {changed(name): walked(one) for name, one in value.items()}
        if isinstance(value, list):
            return [walked(one) for one in value]
        return changed(value) if isinstance(value, str) else value

    new = walked(said)
    return answer if new == said else json.dumps(new, ensure_ascii=False)
