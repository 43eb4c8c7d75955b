"""Own answers: crystals that an earlier dreamd learnt from its own answers in transcripts are removed."""

import json
import sqlite3
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import partial

from daemon.ingest.formats.own_answers import is_own_answer, is_own_call
from daemon.upkeep.repair.jobs import Job
from daemon.workspace.stores import Store
from state.crystals.crystal import Kind, Origin
from state.trust import Trust

_BY_PLACE = """
    SELECT crystals.id, text, speaker, trust, kind, occurrences.session, occurrences.position
    FROM occurrences JOIN crystals ON crystals.key = occurrences.crystal
    WHERE origin = ? ORDER BY occurrences.session, occurrences.position
"""
_POINTED = "SELECT crystal FROM pointers UNION SELECT crystal FROM lines"


def own_answers(store: Store) -> Iterator[Job]:
    """Find crystals that are calls of dreamd's or its answers; those that MEMORY.md refers to stay."""
    found = _found(store.crystals.connection)
    if found:
        what = f"{len(found):,} crystals are dreamd's own answers, read back from transcripts"
        yield Job(
            "crystals", what, "they are taken out, so that searches find facts again", partial(_out, store, found)
        )


def _found(connection: sqlite3.Connection) -> list[str]:
    """Ids of the crystals that are dreamd's own wherever they occur."""
    places: dict[str, list[bool]] = defaultdict(list)
    session = ""
    calls: dict[str, deque[bool]] = defaultdict(
        deque
    )  # by tool: of each call without its answer yet, is it dreamd's?
    answered: tuple[str, int, bool] | None = None
    for row in connection.execute(_BY_PLACE, (Origin.SESSION.value,)):
        if row["session"] != session:
            session, answered = row["session"], None
            calls.clear()
        own = False
        if row["trust"] in (Trust.TOOL, Trust.WEB):
            place = (row["speaker"], row["position"])
            if answered is None or answered[:2] != place:  # a long answer is several crystals at one place
                waiting = calls[row["speaker"]]
                answered = (*place, waiting.popleft() if waiting else False)
            own = answered[2] or is_own_call(row["speaker"], None) or is_own_answer(row["text"])
        elif row["trust"] == Trust.AGENT and row["kind"] == Kind.EPISODE:
            tool, colon, argument = row["text"].partition(": ")
            if tool and " " not in tool:
                own = is_own_call(tool, argument if colon else None)
                calls[tool].append(own)
        places[row["id"]].append(own)
    pointed = {row["crystal"] for row in connection.execute(_POINTED)}
    return [id_ for id_, own in places.items() if all(own) and id_ not in pointed]


def _out(store: Store, ids: list[str]) -> tuple[str, ...]:
    gone = store.crystals.remove(ids)
    store.indexing.drop(store.crystals)
    connection = store.crystals.connection
    connection.execute("DELETE FROM evidence WHERE crystal IN (SELECT value FROM json_each(?))", (json.dumps(gone),))
    return (f"{len(gone):,} crystals",)
