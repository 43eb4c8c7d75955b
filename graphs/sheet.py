"""Sheet: MEMORY.md while a dream changes it, and the outcome of each operation, in words for whoever asked for it.

A sheet plays operations one after the other. Each applies, asks the owner, or is refused with what would be accepted.
The checks (`graphs.checks`) use only ids, sections, lengths, line counts, and equality of texts. Meaning is left to
the model and the owner, because the old text remains as a crystal and every version is kept.

Replaying the same operations on the same snapshot gives the same sheet, so a running dream only has to save its
messages.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from state.changes.change import REWORDS, Change, CurrentLine
from state.changes.page import Page, kept_crystal
from state.crystals.crystal import Crystal, Lifecycle, Origin, id_in
from state.crystals.crystal import Kind as CrystalKind
from state.document.asking import Ask, Heard
from state.document.operations import NO_END, Action, Operation, Refusal, Why
from state.document.pointer import parse_pointer, render_pointer, topic_of
from state.document.sections import SectionName
from state.dream import Dream, Evidence, Kind, Proposed, Shown, Snapshot, Usage
from state.reading import length_given
from state.search.dates import needs_its_day
from state.signals.hormones import mood, valence
from state.text.line import LINE_CHARACTERS, as_line, without_count
from state.text.words import covers, normalise
from state.trust import Trust, least_trust
from state.zone import local

# Text from before the first dream leaves gradually: this many lines per dream.
MAX_OLD_LINES = 20
# A line that has this share of another line's words, and all of its numbers, still says the same.
MOST_OF_A_LINE = 2 / 3
# A line takes in old text only if it is at least this share as long.
LEAST_TAKEN_IN = 0.25
INSIGHT_IMPORTANCE = 0.6
# How much importance a line gains when an input revises it, and the most it can reach that way.
REINFORCED, MOST_REINFORCED = 0.05, 0.9
# Bounds of one dream: changed lines per cited input; lines merged or reworded
# without an input (or a tenth of the memory, if more); evictions; changed lines (or a third of the memory, if more).
PER_INPUT, TIDIED, EVICTIONS, CHANGED = 8, 8, 20, 5
TOLD_SHARE = 0.95
SAID_ALREADY = "says so already"
ASKED_ALREADY = "its owner is asked already"
THIRD = "more than a third of the memory would change in one dream"
APPROVAL = "approval"
"""The guard of what may not apply now, whatever its words: nothing is there to mend."""
WRITTEN_BY_CODE = frozenset((SectionName.POINTERS, SectionName.SKILLS, SectionName.NICHE))
_FILED = frozenset(SectionName) - WRITTEN_BY_CODE

_WHY = {
    Action.ADD: Why.ADDED,
    Action.REVISE: Why.REVISED,
    Action.MERGE: Why.MERGED,
    Action.MOVE: Why.MOVED,
    Action.WEIGH: Why.WEIGHED,
    Action.EVICT: Why.EVICTED,
    Action.CLOSE: Why.ANSWERED,
    Action.RECALL: Why.RECALLED,
}
_TAKES_AWAY = frozenset((Action.EVICT, Action.CLOSE))
_AROUND_A_DAY = 3  # a blank and brackets
_SAME_LINE = {Action.MOVE, Action.WEIGH}
_TIDIES = {Action.REVISE, Action.MERGE}
# The order in which an answer is played, so that its own decides nothing: what adds before what reduces.
_ORDER = (
    Action.LEARN, Action.ADD, Action.RECALL, Action.WEIGH, Action.MOVE, Action.REVISE, Action.MERGE, Action.CLOSE,
    Action.EVICT,
)  # fmt: skip
_READ = {"tool": "a tool's output", "web": "a page"}


@dataclass(frozen=True, slots=True)
class Told:
    """The outcome of an operation: `words` say it to whoever asked; `mend`: a corrected operation may be accepted."""

    operation: Operation
    words: str
    applied: bool = False
    asks: bool = False
    mend: bool = False


Check = Callable[["Sheet", Operation], Refusal | None]
"""A function that may refuse an operation on the current sheet."""


class Sheet(Page):
    """The page of one dream.

    `told` has the outcome of each operation, `heard` the ids of the consumed inputs, `proposed` what the owner
    is asked, `refused` every refusal, `unread` the parts of the last answer that could not be read, `learnt` the
    model's insights, `unmovable` by line id why a line cannot leave, `began` the ids of the lines from before,
    `vouched` for how many changed lines each input was cited.
    `is_judged`: somebody chose the new lines (a model, the owner), so that they stay before others do; `tells_days`:
    session starts tell the days of lines that say "today".
    """

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot.text, (*snapshot.lines, *snapshot.old_text), snapshot.next_line)
        self.snapshot = snapshot
        self.inputs = {piece.id: piece for piece in snapshot.evidence}
        self.told: list[Told] = []
        self.heard: set[str] = set()
        self.proposed: list[Proposed] = []
        self.refused: list[Refusal] = []
        self.unread: list[Refusal] = []
        self.learnt: list[Crystal] = []
        self.unmovable: dict[str, Refusal] = {}
        self.old_left = 0
        self.is_judged = self.tells_days = False
        self.began = {line.id for line in snapshot.lines if line.section not in WRITTEN_BY_CODE}
        self._size = len(self.began)
        self.vouched = Counter[str]()
        self._parts = defaultdict[str, list[str]](list)  # by the text of a line: what lines say that were split off
        self._longest = 0
        self._kept = {one.text: one for one in (*snapshot.notes, *snapshot.twins)}

    @property
    def length(self) -> int:
        """Return how many characters of the resulting file an agent is given."""
        days = sum(len(day) + _AROUND_A_DAY for line in self.standing if (day := self.day_of(line)))
        return length_given(self.text(self.snapshot.now, mood(self.snapshot.hormones))) + days

    @property
    def told_budget(self) -> int:
        """Return the budget that the model is told, so that what it miscounts still fits."""
        return int(TOLD_SHARE * self.snapshot.budget)

    def day_of(self, line: CurrentLine) -> str:
        """Return the day that session starts put behind a line that needs it; a model writes days itself."""
        if not (self.tells_days and needs_its_day(line.text)):
            return ""
        return f"{local(line.said_at or line.born_at, self.snapshot.zone):%-d %b}"

    @property
    def standing(self) -> list[CurrentLine]:
        """Return the lines of the seven sections."""
        return [line for line in self.lines.values() if not line.above]

    # Operations.

    def play(
        self,
        operations: Iterable[Operation],
        checks: Sequence[Check],
        *,
        by_model: bool = False,
        asks: bool = True,
    ) -> None:
        """Apply operations as far as these checks allow; a model's in an order that does not depend on the answer's.

        The owner is asked about what is theirs, unless they or a count decided it (not `asks`).
        """
        for given in sorted(operations, key=_in_order) if by_model else operations:
            operation = self._made_safe(given, by_model=by_model, asks=asks)
            if by_model and self._has_heard(operation):
                self.heard.update(operation.cites)
                self.told.append(Told(operation, "was said before"))
                continue
            refusal = next((found for check in checks if (found := check(self, operation)) is not None), None)
            if refusal is not None:
                text = self.snapshot.forgotten.masked(operation.text)
                self.refuse(replace(refusal, operation=replace(operation, text=text)))
            elif asks and (why := self.must_ask(operation)):
                self._propose(operation, why)
            else:
                self._carry_out(operation)

    def _has_heard(self, operation: Operation) -> bool:
        """Return whether this already applied or asks: a model that repeats it need not correct it."""
        said = (one.operation for one in self.told if one.applied or one.asks)
        same = (operation.action, operation.section, operation.lines, operation.text)
        return any((one.action, one.section, one.lines, one.text) == same for one in said)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Return every refusal once, because a model may repeat what was refused."""
        return tuple(dict.fromkeys(self.refused))

    def refuse(self, refusal: Refusal) -> None:
        """Record a refusal, and tell whoever asked for the operation."""
        self.refused.append(refusal)
        if refusal.operation is None:
            return
        is_needless = refusal.figures.endswith((SAID_ALREADY, ASKED_ALREADY))
        if is_needless:
            self.heard.update(refusal.operation.cites)
        is_fault = not is_needless and refusal.guard != APPROVAL
        self.told.append(Told(refusal.operation, refusal.figures, mend=is_fault))

    def cited_inputs(self, operation: Operation) -> list[str]:
        """Return the inputs that an operation cites."""
        return [cite for cite in operation.cites if cite in self.inputs]

    def rests_on(self, operation: Operation) -> tuple[str, ...]:
        """Return the crystals of the inputs that an operation cites."""
        cited = (self.inputs[cite].crystal for cite in self.cited_inputs(operation))
        return tuple(dict.fromkeys(filter(None, cited)))

    def cited_lines(self, operation: Operation) -> list[CurrentLine]:
        """Return the lines that an operation cites, as far as they stand."""
        return [self.lines[cite] for cite in operation.cites if cite in self.lines and not self.lines[cite].above]

    def touched(self, operation: Operation) -> list[CurrentLine]:
        """Return the lines that an operation changes, as far as they stand."""
        return [self.lines[name] for name in operation.lines if name in self.lines]

    def _of_before(self) -> tuple[dict[str, list[str]], int]:
        """Return by line id the texts from before this dream that the line still says, and how many no line says.

        Lines past their last day do not count.
        """
        today, lost = self.snapshot.today, 0
        said = {
            line.id: [line.text]
            for line in self.snapshot.lines
            if line.section not in WRITTEN_BY_CODE and not line.is_past(today)
        }
        for change in self.changes:
            texts = [text for line in change.gone for text in said.pop(line.id, ())]
            kept = {line.id: [text for text in texts if self._says_most(line.text, text)] for line in change.come}
            said |= kept
            lost += len(texts) - len({text for one in kept.values() for text in one})
        return said, lost

    @property
    def spare(self) -> int:
        """Return how many more lines from before may leave, or lose most of their content."""
        return max(CHANGED, self._size // 3) - self._of_before()[1]

    def _made_safe(self, operation: Operation, *, by_model: bool, asks: bool) -> Operation:
        """Return the operation with a text that can only be a line; never use the raw text."""
        operation = replace(operation, keywords=as_line(operation.keywords.replace("`", " ")))
        if by_model:  # an id that is nowhere takes nothing from those that are
            gone = {line.id for change in self.changes for line in change.gone}
            known = tuple(one for one in operation.cites if one in self.lines or one in self.inputs or one in gone)
            operation = replace(operation, cites=known or operation.cites)
        text = operation.text
        if operation.action is Action.RECALL and by_model:
            behind = next((one for line in self.touched(operation) if (one := self._behind(line))), None)
            text = as_line(self.snapshot.redaction.of(behind.text)) if behind else ""
            came_from = behind.context if behind and behind.context in _FILED else SectionName.CONTEXT
            is_back = operation.section is SectionName.POINTERS
            return replace(operation, text=text, section=SectionName(came_from) if is_back else operation.section)
        if operation.action is Action.REVISE and operation.section is SectionName.POINTERS and by_model:
            return replace(operation, text=self._reworded_pointer(operation))
        if operation.action is Action.EVICT and self.snapshot.forgotten.found(text):
            return replace(operation, text="")  # the pointer's topic then comes from the line
        # A text that is too long is refused, not cut: whoever asked can shorten it.
        text = without_count(text) if asks else text
        return replace(operation, text=as_line(text, max(LINE_CHARACTERS, len(text))))

    def _behind(self, pointer: CurrentLine) -> Crystal | None:
        """Return the crystal that a pointer leads to."""
        return next((one for one in self.snapshot.pointed if one.id == pointer.crystal), None)

    def _reworded_pointer(self, operation: Operation) -> str:
        """Return a pointer's line with the topic and the keywords that are said; those not said stay."""
        former = next((found for line in self.touched(operation) if (found := parse_pointer(line.text))), ("", ""))
        topic, keywords = parse_pointer(operation.text) or (topic_of(operation.text), operation.keywords or former[1])
        return render_pointer(as_line(topic), operation.keywords or as_line(keywords))

    def _carry_out(self, operation: Operation) -> None:
        pieces = [self.inputs[cite] for cite in self.cited_inputs(operation)]
        self.heard.update(operation.cites)
        if operation.action is Action.LEARN:
            self._learn(operation, pieces)
            return
        gone = tuple(self.touched(operation))
        old = self._old_text_in(operation)
        rests = self.rests_on(operation)
        if operation.action is Action.ADD and not pieces:  # it is a part of the lines it cites, and rests on them
            cited = self.cited_lines(operation)
            rests = tuple(dict.fromkeys(line.crystal for line in cited if line.crystal))
            for line in cited:
                self._parts[line.text].append(operation.text)
        change = Change(_WHY[operation.action], (*gone, *old), self._come(operation, gone, pieces), rests)
        done = self.change(change)
        if done is None:
            self.refuse(Refusal("shape", "operation", "nothing would change, or MEMORY.md cannot hold it", operation))
            return
        if operation.action in _SAME_LINE and not self.began.isdisjoint(operation.lines):
            self.began.update(line.id for line in done.come)  # the same line under another id
        self.old_left += len(old)
        self.vouched.update(dict.fromkeys(self.cited_inputs(operation), len(operation.lines)))
        self.told.append(Told(operation, ", ".join(line.id for line in done.come) or "done", applied=True))

    def _come(
        self, operation: Operation, gone: Sequence[CurrentLine], pieces: Sequence[Evidence]
    ) -> tuple[CurrentLine, ...]:
        action, now = operation.action, self.snapshot.now
        if action in _TAKES_AWAY:
            return ()
        if action is Action.MOVE:
            return tuple(replace(line, section=operation.section) for line in gone)
        if action is Action.WEIGH:
            weight, until = operation.importance, operation.until
            return tuple(
                replace(
                    one,
                    importance=one.importance if weight is None else weight,
                    until="" if until == NO_END else until or one.until,
                )
                for one in gone
            )
        if action is Action.RECALL:
            behind = self._behind(gone[0]) or gone[0]
            return (CurrentLine("", operation.section, operation.text, behind.importance, behind.trust, now),)
        cited = self.cited_lines(operation)
        said: Sequence[Evidence | CurrentLine] = pieces or [*cited, *gone]
        weights = [*(one.importance for one in pieces), *(one.importance for one in gone or cited)]
        importance = max(weights, default=0.5)
        if gone and pieces:  # repetition makes a line more important
            importance = max(importance, min(importance + REINFORCED, MOST_REINFORCED))
        if operation.importance is not None:
            importance = operation.importance
        trust = least_trust([one.trust for one in said]) if said else Trust.AGENT
        # A reworded line keeps its last day.
        ends = [line.until for line in gone]
        until = operation.until or (max(ends) if ends and all(ends) else "")
        until = "" if until == NO_END else until
        pinned = action is Action.REVISE and any(line.pinned for line in gone)
        led_to = gone[0].crystal if operation.section is SectionName.POINTERS else ""
        made = CurrentLine("", operation.section, operation.text, importance, trust, now, pinned, until=until)
        return (replace(made, crystal=led_to),)

    def _old_text_in(self, operation: Operation) -> list[CurrentLine]:
        """Return the old text that a new line takes in: it cites the text and is not much shorter."""
        cited = [self.lines[name] for name in operation.cites if name in self.lines and self.lines[name].above]
        free = [line for line in cited if not line.pinned][: MAX_OLD_LINES - self.old_left]
        size = sum(len(line.text) for line in cited)
        takes_in = operation.action in (Action.ADD, Action.REVISE, Action.MERGE)
        return free if takes_in and LEAST_TAKEN_IN * size <= len(operation.text) else []

    def take_in_repeats(self) -> None:
        """Remove old text that a line of this dream repeats."""
        said = {normalise(line.text) for change in self.changes for line in change.come}
        for line in [one for one in self.lines.values() if one.above]:
            given = line.id in self.inputs and not line.pinned and self.old_left < MAX_OLD_LINES
            if given and normalise(line.text) in said and self.change(Change(Why.MERGED, (line,))) is not None:
                self.old_left += 1

    def _learn(self, operation: Operation, pieces: Sequence[Evidence]) -> None:
        """Keep an insight as a crystal, not a line, with the inputs it cites as parents."""
        self.learnt.append(
            Crystal(
                text=operation.text,
                origin=Origin.DREAM,
                created_at=self.snapshot.now,
                kind=CrystalKind.INSIGHT,
                importance=operation.importance if operation.importance is not None else INSIGHT_IMPORTANCE,
                trust=least_trust([piece.trust for piece in pieces]),
                parents=self.rests_on(operation),
                lifecycle=Lifecycle.GENERATED,
                valence=valence(self.snapshot.hormones),
                id=id_in(self.snapshot.dream, "insight", str(len(self.learnt))),
            )
        )
        self.told.append(Told(operation, "learnt", applied=True))

    # What its owner is asked about.

    def _propose(self, operation: Operation, why: str) -> None:
        self.heard.update(operation.cites)
        cites = (*self.rests_on(operation), *(line.id for line in self.cited_lines(operation)))
        self.proposed.append(Proposed(replace(operation, cites=tuple(dict.fromkeys(cites))), why))
        self.told.append(Told(operation, f"its owner is asked: {why}", asks=True))

    def must_ask(self, operation: Operation) -> str:
        """Return why the owner is asked before the operation applies; empty for most."""
        if operation.action is Action.LEARN:
            return ""
        old = self.touched(operation)
        heard = sorted({self.inputs[cite].heard for cite in self.cited_inputs(operation)} - {""})
        pinned = next((line.id for line in old if line.pinned), "")
        own = next((line.id for line in old if line.id in self.snapshot.handwritten), "")
        if pinned:
            return f"{pinned} is pinned"
        if heard and self.snapshot.heard is Heard.ASK:
            return f"dream.heard: ask; its agent had read {' and '.join(_READ[one] for one in heard)}"
        if own:
            return f"{own} was written by hand"
        if self.changes_too_much(operation):
            return THIRD
        return "dream.ask: all" if self.snapshot.ask is Ask.ALL else ""

    def is_proposed(self, operation: Operation) -> bool:
        """Return whether the owner is asked about the same change of the same lines already."""
        return any(
            (one.action, set(one.lines)) == (operation.action, set(operation.lines))
            and (operation.action in _TAKES_AWAY or normalise(one.text) == normalise(operation.text))
            for one in (*self.snapshot.proposed, *(one.operation for one in self.proposed))
        )

    def changes_too_much(self, operation: Operation) -> bool:
        """Return whether more than a third of the memory would leave, or lose most of its content, in this dream."""
        return operation.action not in _SAME_LINE and self._lost_by(operation) > max(0, self.spare)

    def tidies_too_much(self, operation: Operation) -> bool:
        """Return whether too many lines would be merged or reworded without an input in this dream."""
        if not operation.lines or self.cited_inputs(operation) or operation.action not in _TIDIES:
            return False
        tidied = sum(
            len(change.gone)
            for change in self.changes
            if change.why in (Why.REVISED, Why.MERGED) and not change.evidence
        )
        self._longest = max(self._longest, self.length)
        is_shorter = len(operation.text) < sum(len(line.text) for line in self.touched(operation))
        is_for_room = is_shorter and self._longest > self.told_budget  # it saves other lines from eviction
        return not is_for_room and tidied + len(operation.lines) > max(TIDIED, self._size // 10)

    def _lost_by(self, operation: Operation) -> int:
        """Return how many texts from before this operation would leave unsaid."""
        said, _ = self._of_before()
        texts = (text for name in operation.lines for text in said.get(name, ()))
        return sum(operation.action in _TAKES_AWAY or not self._says_most(operation.text, text) for text in texts)

    def _says_most(self, text: str, other: str) -> bool:
        """Return whether a text, with what was split off the other one, still says most of that."""
        return covers(" ".join((text, *self._parts[other])), other, MOST_OF_A_LINE)

    # The result.

    def crystal_of(self, line: CurrentLine) -> Crystal:
        """Return the crystal that keeps a line once it has left: its own, else one with its text, else a new one."""
        own = next((one for one in self.snapshot.twins if one.id == line.crystal), None) if line.crystal else None
        if (known := own or self._kept.get(line.text)) is None:
            snapshot = self.snapshot
            made = kept_crystal(line, snapshot.redaction, valence(snapshot.hormones))
            known = self._kept.get(made.text) or replace(made, id=id_in(snapshot.dream, line.id))
            self._kept[line.text] = known
        return known

    def dream(self, author: str, usage: Usage, seconds: float) -> Dream:
        """Return the dream, ready to commit."""
        snapshot, feeling = self.snapshot, mood(self.snapshot.hormones)
        taken, dreamt = self._taken()
        changes, left = self._with_crystals()
        return Dream(
            number=snapshot.based_on + 1,
            id=snapshot.dream,
            at=snapshot.now,
            cause="dream",
            reason=snapshot.reason.value,
            before=snapshot.text,
            after=self.text(snapshot.now, feeling),
            mood=feeling,
            changes=changes,
            operations=tuple(one.operation for one in self.told if one.applied),
            refused=self.refusals,
            crystals=tuple({one.id: one for one in (*snapshot.notes, *self.learnt, *left)}.values()),
            dreamt=dreamt,
            taken=taken,
            usage=usage,
            author=author,
            notes=len(taken),
            seconds=seconds,
            problems=snapshot.problems,
            proposed=tuple(self.proposed),
            newest=snapshot.newest,
            waiting=snapshot.waiting + len(snapshot.taken) - len(taken),
            valence=valence(snapshot.hormones),
            shown=tuple(
                Shown(piece.crystal, piece.end, len(piece.text))
                for piece in snapshot.evidence
                if piece.goes_on and (piece.kind is not Kind.NOTE or piece.id in self.heard)
            ),
        )

    def _with_crystals(self) -> tuple[tuple[Change, ...], list[Crystal]]:
        """Return the changes with the crystals of the lines that left, and those crystals; a draft gets none."""
        drafts = {line.id for change in self.changes for line in change.come} & {
            line.id for change in self.changes if change.why in REWORDS for line in change.gone
        }
        left = {
            line.id: self.crystal_of(line)
            for change in self.changes
            for line in change.gone
            if not line.crystal and line.id not in drafts and change.why is not Why.PINNED
        }

        def kept(line: CurrentLine) -> CurrentLine:
            return replace(line, crystal=left[line.id].id) if line.id in left else line

        changes = (replace(change, gone=tuple(map(kept, change.gone))) for change in self.changes)
        return tuple(changes), list(left.values())

    def _taken(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Return the rows of the consumed notes, and the crystals that are no longer input.

        A note that no operation consumed is input again, and so is an input of which only a part was shown.
        """
        snapshot = self.snapshot
        left = {
            piece.crystal
            for piece in snapshot.evidence
            if piece.goes_on or (piece.kind is Kind.NOTE and piece.id not in self.heard)
        }
        rows = tuple(row for row, crystal in snapshot.taken if crystal not in left)
        passed = [piece.crystal for piece in snapshot.evidence if piece.crystal and piece.crystal not in left]
        return rows, tuple(dict.fromkeys((*snapshot.seeds, *passed)))


def _in_order(operation: Operation) -> tuple[object, ...]:
    """Return the key by which a model's operations are played: by their kinds, lines, inputs and texts."""
    lines, cites = ([(one[:1], len(one), one) for one in ids] for ids in (operation.lines, operation.cites))
    return _ORDER.index(operation.action), lines, cites, operation.text
