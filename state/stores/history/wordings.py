"""Wordings: gives each line of a version the crystal with its wording, and the evidence that it rests on.

A line that a dream rewords, moves or merges rests on what the old lines rested on. What the owner writes rests on
their own words alone. A draft, which the same dream replaced, was never in the file: it gets no crystal.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from state.changes.change import REWORDS, STAYS_ITSELF, Change, CurrentLine
from state.changes.page import kept_crystal, owners_words
from state.crystals.crystal import Crystal, Origin, crystal_digest
from state.document.operations import Why
from state.document.sections import SectionName
from state.dream import HUMAN, MERGED, RESTORE, Dream
from state.secrets.policy import Redaction
from state.stores.crystals.crystals import Crystals
from state.stores.history.lineage import Lineage
from state.text.words import covers
from state.trust import Trust, least_heard

# Origins of crystals that may have exactly the text of a line.
_ORIGINS = (Origin.LINE, Origin.SCRATCH, Origin.SESSION, Origin.WORKING, Origin.DREAM, Origin.SEED)
# A line of these sections is found by a search while it is in MEMORY.md. Questions answer nothing, and the others are
# written by the program.
_SEARCHED = frozenset((SectionName.PHENOTYPE, SectionName.BOND, SectionName.CONTEXT))


def texts_behind(connection: sqlite3.Connection, line: str) -> tuple[str, ...]:
    """Return the texts of the crystals behind the line with this text, and of the lines that it replaced.

    Crystals hold no secrets.
    """
    rows = connection.execute(
        """SELECT text FROM crystals WHERE id IN (
             SELECT crystal FROM evidence WHERE line IN (SELECT id FROM lines WHERE text = ?1)
             UNION SELECT crystal FROM lines WHERE successor IN (SELECT id FROM lines WHERE text = ?1))""",
        (line,),
    )
    return tuple(row[0] for row in rows)


@dataclass(slots=True)
class Wordings:
    """What is known while the changes of a version are completed, one after the other.

    `made` has the crystals of this version by text, `stored` earlier ones; `stands` are the ids of all. `rests` has
    the evidence of each line by id, `evidence` and `said` have its crystals and when they were said; `owners` are
    those with the owner's words in this version, `behind` has the evidence of a pointer's line by its crystal.
    """

    dream: Dream
    redaction: Redaction
    made: dict[str, Crystal]
    stored: Mapping[str, Crystal]
    evidence: Mapping[str, Crystal]
    said: Mapping[str, datetime]
    rests: dict[str, tuple[str, ...]]
    drafts: frozenset[str]
    stands: frozenset[str]
    owners: frozenset[str]
    behind: Mapping[str, tuple[str, ...]]

    def completed(self) -> tuple[Change, ...]:
        """Return the changes of the version, each line with its crystal, each new line with its evidence."""
        return tuple(one if one.why is Why.PINNED else self._completed(one) for one in self.dream.changes)

    def _completed(self, change: Change) -> Change:
        gone = tuple(self._with_keeper(line) for line in change.gone)
        come = change.come
        if change.why is Why.REVISED and self.dream.cause in (HUMAN, MERGED):
            words = owners_words(come[0], self.redaction, self.dream.at)
            known = self.made.setdefault(words.text, words)
            evidence: tuple[str, ...] = (known.id,)
        else:
            evidence = change.evidence if self.dream.cause == RESTORE else self._evidence(change)
        come = tuple(self._searched(line, evidence) for line in come)
        self.rests |= {line.id: evidence for line in come}
        return replace(change, gone=gone, come=come, evidence=evidence)

    def _evidence(self, change: Change) -> tuple[str, ...]:
        """Return the crystals that new lines rest on: the cited ones, and those of the old lines they still say."""
        former = tuple(dict.fromkeys(one for line in change.gone for one in self.rests.get(line.id, ())))
        if not change.come or not self.owners.isdisjoint(change.evidence):
            return change.evidence
        if change.why in STAYS_ITSELF:
            return former
        if change.why is Why.RECALLED:
            led_to = (one for line in change.gone for one in self.behind.get(line.crystal, (line.crystal,)))
            return tuple(dict.fromkeys((*change.evidence, *led_to)))
        if change.why not in REWORDS:
            return change.evidence
        if change.why is Why.REVISED and not set(change.evidence) <= set(former):
            texts = [line.text for line in change.come]
            former = tuple(
                one
                for one in former
                if one in self.evidence and any(covers(text, self.evidence[one].text) for text in texts)
            )
        return tuple(dict.fromkeys((*change.evidence, *former)))

    def _with_keeper(self, line: CurrentLine) -> CurrentLine:
        """Return a line that leaves, with the crystal that keeps it; a draft keeps none."""
        if line.crystal in self.stands or line.id in self.drafts:
            return line
        return self._with_crystal(line, ())

    def _searched(self, line: CurrentLine, evidence: tuple[str, ...]) -> CurrentLine:
        if line.crystal in self.stands or line.id in self.drafts or line.section not in _SEARCHED:
            return line
        found = self._with_crystal(line, evidence)
        if (stored := self.stored.get(self.redaction.of(line.text))) is not None and stored.id == found.crystal:
            # The line says it again: it is the later of two values that take turns.
            again = replace(stored, created_at=self.dream.at, position=int(line.id[1:]), session="", source=None)
            self.made.setdefault(again.text, again)
        return found

    def _with_crystal(self, line: CurrentLine, evidence: tuple[str, ...]) -> CurrentLine:
        """Return the line with a crystal of its text: a stored one that is trusted as much, else a new one."""
        text = self.redaction.of(line.text)
        if (known := self.made.get(text)) is None or known.trust.rank < line.trust.rank:
            known = self.stored.get(text)
        if known is None or known.trust.rank < line.trust.rank:
            said = max((self.said[one] for one in evidence if one in self.said), default=None)
            known = kept_crystal(replace(line, said_at=line.said_at or said), self.redaction, self.dream.valence)
            heard = least_heard(self.evidence[one].heard for one in evidence if one in self.evidence)
            known = replace(known, heard=heard if line.trust is Trust.AGENT else "")
            self.made[text] = known
        return replace(line, crystal=known.id)


def with_wordings(dream: Dream, crystals: Crystals, lineage: Lineage, redaction: Redaction) -> Dream:
    """Return the version with the crystals and the evidence of its lines. It reads the stores and writes nothing."""
    changes = [one for one in dream.changes if one.why is not Why.PINNED]
    gone = {line.id: line for one in changes for line in one.gone}
    lines = [*gone.values(), *(line for one in changes for line in one.come)]
    drafts = {line.id for one in changes for line in one.come} & {
        line.id for one in changes if one.why in REWORDS for line in one.gone
    }
    behind = lineage.rest_of([line.crystal for line in gone.values() if line.section is SectionName.POINTERS])
    rests = lineage.evidence_of(gone)
    cited = {
        *(one for change in changes for one in change.evidence),
        *(one for every in (*rests.values(), *behind.values()) for one in every),
    }
    keys = crystals.keys(cited)
    rows, said = crystals.by_keys(keys.values()), crystals.said_last(keys.values())
    known = {*crystals.keys(line.crystal for line in lines), *(one.id for one in dream.crystals)}
    texts = dict.fromkeys(redaction.of(line.text) for line in lines)
    work = Wordings(
        dream,
        redaction,
        made={one.text: one for one in dream.crystals},
        stored=_stored(crystals, texts),
        evidence={id_: rows[key] for id_, key in keys.items() if key in rows},
        said={id_: said[key] for id_, key in keys.items() if key in said},
        rests=rests,
        drafts=frozenset(drafts),
        stands=frozenset(known),
        owners=frozenset(one.id for one in dream.crystals if one.origin is Origin.SEED),
        behind=behind,
    )
    completed = work.completed()
    return replace(dream, changes=completed, crystals=tuple({one.id: one for one in work.made.values()}.values()))


def _stored(crystals: Crystals, texts: Iterable[str]) -> dict[str, Crystal]:
    """Return for each of these texts the most trusted stored crystal that says exactly this."""
    digests = {crystal_digest(origin, text): text for text in texts for origin in _ORIGINS}
    ids = crystals.ids_of(digests)
    rows = crystals.by_keys(crystals.keys(ids.values()).values())
    found: dict[str, Crystal] = {}
    for one in sorted(rows.values(), key=lambda row: (row.trust.rank, row.origin is Origin.LINE)):
        found[one.text] = one
    return found
