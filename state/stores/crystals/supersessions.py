"""Supersessions: which crystal gives the subject of which other one another value, as rows of state.db.

A pair is kept once, whoever found it. Which of both is current is told by when each was said last: who goes back to
an old value makes it current again. What the owner has taken back stays known, so that it is not found again.
"""

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from state.crystals.crystal import Origin
from state.crystals.duplicates import says_the_same
from state.crystals.supersession import Cause, Supersession, current_values
from state.document.operations import Birth, Death, Fate
from state.dream import RESTORE, REVIEW, Correction, Dream
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import from_text, optional_text, to_text
from state.text.identity import PERHAPS, UPDATE, compare, update
from state.text.sentences import statements_of
from state.text.words import content_terms
from state.trust import Trust

# So many rows of one subject, and of those that hang together with them, are looked at.
_MOST = 256
_LISTED = "SELECT value FROM json_each(:keys)"
_ROWS = "SELECT key FROM crystals WHERE id IN (SELECT value FROM json_each(?))"
# A hidden duplicate stands for the crystal that it became.
_PAIRS = f"""
SELECT * FROM (
    SELECT coalesce(a.merged_into, a.key) AS older, coalesce(b.merged_into, b.key) AS newer, sureness, s.trust, cause,
           version,
           (SELECT max(at) FROM occurrences WHERE crystal IN (a.key, a.merged_into) AND at < :before) AS older_at,
           (SELECT max(at) FROM occurrences WHERE crystal IN (b.key, b.merged_into) AND at < :before) AS newer_at
    FROM supersessions s JOIN crystals a ON a.key = s.older JOIN crystals b ON b.key = s.newer
    WHERE undone_at IS NULL
    AND (s.older IN ({_LISTED}) OR s.newer IN ({_LISTED}))
) WHERE older <> newer AND older_at IS NOT NULL AND newer_at IS NOT NULL
"""


# The crystals of a line that rests on one note: that note's, and the line's own.
_LINE_AND_NOTE = 2
# A revised line that keeps less of the words, and does not say the same, says something else.
_KEPT, _SAME = 0.5, 0.4
# Of the words of a text so many are in a line that says most of it.
_MOST_OF_IT = 2 / 3
_CERTAINLY = 1.0


@dataclass(frozen=True, slots=True)
class Values:
    """Crystals that are values of the same subjects, by their rows.

    `pairs` stand in the order in which their newer ones were said; `current` names for each row that is surely
    superseded the one that holds now.
    """

    pairs: tuple[Supersession, ...] = ()
    current: dict[int, int] = field(default_factory=dict)


