"""Dream: what a dream has read (`Snapshot`), and everything it will change and why (`Dream`), as values.

Nothing is changed between reading a snapshot and committing a dream. So a dream can be run dry, run twice to compare
prompts, and committed again after a crash.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum

from state.changes.change import REWORDS, Change, CurrentLine
from state.codec import decode, encode
from state.crystals.crystal import Crystal, Origin
from state.document.asking import Ask, Heard
from state.document.document import Edit
from state.document.operations import Operation, Refusal, Why
from state.document.sections import SectionName
from state.forgetting.known import NOTHING, Known
from state.reading import Reading
from state.secrets.policy import DEFAULT, Redaction
from state.signals.curiosity import Gap
from state.signals.felt import Felt
from state.signals.hormones import Hormones
from state.trust import Trust
from state.zone import day_of


class Reason(StrEnum):
    """Why a dream runs."""

    MANUAL = "manual"
    INTERVAL = "interval"
    SESSION_END = "session end"
    IDLE = "idle"
    PRESSURE = "pressure"
    CATCH_UP = "catch-up"
    SPIKE = "hormone spike"
    FIRST_BREATH = "first breath"
    FLOOR = "a note waited for 24 hours"


RESTORE = "restore"
"""The cause of a version that takes later ones back: the crystals it names in `dreamt` are input again."""

REVIEW = "review"
"""The cause of a version with the owner's decisions on proposals."""

UNDO = "undo"
"""The cause of a version in which the owner took changes of earlier versions back."""

EDIT = "edit"
"""The cause of a version in which the owner changed single lines without an editor."""

HUMAN = "human"
"""The cause of a version that a person saved in an editor, as found on disk."""

MERGED = "merged"
"""The cause of a version that merges a dream's edits with what a person saved during its commit."""

OWNERS_EDITS = frozenset((HUMAN, MERGED, EDIT))
"""The causes of versions whose new lines are their owner's own words."""

OWNERS = OWNERS_EDITS | {RESTORE, REVIEW, UNDO}
"""The causes of versions that their owner made."""

OWNERS_RUNS = {EDIT: "edit by the owner", RESTORE: "restore of {}", REVIEW: "review: {}", UNDO: "undo of {}"}
"""Why the ledger says that its owner's version was made, by its cause; the gap is for the version's own reason."""

REPAIRED = "repair"
"""The cause of a version found in the file when state.db was restored from an older copy."""


class Kind(StrEnum):
    """The kind of a piece of evidence; its value is the first letter of the id."""

    NOTE = "N"
    CRYSTAL = "C"
    GAP = "G"
    SKILL = "S"
    FEED = "E"
    OLD_TEXT = "T"
    WORKING = "W"
    FELT = "F"


MOST_SHOWN = 16 * 1024
"""How many characters of one input dreams show in all: the longest note. Search has the rest of a longer text."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One input of a synthesis, cited by `id`. `crystal` is the id of the crystal that keeps it (empty: none).

    `replaces` has the ids of the lines or crystals that it says it replaces. `heard` is what its session had read
    since its owner's last message: a page ("web"), a tool's output ("tool"), or "". A dream shows the model the text
    from `start`, where the dream before ended, to `end` (0: to its end).
    """

    id: str
    kind: Kind
    text: str
    importance: float
    trust: Trust
    at: datetime
    crystal: str = ""
    about: str = ""
    replaces: tuple[str, ...] = ()
    heard: str = ""
    start: int = 0
    end: int = 0

    @property
    def shown(self) -> str:
        """Return the part of the text that is shown."""
        return self.text[self.start : self.end or None]

    @property
    def goes_on(self) -> bool:
        """Return whether the next dream shows more of the text."""
        return self.kind in (Kind.NOTE, Kind.CRYSTAL) and 0 < self.end < MOST_SHOWN

    @property
    def key(self) -> str:
        """Return what names it in every dream: its crystal, or a digest of its text."""
        text = f"{self.kind.value} {self.text}".encode("utf-8", "surrogatepass")
        return self.crystal or hashlib.sha256(text).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Shown:
    """How many characters of a crystal's text dreams have shown, of how many."""

    crystal: str
    characters: int
    length: int


