"""Supersessions: which crystals hold a value that a newer crystal replaces, as rows of state.db.

Each pair is stored once, whoever found it. Of the two, the one said last is current: going back to an old value makes
it current again. Pairs that the owner took back stay on record, so that they are not found again.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product

from state.changes.change import Change, CurrentLine
from state.crystals.crystal import Origin
from state.crystals.supersession import Cause, Supersession, current_values
from state.document.operations import Why
from state.document.sections import SectionName
from state.dream import RESTORE, REVIEW, Dream
from state.signals.hormones import is_hormone_event
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import from_text, optional_text
from state.stores.database.tables import SupersessionRow
from state.text.words import normalise
from state.trust import Trust

# At most this many rows connected to a subject are read.
_MOST = 256
_LISTED = "IN (SELECT value FROM json_each(?))"
_KEYS = "IN (SELECT value FROM json_each(:keys))"
# Hidden duplicates are replaced by their canonical crystal.
_PAIRS = f"""
SELECT * FROM (
    SELECT coalesce(a.merged_into, a.key) AS older, coalesce(b.merged_into, b.key) AS newer, s.trust, cause, version,
           (SELECT max(at) FROM occurrences WHERE crystal IN (a.key, a.merged_into) AND at < :before) AS older_at,
           (SELECT max(at) FROM occurrences WHERE crystal IN (b.key, b.merged_into) AND at < :before) AS newer_at
    FROM supersessions s JOIN crystals a ON a.key = s.older JOIN crystals b ON b.key = s.newer
    WHERE undone_at IS NULL
    AND (s.older {_KEYS} OR s.newer {_KEYS})
) WHERE older <> newer AND older_at IS NOT NULL AND newer_at IS NOT NULL
"""


# The author of a dream that ran without a model.
_CODE = "extractive"


@dataclass(frozen=True, slots=True)
class Values:
    """Crystals that are values of the same subjects, by their rows.

    `pairs` are ordered by when their newer crystal was said; `current` maps each superseded row to the current one.
    """

    pairs: tuple[Supersession, ...] = ()
    current: dict[int, int] = field(default_factory=dict)


class Supersessions:
    """The supersessions of one workspace."""

    def __init__(self, crystals: Crystals) -> None:
        self._crystals = crystals
        self._connection = crystals.connection

    def record(self, pairs: Iterable[Supersession]) -> int:
        """Write the pairs that are not stored yet; return how many were written. In the caller's transaction.

        A pair by the owner's word is written even if it exists or was taken back.
        """
        then = (
            "ON CONFLICT (older, newer) DO UPDATE SET cause = excluded.cause, version = excluded.version,"
            " trust = excluded.trust, undone_at = NULL WHERE excluded.cause = 'owner'"
        )
        table, connection = SupersessionRow.table, self._connection
        return sum(table.add(connection, pair, "INSERT", then).rowcount for pair in pairs if pair.older != pair.newer)

    def undo(self, older: int, newer: int, now: datetime) -> bool:
        """Take a pair back for good, in either direction; return whether there was one."""
        which = "undone_at IS NULL AND ((older = ? AND newer = ?) OR (older = ? AND newer = ?))"
        values = (older, newer, newer, older)
        return SupersessionRow.table.change(self._connection, which, *values, undone_at=now) > 0

    def learn(self, dream: Dream) -> int:
        """Record what a model's operation or the owner replaced by what; return how many pairs were written.

        A restore removes the pairs that supersede the evidence of restored lines, and reverses the owner's pairs.
        In the caller's transaction, after the lines are written.
        """
        if dream.cause == RESTORE:
            return self.record(self._turned_around(dream))
        if dream.cause == REVIEW:
            self._take_back(change for change in dream.changes if change.why is Why.UNDONE)
        found = 0
        for change in dream.changes:
            if change.why is Why.REVISED and change.come and change.come[0].section is not SectionName.POINTERS:
                found += sum(self.record(self._replaced(line, change, dream)) for line in change.gone)
        left = {line.id: line for line, _ in dream.left}
        for one in dream.corrections:  # the owner's new text supersedes every crystal that said the old line
            for newer in self._crystals.keys([one.crystal]).values() if one.line in left else ():
                said = self.said_by(left[one.line])
                owners = (Trust.OWNER, Cause.OWNER, dream.number)
                found += self.record(Supersession(older, newer, dream.at, *owners) for older in said)
        return found

    def said_by(self, left: CurrentLine) -> list[int]:
        """Return the rows that state what a line stated: its own crystal, and evidence with its words.

        A single piece of evidence counts unless it holds more than the line; of several, each may say something else.
        """
        rows = self._connection.execute("SELECT crystal FROM evidence WHERE line = ?", (left.id,)).fetchall()
        keys = self._crystals.keys([left.crystal, *(row["crystal"] for row in rows)])
        own = keys.pop(left.crystal, None)
        line = normalise(left.text)
        texts = {key: normalise(one.text) for key, one in self._crystals.by_keys(keys.values()).items()}
        said = [key for key, text in texts.items() if text == line or (len(texts) == 1 and line not in text)]
        return said if own is None else [own, *said]

    def amend(self, dream: Dream) -> None:
        """Replace the pairs learnt from a dream by what follows from it now. In the caller's transaction."""
        SupersessionRow.table.delete(self._connection, "version = ?", dream.number)
        self.learn(dream)

    def _turned_around(self, dream: Dream) -> list[Supersession]:
        """Delete the pairs that superseded the restored lines' evidence; return the owner's ones reversed."""
        kept = json.dumps([crystal for change in dream.changes for crystal in change.evidence])
        texts = json.dumps([line.text for line in dream.came])
        mine = self._connection.execute(
            f"""DELETE FROM supersessions WHERE cause = ? AND version IS NOT NULL AND undone_at IS NULL AND older IN
                (SELECT key FROM crystals WHERE id {_LISTED} OR text {_LISTED}) RETURNING older, newer""",
            (Cause.OWNER.value, kept, texts),
        ).fetchall()
        others = f"cause <> ? AND older IN (SELECT key FROM crystals WHERE id {_LISTED})"
        SupersessionRow.table.delete(self._connection, others, Cause.OWNER.value, kept)
        owners = (dream.at, Trust.OWNER, Cause.OWNER, dream.number)
        return [Supersession(row["newer"], row["older"], *owners) for row in mine]

    def _take_back(self, undone: Iterable[Change]) -> None:
        """Delete the pairs by which an undone line's evidence superseded the texts that the owner puts back."""
        which = (
            "cause <> ? AND older IN (SELECT key FROM crystals WHERE text = ?)"
            " AND newer IN (SELECT key FROM crystals JOIN evidence ON crystal = id WHERE line = ?)"
        )
        for change in undone:
            for line, back in product(change.gone, change.come):
                SupersessionRow.table.delete(self._connection, which, Cause.OWNER.value, back.text, line.id)

    def _replaced(self, left: CurrentLine, change: Change, dream: Dream) -> list[Supersession]:
        """Pair the crystals that stated an old line with the latest new evidence of the line that replaced it.

        A new line that contains the old one's words adds to it and supersedes nothing; nor do hormone events.
        """
        older, rests_on = self.said_by(left), self._crystals.keys(change.evidence).values()
        crystals = self._crystals.by_keys({*older, *rests_on})
        said = self._crystals.said_last(crystals)
        new = (crystals.keys() & rests_on) - {*older}
        new = {key for key in new if not is_hormone_event(crystals[key].text)}
        if not new or normalise(left.text) in normalise(change.come[0].text):
            return []
        newest = max(new, key=lambda key: (said[key], key))
        trust = crystals[newest].trust
        # Without a model, a line is replaced only if a note names it.
        cause = Cause.NOTE if dream.author == _CODE else Cause.DREAM
        cause = Cause.OWNER if crystals[newest].origin is Origin.SEED else cause
        return [
            Supersession(key, newest, said[newest], trust, cause, dream.number)
            for key in older
            if key in crystals and crystals[key].trust.rank <= trust.rank and said[key] <= said[newest]
        ]

    def superseded(self) -> frozenset[int]:
        """Return the rows whose value no longer holds."""
        ends = "SELECT older FROM supersessions WHERE undone_at IS NULL"
        rows = self._connection.execute(
            f"SELECT key, coalesce(merged_into, key) FROM crystals WHERE key IN ({ends} UNION"
            f" {ends.replace('older', 'newer')})"
        )
        return frozenset(self.among({int(key) for row in rows for key in row}).current)

    def taken_back(self, key: int) -> list[tuple[Supersession, datetime]]:
        """Return the pairs of this row that the owner took back, with the time of each, latest first."""
        rows = self._connection.execute(
            "SELECT * FROM supersessions WHERE (older = ?1 OR newer = ?1) AND undone_at IS NOT NULL"
            " ORDER BY undone_at DESC, older, newer LIMIT ?2",
            (key, _MOST),
        )
        return [(SupersessionRow.table.value(Supersession, row), from_text(row["undone_at"])) for row in rows]

    def among(self, keys: Iterable[int], until: datetime | None = None) -> Values:
        """Return the pairs among these rows and all rows connected to them, as of `until`."""
        pairs: dict[tuple[int, int], Supersession] = {}
        said: dict[int, str] = {}
        seen, waiting = set[int](), set(keys)
        before = optional_text(until) or "~"  # "~" sorts after every timestamp
        while waiting and len(seen) <= _MOST:
            found = self._connection.execute(
                _PAIRS, {"keys": json.dumps(sorted(waiting)), "before": before}
            ).fetchall()
            seen |= waiting
            waiting = {int(row[end]) for row in found for end in ("older", "newer")} - seen
            for row in found:
                cause, ends = Cause(row["cause"]), [(row["older_at"], row["older"]), (row["newer_at"], row["newer"])]
                said |= {key: moment for moment, key in ends}
                if ends[0][0] > ends[1][0] and cause is not Cause.OWNER:
                    ends.reverse()  # the older one was said again later
                (_, older), (at, newer) = ends
                if cause is Cause.OWNER or (older, newer) not in pairs:
                    one = Supersession(older, newer, from_text(at), Trust(row["trust"]), cause, row["version"])
                    pairs[older, newer] = one
        # Between two crystals, the owner's word overrules every other pair.
        owners = {(pair.newer, pair.older) for pair in pairs.values() if pair.cause is Cause.OWNER}
        left = (pair for ends, pair in pairs.items() if pair.cause is Cause.OWNER or ends not in owners)
        ordered = tuple(sorted(left, key=lambda pair: (pair.at, pair.newer, pair.older)))
        return Values(ordered, current_values(((pair.older, pair.newer) for pair in ordered), said))