class Supersessions:
    """The supersessions of one workspace."""

    def __init__(self, crystals: Crystals) -> None:
        self._crystals = crystals
        self._connection = crystals.connection

    def record(self, pairs: Iterable[Supersession]) -> int:
        """Write these pairs, those that are there already excepted; returns how many. In the caller's transaction.

        The owner's word is written also where it was taken back before.
        """
        written = 0
        for pair in pairs:
            if pair.older == pair.newer:
                continue
            values = (pair.older, pair.newer, pair.sureness, pair.trust.value, pair.cause.value, pair.version)
            written += self._connection.execute(
                "INSERT INTO supersessions (older, newer, sureness, trust, cause, version, at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (older, newer) DO UPDATE SET"
                " sureness = excluded.sureness, cause = excluded.cause, version = excluded.version,"
                " trust = excluded.trust, undone_at = NULL"
                " WHERE excluded.cause = 'owner' OR (undone_at IS NULL AND excluded.sureness > sureness)",
                (*values, to_text(pair.at)),
            ).rowcount
        return written

    def undo(self, older: int, newer: int, now: datetime) -> bool:
        """Take a pair back, whichever of both is current; it is not found again. Whether there was one."""
        return bool(
            self._connection.execute(
                "UPDATE supersessions SET undone_at = ? WHERE undone_at IS NULL"
                " AND ((older = ? AND newer = ?) OR (older = ? AND newer = ?))",
                (to_text(now), older, newer, newer, older),
            ).rowcount
        )

    def learn(self, dream: Dream) -> int:
        """Write what a dream, or the owner's hand before it, put in the place of what; returns how many pairs.

        A restore takes back what was found about the crystals on which the lines rest that it brings back, and turns
        around what the owner had put in their place. In the caller's transaction, after the lines are written.
        """
        if dream.cause == RESTORE:
            return self._restore(dream)
        births = {birth.id: birth for birth in dream.births}
        replaced = [
            (death, births[death.successor])
            for death in dream.deaths
            if death.successor in births and death.fate in (Fate.REVISED, Fate.MERGED)
        ]
        if dream.cause == REVIEW:
            for death, birth in replaced:
                self._take_back(death, birth)
        deaths = {death.id: death for death in dream.deaths}
        found = [self._replacements(death, birth, dream.number) for death, birth in replaced]
        found += [self._corrected(deaths[one.line], one, dream) for one in dream.corrections if one.line in deaths]
        return sum(map(self.record, found))

    def _restore(self, dream: Dream) -> int:
        """What the restored lines rest on is superseded no more; what the owner had said in their place is."""
        kept = json.dumps([crystal for birth in dream.births for crystal in birth.evidence])
        texts = json.dumps([birth.text for birth in dream.births])
        mine = self._connection.execute(
            f"""SELECT older, newer FROM supersessions JOIN crystals ON key = older
                WHERE cause = ? AND version IS NOT NULL AND undone_at IS NULL
                AND (older IN ({_ROWS}) OR text IN (SELECT value FROM json_each(?)))""",
            (Cause.OWNER.value, kept, texts),
        ).fetchall()
        statement = f"DELETE FROM supersessions WHERE cause <> ? AND older IN ({_ROWS})"
        self._connection.execute(statement, (Cause.OWNER.value, kept))
        for row in mine:
            pair = (row["older"], row["newer"])
            self._connection.execute("DELETE FROM supersessions WHERE older = ? AND newer = ?", pair)
        return self.record(
            Supersession(row["newer"], row["older"], _CERTAINLY, dream.at, Trust.OWNER, Cause.OWNER, dream.number)
            for row in mine
        )

    def _corrected(self, death: Death, correction: Correction, dream: Dream) -> list[Supersession]:
        """What a line rested on that says the same as it did, with what the owner says instead."""
        rows = self._connection.execute("SELECT crystal FROM evidence WHERE line = ?", (death.id,)).fetchall()
        rested_on = self._crystals.keys([death.crystal, *(row["crystal"] for row in rows)])
        newer = self._crystals.keys([correction.crystal]).get(correction.crystal)
        crystals = self._crystals.by_keys(rested_on.values())
        alone = len(crystals) <= _LINE_AND_NOTE
        return [
            Supersession(key, newer, _CERTAINLY, dream.at, Trust.OWNER, Cause.OWNER, dream.number)
            for key, before in crystals.items()
            if newer is not None and _says(death.text, before.text, alone=alone)
        ]

    def _take_back(self, death: Death, birth: Birth) -> None:
        """Forget that the text that its owner puts back was superseded by what the line rested on."""
        statement = (
            "DELETE FROM supersessions WHERE cause <> ? AND older IN (SELECT key FROM crystals WHERE text = ?)"
            " AND newer IN (SELECT key FROM crystals JOIN evidence ON crystal = id WHERE line = ?)"
        )
        self._connection.execute(statement, (Cause.OWNER.value, birth.text, death.id))

    def _replacements(self, death: Death, birth: Birth, version: int) -> list[Supersession]:
        """The crystals on which a line rested, with the latest on which the line in its place rests."""
        rows = self._connection.execute("SELECT crystal FROM evidence WHERE line = ?", (death.id,)).fetchall()
        rested_on = self._crystals.keys([death.crystal, *(row["crystal"] for row in rows)])
        rests_on = self._crystals.keys(birth.evidence)
        crystals = self._crystals.by_keys({*rested_on.values(), *rests_on.values()})
        said = self._crystals.said_last(crystals)
        new = [key for key in set(rests_on.values()) - set(rested_on.values()) if key in crystals]
        if not new:
            return []
        newest = max(new, key=lambda key: (said[key], key))
        after = crystals[newest]
        cause = Cause.DREAM if birth.evidence and after.origin is not Origin.SEED else Cause.OWNER

        def sureness(text: str) -> float:
            return max(update(text, birth.text), update(text, after.text))

        lost = death.fate is Fate.REVISED and _is_lost(death.text, birth.text)
        if sureness(death.text) < UPDATE and not lost:
            return []  # the new line says more, or the same in other words
        alone = lost and len(set(rested_on.values())) <= _LINE_AND_NOTE
        return [
            Supersession(key, newest, max(UPDATE, sureness(before.text)), said[newest], after.trust, cause, version)
            for key in set(rested_on.values())
            if (before := crystals.get(key)) is not None
            if before.trust.rank <= after.trust.rank and said[key] <= said[newest]
            if before.text == death.text or alone or sureness(before.text) >= PERHAPS
        ]

    def superseded(self) -> frozenset[int]:
        """The rows whose value surely holds no longer."""
        rows = self._connection.execute(
            "SELECT key, coalesce(merged_into, key) FROM crystals WHERE key IN"
            " (SELECT older FROM supersessions WHERE undone_at IS NULL UNION"
            " SELECT newer FROM supersessions WHERE undone_at IS NULL)"
        )
        return frozenset(self.among({int(key) for row in rows for key in row}).current)

    def taken_back(self, key: int) -> list[tuple[Supersession, datetime]]:
        """The pairs of this row that the owner has taken back, and when, the latest first."""
        rows = self._connection.execute(
            "SELECT * FROM supersessions WHERE (older = ?1 OR newer = ?1) AND undone_at IS NOT NULL"
            " ORDER BY undone_at DESC, older, newer LIMIT ?2",
            (key, _MOST),
        )
        return [(_pair(row), from_text(row["undone_at"])) for row in rows]

    def among(self, keys: Iterable[int], until: datetime | None = None) -> Values:
        """What is known of these rows and of those that hang together with them, as it was before `until`."""
        pairs: dict[tuple[int, int], Supersession] = {}
        said: dict[int, str] = {}
        seen, waiting = set[int](), set(keys)
        before = optional_text(until) or "~"  # sorts after every moment
        while waiting and len(seen) <= _MOST:
            listed = json.dumps(sorted(waiting))
            seen |= waiting
            waiting = set()
            for row in self._connection.execute(_PAIRS, {"keys": listed, "before": before}):
                trust, cause = Trust(row["trust"]), Cause(row["cause"])
                said_of = [(row["older_at"], int(row["older"])), (row["newer_at"], int(row["newer"]))]
                said |= {key: moment for moment, key in said_of}
                if said_of[0][0] > said_of[1][0] and cause is not Cause.OWNER:
                    said_of.reverse()  # the older one was said once more
                (_, older), (at, newer) = said_of
                pair = Supersession(older, newer, row["sureness"], from_text(at), trust, cause, row["version"])
                pairs[older, newer] = max(pair, pairs.get((older, newer), pair), key=lambda one: one.sureness)
                waiting |= {older, newer} - seen
        # Of two crystals the owner's word counts, whatever a comparison finds of them later.
        owners = {(pair.newer, pair.older) for pair in pairs.values() if pair.cause is Cause.OWNER}
        left = (pair for ends, pair in pairs.items() if pair.cause is Cause.OWNER or ends not in owners)
        ordered = tuple(sorted(left, key=lambda pair: (pair.at, pair.newer, pair.older)))
        sure = ((pair.older, pair.newer) for pair in ordered if pair.sureness >= UPDATE)
        return Values(ordered, current_values(sure, said))


def _pair(row: sqlite3.Row) -> Supersession:
    """A pair as it was written."""
    return Supersession(
        row["older"],
        row["newer"],
        row["sureness"],
        from_text(row["at"]),
        Trust(row["trust"]),
        Cause(row["cause"]),
        row["version"],
    )


def _says(line: str, text: str, *, alone: bool) -> bool:
    """Whether a line says what a text says, or most of it, or rests `alone` on the one statement that it is."""
    words = content_terms(text)
    covered = len(words & content_terms(line)) >= _MOST_OF_IT * len(words)
    one_statement = sum(bool(piece.strip()) for piece in statements_of(text)) == 1
    return covered or says_the_same(line, text) or (alone and one_statement)


def _is_lost(old: str, new: str) -> bool:
    """Whether a line that takes another one's place does not say what that one said."""
    words = content_terms(old)
    kept = len(words & content_terms(new)) / max(1, len(words))
    return bool(words) and kept < _KEPT and compare(old, new).same < _SAME