@dataclass(frozen=True, slots=True)
class Remark:
    """A note that a restore makes pending or consumed: its consuming version before and after (None: pending)."""

    note: int
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class PointerLine:
    """A pointer: keywords that find the crystal; `line` is the id of its line in MEMORY.md."""

    topic: str
    keywords: str
    crystal: str
    line: str = ""
    uses: int = 0


@dataclass(frozen=True, slots=True)
class Proposed:
    """A change that applies only with its owner's yes, and why.

    `operation` cites inputs by the ids of their crystals, and lines by their own.
    """

    operation: Operation
    why: str


@dataclass(frozen=True, slots=True)
class Correction:
    """A crystal with what is right, and the ids of the crystals that are wrong.

    The wording of `line` is one of them, if that line left. `is_new`: the crystal was made for this correction.
    """

    crystal: str
    wrong: tuple[str, ...] = ()
    line: str = ""
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class Corrected:
    """What a version does beside the lines because its owner calls a statement wrong; it is taken back as a whole.

    `unwanted` are texts that no dream writes again, `lifted` those that one may write again; `taken` are the rows of
    the notes it consumes, `noted` the ids of the crystals that become pending notes; `questions` are no longer open,
    and the rows `items` of sessions no longer remembered.
    """

    corrections: tuple[Correction, ...] = ()
    unwanted: tuple[str, ...] = ()
    lifted: tuple[str, ...] = ()
    taken: tuple[int, ...] = ()
    noted: tuple[str, ...] = ()
    questions: tuple[Gap, ...] = ()
    items: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a dream reads, read once.

    `text` is MEMORY.md (empty: no file), `based_on` the number of the last committed version, `budget` the maximum
    length of the new one, in characters. `lines` are those of the seven sections, `old_text` the lines above them
    from before the first dream; `seeds` are the ids of the latter's crystals until a dream has seen them. `notes` are
    the crystals of the scratch notes, `taken` their (row, crystal id), `pointed` the crystals behind the pointers in
    the file, `twins` crystals with exactly a line's text. `felt` is what was felt since the last dream. `redaction`
    limits what a model or a crystal may see of all this, `forgotten` what a line may contain. `ask` and `heard` say
    what needs the owner's yes, `handwritten` has the ids of all lines that the owner wrote, `proposed` the operations
    that they were asked about. `newest` is the row of the last crystal, `waiting` the number of pending notes beyond
    `notes` (counted up to a thousand), both at the time of reading. `unasked` has the ids of inputs that
    no model is asked about any more, `failing` those of them over which its answers failed; `notes_in` is the section
    of notes in a dream without a model, `zone` the owner's time zone. `former` is the last version, if a model dreamt
    it.
    """

    dream: str
    now: datetime
    reason: Reason
    text: str
    based_on: int
    budget: int
    next_line: int
    hormones: Hormones
    felt: Felt
    lines: tuple[CurrentLine, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    seeds: tuple[str, ...] = ()
    notes: tuple[Crystal, ...] = ()
    taken: tuple[tuple[int, str], ...] = ()
    pointers: tuple[PointerLine, ...] = ()
    tombstones: tuple[str, ...] = ()
    pointed: tuple[Crystal, ...] = ()
    twins: tuple[Crystal, ...] = ()
    genome: tuple[str, ...] = ()
    old_text: tuple[CurrentLine, ...] = ()
    problems: tuple[str, ...] = ()
    redaction: Redaction = DEFAULT
    forgotten: Known = NOTHING
    ask: Ask = Ask.OWN
    heard: Heard = Heard.MARK
    handwritten: tuple[str, ...] = ()
    proposed: tuple[Operation, ...] = ()
    newest: int = 0
    waiting: int = 0
    unasked: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    notes_in: SectionName = SectionName.CONTEXT
    zone: tzinfo = UTC
    former: "Dream | None" = None

    @property
    def today(self) -> str:
        """Return the owner's calendar day (ISO 8601)."""
        return day_of(self.now, self.zone)


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of a dream. Dollars are 0 if the price of the model is unknown."""

    model: str = ""
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    prompts: tuple[str, ...] = ()

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum of both."""
        return Usage(
            self.model or other.model,
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.usd + other.usd,
            tuple(dict.fromkeys(self.prompts + other.prompts)),
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a version made of a proposal: `now` accepted, declined or dropped, `was` that before; empty: it waits."""

    number: int
    now: str
    was: str = ""

    @property
    def inverse(self) -> "Answer":
        """Return what takes it back."""
        return Answer(self.number, self.was, self.now)


@dataclass(frozen=True, slots=True)
class Dream:
    """A version: everything it changes, and why.

    Applying `changes` to `before` and stamping the result gives `after`. If the owner changed MEMORY.md meanwhile
    (`joined`), they are applied to the owner's text, as far as their lines stand there. Committing the same dream
    again changes nothing. `proposed` are the changes that need the owner's yes, `answers` what it makes of former
    proposals, `corrected` is what the owner called wrong, `uncorrected` what they take back of that;
    a restore or undo takes back versions `since` this one. `crystals` are new ones, `taken` the rows of the consumed
    notes. A restore lists in `dreamt` the crystals that are input again, in `redreamt` those that no
    longer are, and in `remarks` the notes likewise. `newest` is the row of the last crystal
    when the dream read (crystals up to it that it passed over are no longer news), `waiting` the number of notes left
    for the next dream. `shown` has the inputs of which the model was shown a part. `reading` is for session starts.
    """

    number: int
    id: str
    at: datetime
    cause: str
    reason: str
    before: str
    after: str
    mood: str
    changes: tuple[Change, ...] = ()
    operations: tuple[Operation, ...] = ()
    refused: tuple[Refusal, ...] = ()
    crystals: tuple[Crystal, ...] = ()
    dreamt: tuple[str, ...] = ()
    taken: tuple[int, ...] = ()
    remarks: tuple[Remark, ...] = ()
    tombstones: tuple[str, ...] = ()
    lifted_tombstones: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    author: str = ""
    notes: int = 0
    seconds: float = 0.0
    problems: tuple[str, ...] = ()
    joined: bool = False
    proposed: tuple[Proposed, ...] = ()
    answers: tuple[Answer, ...] = ()
    newest: int = 0
    waiting: int = 0
    corrected: tuple[Corrected, ...] = ()
    uncorrected: tuple[Corrected, ...] = ()
    since: int = 0
    redreamt: tuple[str, ...] = ()
    valence: float = 0.0
    shown: tuple[Shown, ...] = ()
    reading: Reading = Reading()  # noqa: RUF009 - it is immutable

    @property
    def changes_nothing(self) -> bool:
        """Return whether MEMORY.md and its ledger stay the same, apart from the stamp."""
        asked = (self.proposed, self.answers, self.tombstones, self.lifted_tombstones)
        return not any((self.changes, *asked, self.corrected, self.uncorrected))

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Return the edits of MEMORY.md that carry out its changes."""
        return tuple(edit for change in self.changes for edit in change.edits)

    @property
    def came(self) -> tuple[CurrentLine, ...]:
        """Return every line that this version wrote."""
        return tuple(line for change in self.changes if change.why is not Why.PINNED for line in change.come)

    @property
    def left(self) -> tuple[tuple[CurrentLine, Why], ...]:
        """Return every line that left in this version, and why."""
        return tuple(
            (line, change.why) for change in self.changes if change.why is not Why.PINNED for line in change.gone
        )

    @property
    def counts(self) -> dict[str, int]:
        """Return how many lines were added, revised and so on, pointers aside, as in `Version`."""
        pointers = SectionName.POINTERS
        whys = [one.why for one in self.changes if any(line.section is not pointers for line in one.gone + one.come)]
        left = [why for line, why in self.left if line.section is not pointers]
        return {
            "added": whys.count(Why.ADDED),
            "revised": sum(map(whys.count, REWORDS)),
            "recalled": whys.count(Why.RECALLED),
            "evicted": left.count(Why.EVICTED),
            "closed": left.count(Why.ANSWERED) + left.count(Why.DELETED),
            "asked": len(self.proposed),
        }


def with_ids(dream: Dream, ids: Mapping[str, str]) -> Dream:
    """Return the dream with ids of crystals replaced; the keys are the ids that it made."""
    if not ids:
        return dream
    text = encode(dream)
    for made, known in ids.items():
        text = text.replace(made, known)
    return decode(Dream, text)


def with_wrong_wordings(dream: Dream) -> Dream:
    """Return the dream whose corrections name the wordings of the lines that left."""
    crystals = {line.id: line.crystal for line, _ in dream.left if line.crystal}

    def complete(one: Correction) -> Correction:
        return replace(one, wrong=(*one.wrong, crystals[one.line])) if one.line in crystals else one

    return replace(
        dream,
        corrected=tuple(replace(one, corrections=tuple(map(complete, one.corrections))) for one in dream.corrected),
    )


def with_lines(dream: Dream, ids: Mapping[str, str]) -> Dream:
    """Return the dream with line ids replaced in its operations and proposals."""

    def renamed(one: Operation) -> Operation:
        lines, cites = (tuple(ids.get(name, name) for name in names) for names in (one.lines, one.cites))
        return replace(one, lines=lines, cites=cites)

    proposed = tuple(replace(one, operation=renamed(one.operation)) for one in dream.proposed)
    return replace(dream, operations=tuple(map(renamed, dream.operations)), proposed=proposed)


def without_changes(dream: Dream, gave_way: Sequence[Change], why: str) -> Dream:
    """Return the dream without changes that yielded to the owner's, and without their effects; refusals say `why`.

    Crystals that only these changes rested on are input again; the caller handles the notes.
    """
    lines = {line.id for change in gave_way for line in change.gone}
    texts = {line.text for change in gave_way for line in change.come}

    def applied(one: Operation) -> bool:
        return lines.isdisjoint(one.lines) and (bool(one.lines) or one.text not in texts)

    stay = [change for change in dream.changes if change not in gave_way]
    rested = {crystal for change in stay for crystal in change.evidence}
    rested |= {cite for one in dream.proposed for cite in one.operation.cites}
    again = {crystal for change in gave_way for crystal in change.evidence} - rested
    kept = {line.crystal for change in stay for line in change.gone} | rested
    unneeded = {line.crystal for change in gave_way for line in change.gone} - kept
    refused = (Refusal("human veto", "operation", why, one) for one in dream.operations if not applied(one))
    return replace(
        dream,
        operations=tuple(filter(applied, dream.operations)),
        refused=(*dream.refused, *refused),
        crystals=tuple(one for one in dream.crystals if one.origin is not Origin.LINE or one.id not in unneeded),
        dreamt=tuple(one for one in dream.dreamt if one not in again),
        shown=tuple(one for one in dream.shown if one.crystal not in again),
    )


def encode_record(dream: Dream) -> str:
    """Encode what a version stores of its dream, for `decode(Dream, …)`.

    Left out are the texts, which the version has, what rows contain, and what only the commit needs.
    """
    changes = tuple(replace(one, above=None) for one in dream.changes)
    return encode(replace(dream, before="", after="", joined=False, crystals=(), changes=changes, reading=Reading()))
