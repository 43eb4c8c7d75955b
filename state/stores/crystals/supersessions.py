"""Supersessions: which crystal gives the subject of which other one another value, as rows of state.db.

A pair is kept once, whoever found it. Which of both is current is told by when each was said last: who goes back to
an old value makes it current again. What the owner has taken back stays known, so that it is not found again.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from state.changes.change import Change, CurrentLine
from state.crystals.crystal import Origin
from state.crystals.supersession import Cause, Supersession, current_values
from state.document.document import SectionName
from state.document.operations import Why
from state.dream import RESTORE, REVIEW, Correction, Dream
from state.signals.hormones import is_hormone_event
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import from_text, optional_text
from state.stores.database.tables import SupersessionRow
from state.text.words import normalise
from state.trust import Trust

# So many rows of one subject, and of those that hang together with them, are looked at.
_MOST = 256
_LISTED = "SELECT value FROM json_each(:keys)"
_ROWS = "SELECT key FROM crystals WHERE id IN (SELECT value FROM json_each(?))"
# A hidden duplicate stands for the crystal that it became.
_PAIRS = f"""
SELECT * FROM (
    SELECT coalesce(a.merged_into, a.key) AS older, coalesce(b.merged_into, b.key) AS newer, s.trust, cause, version,
           (SELECT max(at) FROM occurrences WHERE crystal IN (a.key, a.merged_into) AND at < :before) AS older_at,
           (SELECT max(at) FROM occurrences WHERE crystal IN (b.key, b.merged_into) AND at < :before) AS newer_at
    FROM supersessions s JOIN crystals a ON a.key = s.older JOIN crystals b ON b.key = s.newer
    WHERE undone_at IS NULL
    AND (s.older IN ({_LISTED}) OR s.newer IN ({_LISTED}))
) WHERE older <> newer AND older_at IS NOT NULL AND newer_at IS NOT NULL
"""


# The author of a dream without a model.
_CODE = "extractive"


@dataclass(frozen=True, slots=True)
class Values:
    """Crystals that are values of the same subjects, by their rows.

    `pairs` stand in the order in which their newer ones were said; `current` names for each row that is superseded
    the one that holds now.
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
            then = (
                "ON CONFLICT (older, newer) DO UPDATE SET cause = excluded.cause, version = excluded.version,"
                " trust = excluded.trust, undone_at = NULL WHERE excluded.cause = 'owner'"
            )
            written += SupersessionRow.table.add(self._connection, pair, "INSERT", then).rowcount
        return written

    def undo(self, older: int, newer: int, now: datetime) -> bool:
        """Take a pair back, whichever of both is current; it is not found again. Whether there was one."""
        which = "undone_at IS NULL AND ((older = ? AND newer = ?) OR (older = ? AND newer = ?))"
        values = (older, newer, newer, older)
        return SupersessionRow.table.change(self._connection, which, *values, undone_at=now) > 0

    def learn(self, dream: Dream) -> int:
        """Write what a model's operation, or the owner, put in the place of what; returns how many pairs.

        A restore takes back what was said about the crystals on which the lines rest that it brings back, and turns
        around what the owner had put in their place. In the caller's transaction, after the lines are written.
        """
        if dream.cause == RESTORE:
            return self._restore(dream)
        if dream.cause == REVIEW:
            for change in dream.changes:
                if change.why is Why.UNDONE and change.come:
                    self._take_back(change)
        left = {line.id: line for line, _ in dream.left}
        found = [
            self._replacements(line, change, dream)
            for change in dream.changes
            if change.why is Why.REVISED and change.come and change.come[0].section is not SectionName.POINTERS
            for line in change.gone
        ]
        found += [self._corrected(left[one.line], one, dream) for one in dream.corrections if one.line in left]
        return sum(map(self.record, found))

    def _restore(self, dream: Dream) -> int:
        """Take back what superseded what the restored lines rest on; turn around what the owner had said instead."""
        kept = json.dumps([crystal for change in dream.changes for crystal in change.evidence])
        texts = json.dumps([line.text for line in dream.came])
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
            Supersession(row["newer"], row["older"], dream.at, Trust.OWNER, Cause.OWNER, dream.number) for row in mine
        )

    def amend(self, dream: Dream) -> None:
        """Learn anew what follows from a dream of which lines gave way. In the caller's transaction."""
        self._connection.execute("DELETE FROM supersessions WHERE version = ?", (dream.number,))
        self.learn(dream)

    def _corrected(self, left: CurrentLine, correction: Correction, dream: Dream) -> list[Supersession]:
        """Return what said what a line said, with what the owner says instead."""
        newer = self._crystals.keys([correction.crystal]).get(correction.crystal)
        return [
            Supersession(older, newer, dream.at, Trust.OWNER, Cause.OWNER, dream.number)
            for older in self._said_by(left)
            if newer is not None
        ]

    def _said_by(self, left: CurrentLine) -> list[int]:
        """Return the rows that say what a line said: its own, and what it rested on if that is one, or has its words.

        Of several crystals each may have said something else, and one that has the line's words and more says more.
        """
        rows = self._connection.execute("SELECT crystal FROM evidence WHERE line = ?", (left.id,)).fetchall()
        keys = self._crystals.keys([left.crystal, *(row["crystal"] for row in rows)])
        own = keys.pop(left.crystal, None)
        line = normalise(left.text)
        texts = {key: normalise(one.text) for key, one in self._crystals.by_keys(keys.values()).items()}
        said = [key for key, text in texts.items() if text == line or (len(texts) == 1 and line not in text)]
        return said if own is None else [own, *said]

    def _take_back(self, change: Change) -> None:
        """Forget that the texts that their owner puts back were superseded by what the line rested on."""
        statement = (
            "DELETE FROM supersessions WHERE cause <> ? AND older IN (SELECT key FROM crystals WHERE text = ?)"
            " AND newer IN (SELECT key FROM crystals JOIN evidence ON crystal = id WHERE line = ?)"
        )
        for line in change.gone:
            for back in change.come:
                self._connection.execute(statement, (Cause.OWNER.value, back.text, line.id))

    def _replacements(self, left: CurrentLine, change: Change, dream: Dream) -> list[Supersession]:
        """Return what said what a line said, with the latest of the news on which the line in its place rests.

        A line that still has the old one's words says more, and supersedes nothing; an event of a hormone never does.
        """
        older = self._said_by(left)
        rests_on = self._crystals.keys(change.evidence)
        crystals = self._crystals.by_keys({*older, *rests_on.values()})
        said = self._crystals.said_last(crystals)
        new = set(rests_on.values()) - set(older)
        new = {key for key in new if key in crystals and not is_hormone_event(crystals[key].text)}
        if not new or normalise(left.text) in normalise(change.come[0].text):
            return []
        newest = max(new, key=lambda key: (said[key], key))
        after = crystals[newest]
        # Without a model a line is replaced only where a note names it.
        cause = Cause.NOTE if dream.author == _CODE else Cause.DREAM
        cause = Cause.OWNER if after.origin is Origin.SEED else cause
        return [
            Supersession(key, newest, said[newest], after.trust, cause, dream.number)
            for key in older
            if key in crystals and crystals[key].trust.rank <= after.trust.rank and said[key] <= said[newest]
        ]

    def superseded(self) -> frozenset[int]:
        """Return the rows whose value no longer holds."""
        rows = self._connection.execute(
            "SELECT key, coalesce(merged_into, key) FROM crystals WHERE key IN"
            " (SELECT older FROM supersessions WHERE undone_at IS NULL UNION"
            " SELECT newer FROM supersessions WHERE undone_at IS NULL)"
        )
        return frozenset(self.among({int(key) for row in rows for key in row}).current)

    def taken_back(self, key: int) -> list[tuple[Supersession, datetime]]:
        """Return the pairs of this row that the owner has taken back, and when, the latest first."""
        rows = self._connection.execute(
            "SELECT * FROM supersessions WHERE (older = ?1 OR newer = ?1) AND undone_at IS NOT NULL"
            " ORDER BY undone_at DESC, older, newer LIMIT ?2",
            (key, _MOST),
        )
        return [(SupersessionRow.table.value(Supersession, row), from_text(row["undone_at"])) for row in rows]

    def among(self, keys: Iterable[int], until: datetime | None = None) -> Values:
        """Return what is known of these rows and of those connected with them, as it was before `until`."""
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
                if cause is Cause.OWNER or (older, newer) not in pairs:
                    pairs[older, newer] = Supersession(older, newer, from_text(at), trust, cause, row["version"])
                waiting |= {older, newer} - seen
        # Of two crystals the owner's word counts, whatever else says of them.
        owners = {(pair.newer, pair.older) for pair in pairs.values() if pair.cause is Cause.OWNER}
        left = (pair for ends, pair in pairs.items() if pair.cause is Cause.OWNER or ends not in owners)
        ordered = tuple(sorted(left, key=lambda pair: (pair.at, pair.newer, pair.older)))
        return Values(ordered, current_values(((pair.older, pair.newer) for pair in ordered), said))
