"""Supersessions: which crystals hold a value that a newer crystal replaces, as rows of state.db.

Each pair is stored once, whoever found it. Of the two, the one said last is current: going back to an old value makes
it current again. Pairs that the owner took back stay on record, so that they are not found again.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from state.changes.change import REWORDS, CurrentLine
from state.changes.support import kinds_unsaid
from state.crystals.crystal import Crystal, Origin
from state.crystals.supersession import Cause, Supersession, current_values, no_longer_said
from state.document.operations import Why
from state.document.sections import SectionName
from state.dream import OWNERS_EDITS, RESTORE, UNDO, Correction, Dream
from state.signals.hormones import is_hormone_event
from state.stores.crystals.beneath import RETOLD
from state.stores.crystals.crystals import Crystals
from state.stores.database.moments import from_text, optional_text
from state.stores.database.tables import SupersessionRow
from state.text.words import covers
from state.trust import Trust

# Later than every version.
_LATEST = 1 << 40
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
_EXTRACTIVE = "extractive"


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

        A restore or undo removes the pairs that supersede the evidence of lines that come back, and reverses the
        owner's pairs. What the owner calls wrong supersedes nothing but what they name.
        In the caller's transaction, after the lines are written.
        """
        found = self.record([*self._uncorrected(dream), *self._corrected(dream)])
        if dream.cause in (RESTORE, UNDO):
            return found + self.record(self._turned_around(dream))
        last = _last_wordings(dream)
        for change in () if dream.corrected else dream.changes:
            is_reworded = change.why in (Why.REVISED, Why.MERGED) and bool(change.come)
            if is_reworded and change.come[0].section is not SectionName.POINTERS:
                for line in change.gone:
                    found += self.record(self._replaced(line, last[line.id], change.gone, dream))
        return found

    def _corrected(self, dream: Dream) -> Iterator[Supersession]:
        """Yield the pairs of what the owner calls wrong with what is right."""
        left = {line.id for line, _ in dream.left}
        for one in (each for corrected in dream.corrected for each in corrected.corrections):
            if not one.line or one.line in left:
                yield from self._turned(one, dream)

    def _uncorrected(self, dream: Dream) -> Iterator[Supersession]:
        """Yield pairs by which a crystal that was made for a correction, which is taken back, holds no longer."""
        for one in (each for corrected in dream.uncorrected for each in corrected.corrections):
            pairs = self._turned(one, dream)
            yield from (replace(pair, older=pair.newer, newer=pair.older) for pair in pairs if one.is_new)

    def _turned(self, one: Correction, dream: Dream) -> list[Supersession]:
        """Delete the owner's pairs of this correction in either direction; return what is right over what is not."""
        wrong, right = sorted(self._crystals.keys(one.wrong).values()), self._crystals.keys([one.crystal]).values()
        pairs = [(older, newer) for newer in right for older in wrong if older != newer]
        which = "cause = ? AND ((older = ? AND newer = ?) OR (older = ? AND newer = ?))"
        for older, newer in pairs:
            SupersessionRow.table.delete(self._connection, which, Cause.OWNER.value, older, newer, newer, older)
        return [Supersession(*pair, dream.at, Trust.OWNER, Cause.OWNER, dream.number) for pair in pairs]

    def said_by(self, left: CurrentLine, new: str = "") -> list[int]:
        """Return the rows that state what a line stated and nothing else: its wording, and notes that it retold.

        A note on which a standing line rests that is not `new`, in its place, says more than this line, and so does a
        note of which the line said only a part.
        """
        rows = self._connection.execute(
            "SELECT DISTINCT crystal FROM evidence e WHERE line = ?1 AND NOT EXISTS (SELECT 1 FROM evidence o"
            " JOIN lines ON id = o.line WHERE o.crystal = e.crystal AND o.line NOT IN (?1, ?2) AND died_in IS NULL)",
            (left.id, new),
        ).fetchall()
        own = self._crystals.keys([left.crystal])
        keys = set(self._crystals.keys(row["crystal"] for row in rows).values()).difference(own.values())
        retold = self._crystals.by_keys(keys).items()
        return [*own.values(), *(key for key, one in retold if covers(left.text, one.text, RETOLD))]

    def amend(self, dream: Dream) -> None:
        """Replace the pairs learnt from a dream by what follows from it now. In the caller's transaction."""
        SupersessionRow.table.delete(self._connection, "version = ?", dream.number)
        self.learn(dream)

    def _turned_around(self, dream: Dream) -> list[Supersession]:
        """Delete the pairs that superseded restored lines and their evidence; return the owner's ones reversed.

        What was superseded before the versions that are taken back stays so.
        """
        kept = json.dumps([*(one for change in dream.changes for one in change.evidence), *_wordings_of(dream.came)])
        mine = self._connection.execute(
            f"""DELETE FROM supersessions WHERE cause = ? AND version >= ? AND version < ? AND undone_at IS NULL
                AND older IN (SELECT key FROM crystals WHERE id {_LISTED}) RETURNING older, newer""",
            (Cause.OWNER.value, dream.since, dream.number, kept),
        ).fetchall()
        unversioned = 0 if dream.uncorrected else _LATEST
        others = (
            f"cause <> ? AND coalesce(version, {unversioned}) >= ? AND older IN"
            f" (SELECT key FROM crystals WHERE id {_LISTED})"
        )
        SupersessionRow.table.delete(self._connection, others, Cause.OWNER.value, dream.since, kept)
        owners = (dream.at, Trust.OWNER, Cause.OWNER, dream.number)
        return [Supersession(row["newer"], row["older"], *owners) for row in mine]

    def _replaced(
        self, left: CurrentLine, new: CurrentLine, gone: Sequence[CurrentLine], dream: Dream
    ) -> list[Supersession]:
        """Pair what stated an old line with the wording that replaced it, if new evidence says that it changed.

        A new line that has all of the old one's words adds to it and supersedes nothing; nor do hormone events. One
        in the place of several lines (`gone`) supersedes those of which it gives another value.
        """
        rows = self._connection.execute(
            "SELECT DISTINCT crystal FROM evidence WHERE line = ? AND crystal NOT IN"
            f" (SELECT crystal FROM evidence WHERE line {_LISTED})",
            (new.id, json.dumps([line.id for line in gone])),
        )
        cited = self._crystals.by_keys(self._crystals.keys(row["crystal"] for row in rows).values())
        fresh = [key for key, one in cited.items() if not is_hormone_event(one.text)]
        if not fresh or covers(new.text, left.text):
            return []
        older, newest = self.said_by(left, new.id), self._crystals.keys([new.crystal])
        said, crystals = (
            self._crystals.said_last([*fresh, *older]),
            self._crystals.by_keys({*older, *newest.values()}),
        )
        at, day = max(said[key] for key in fresh), dream.at.date()
        brought = kinds_unsaid(new.text, [line.text for line in gone], day)
        # Without a model, a line is replaced only if a note names it.
        cause = Cause.NOTE if dream.author == _EXTRACTIVE else Cause.DREAM
        cause = Cause.OWNER if dream.cause in OWNERS_EDITS else cause

        def is_over(one: Crystal) -> bool:
            has_another_value = bool(brought & kinds_unsaid(one.text, [new.text], day))
            if len(gone) > 1:
                return has_another_value
            if cause is not Cause.DREAM or one.origin is Origin.LINE:
                return True
            # A note in the line's very words is the line's wording, too.
            return (one.text == left.text and has_another_value) or no_longer_said(one.text, left.text, new.text)

        return [
            Supersession(key, row, at, crystals[row].trust, cause, dream.number)
            for row in newest.values()
            for key in older
            if (one := crystals.get(key)) is not None
            and one.trust.rank <= crystals[row].trust.rank
            and said[key] <= at
            and is_over(one)
        ]

    def superseded(self) -> frozenset[int]:
        """Return the rows whose value no longer holds."""
        ends = "SELECT older FROM supersessions WHERE undone_at IS NULL"
        rows = self._connection.execute(
            f"SELECT key, coalesce(merged_into, key) FROM crystals WHERE key IN ({ends} UNION"
            f" {ends.replace('older', 'newer')})"
        )
        return frozenset(self.among({int(key) for row in rows for key in row}).current)

    def overruled(self, keys: Iterable[int]) -> frozenset[int]:
        """Return those of these rows whose value holds no longer by the owner's word."""
        known = self.among(keys)
        return frozenset(pair.older for pair in known.pairs if pair.cause is Cause.OWNER) & known.current.keys()

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


def _last_wordings(dream: Dream) -> dict[str, CurrentLine]:
    """Map each line that a dream reworded to the line that stands in its place at the end, skipping drafts."""
    crystals = {line.id: line.crystal for one in dream.changes for line in (*one.come, *one.gone) if line.crystal}
    last = dict[str, CurrentLine]()
    for change in reversed(dream.changes):
        if change.why in REWORDS and change.come:
            (end, *_) = change.come
            end = last.get(end.id, replace(end, crystal=crystals.get(end.id, "")))
            last |= {line.id: end for line in change.gone}
    return last


def _wordings_of(lines: Iterable[CurrentLine]) -> list[str]:
    """Return the ids of the crystals with the wording of these lines."""
    return [line.crystal for line in lines if line.crystal and line.section is not SectionName.POINTERS]
