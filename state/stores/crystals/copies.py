"""Copies: finds what a transcript repeats of another one, so that nothing in it counts as said again.

A fork names the session that it continues. It begins with that session's turns, which Codex gives new times: those
that a session of the family has at the same place are copies. A file without times of its own, such as a chat in
Markdown, shows only when it was written: what it shares with a file that has most of its texts is a copy. A copy has
the time of its original, whichever of the two is read first. What a file adds once it has been read is no copy.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from sqlite3 import Connection, Row

from state.crystals.crystal import Crystal, Origin, crystal_digest
from state.stores.database.moments import from_text, to_text
from state.trust import Trust

_LISTED = "IN (SELECT value FROM json_each(?))"
# At most so many files that share texts with a new one are compared with it.
_MOST_ALIKE = 64
_CARRIED = "json_extract(record, '$.carry')"
_CARRY = f"iif(json_valid({_CARRIED}), {_CARRIED}, '{{}}')"
_FORKS = f"""SELECT DISTINCT json_extract({_CARRY}, '$.kin') FROM watermarks
    WHERE json_array_length({_CARRY}, '$.kin') > 1"""
_UNDATED = f"SELECT 1 FROM watermarks WHERE json_extract({_CARRY}, '$.undated') LIMIT 1"
_IS_UNDATED = f"""SELECT 1 FROM occurrences JOIN watermarks USING (file)
    WHERE session = ? AND json_extract({_CARRY}, '$.undated') LIMIT 1"""
# Where one of these texts occurred, and when first: one row for each session that has it.
_ELSEWHERE = f"""SELECT c.digest, o.crystal, o.session, min(o.at) AS at, count(DISTINCT o.position) AS times
    FROM crystals c JOIN occurrences o ON o.crystal = c.key WHERE c.digest {_LISTED} GROUP BY o.crystal, o.session"""
_IN_FAMILY = f"""SELECT o.position, c.text, c.speaker, c.trust, c.heard, min(o.at) AS at
    FROM occurrences o JOIN crystals c ON c.key = o.crystal
    WHERE o.session {_LISTED} AND o.position <= ? GROUP BY o.position, o.crystal"""
_SAME = f"""SELECT min(o.at) FROM occurrences o WHERE o.session {_LISTED}
    AND o.position = mine.position AND o.crystal = mine.crystal"""
# The copied turns of a fork are those before its first one that no other session of the family has there.
_TAKE_FIRST_TIMES = f"""UPDATE occurrences AS mine SET at = ({_SAME}) WHERE session = ? AND position < (
    SELECT coalesce(min(position), 1 << 60) FROM occurrences mine WHERE session = ? AND ({_SAME}) IS NULL)
    AND at > ({_SAME})"""


class Copies:
    """The copies among the transcripts of one workspace, during one pass over them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @cached_property
    def _has_undated(self) -> bool:
        return self._connection.execute(_UNDATED).fetchone() is not None

    @cached_property
    def _forks(self) -> list[list[str]]:
        return [list(map(str, json.loads(kin))) for (kin,) in self._connection.execute(_FORKS)]

    def of_fork(self, crystals: Sequence[Crystal], kin: Sequence[str]) -> list[Crystal]:
        """Return the crystals of a session from its start; copies have time and speaker of their original.

        `kin` are the session and those it descends from.
        """
        if len(kin) < 2 or not crystals:
            return list(crystals)
        if list(kin) not in self._forks:
            self._forks.append(list(kin))
        others, last = self._family(kin) - {kin[0]}, crystals[-1].position
        rows = self._connection.execute(_IN_FAMILY, (json.dumps(sorted(others)), last))
        originals = {(row["position"], _digest(row["text"])): row for row in rows}
        found = list[Crystal]()
        for crystal in crystals:
            row = originals.get((crystal.position, _digest(crystal.text)))
            if row is None:
                break
            found.append(_as_said(crystal, row))
        return [*found, *crystals[len(found) :]]

    def settle_forks(self, kin: Sequence[str]) -> None:
        """Give the copies in all forks of a session's family the time of their original, in the transaction."""
        family = self._family(kin) if kin else set[str]()
        for fork in {one[0] for one in self._forks if one[0] in family}:
            others = json.dumps(sorted(family - {fork}))
            self._connection.execute(_TAKE_FIRST_TIMES, (others, fork, fork, others, others))

    def _family(self, kin: Sequence[str]) -> set[str]:
        family, size = set(kin), 0
        while size < len(family):
            size = len(family)
            family.update(one for fork in self._forks if not family.isdisjoint(fork) for one in fork)
        return family

    def of_file(self, crystals: Sequence[Crystal], undated: frozenset[int]) -> list[Crystal]:
        """Return the crystals of a file from its start, with copies dated as they were first said.

        A file is a copy of another one if most texts of the shorter one are in both. `undated` are the positions of
        its turns without a time of their own. Copies of it that were read before, and have no times either, are dated
        back in the caller's transaction.
        """
        self._has_undated = self._has_undated or bool(undated)
        if not self._has_undated:
            return list(crystals)
        mine = Counter(_digest(one.text) for one in crystals)
        rows = self._connection.execute(_ELSEWHERE, (json.dumps(sorted(mine)),)).fetchall()
        own, common = {one.session for one in crystals}, Counter(sorted(row["session"] for row in rows))
        nearest = [pair for pair in common.most_common(_MOST_ALIKE) if pair[0] not in own]
        like = {session for session, count in nearest if 2 * count > min(len(mine), self._size(session))}
        at, times = dict[str, datetime](), Counter[str]()
        for row in rows:
            if row["session"] in like | own:
                before = from_text(row["at"])
                at[row["digest"]] = min(before, at.get(row["digest"], before))
                times[row["digest"]] = max(times[row["digest"]], row["times"])
        found = list[Crystal]()
        for crystal in crystals:
            digest = _digest(crystal.text)
            times[digest] -= 1
            is_copy = crystal.position in undated and times[digest] >= 0
            first = min(at[digest], crystal.created_at) if is_copy else crystal.created_at
            found.append(replace(crystal, created_at=first))
        undated_like = {one for one in like if self._connection.execute(_IS_UNDATED, (one,)).fetchone()}
        self._date_back(found, [row for row in rows if row["session"] in undated_like])
        return found

    def _size(self, session: str) -> int:
        query = "SELECT count(DISTINCT crystal) FROM occurrences WHERE session = ?"
        return int(self._connection.execute(query, (session,)).fetchone()[0])

    def _date_back(self, crystals: Iterable[Crystal], rows: Iterable[Row]) -> None:
        first = dict[str, datetime]()
        for crystal in crystals:
            digest = _digest(crystal.text)
            first[digest] = min(crystal.created_at, first.get(digest, crystal.created_at))
        later = [
            (to_text(first[row["digest"]]), row["crystal"], row["session"])
            for row in rows
            if from_text(row["at"]) > first[row["digest"]]
        ]
        self._connection.executemany("UPDATE occurrences SET at = ? WHERE crystal = ? AND session = ?", later)


def _digest(text: str) -> str:
    return crystal_digest(Origin.SESSION, text)


def _as_said(crystal: Crystal, row: Row) -> Crystal:
    """Return a copy as its original: a fork for a subagent has the owner's turns as the agent's."""
    who = {"speaker": row["speaker"], "trust": Trust(row["trust"]), "heard": row["heard"]}
    return replace(crystal, created_at=min(from_text(row["at"]), crystal.created_at), **who)
