"""Room: which lines leave a MEMORY.md that is too long, and the pointer that a line leaves behind.

Lines that the model did not choose leave in one order: lines past their last day first, then by importance, the
oldest first. Importance fades slowly with age, and is reduced as far as a newer line is about the same: the former
value of a fact leaves before the current one. Lines about what was felt since the last dream count up to double.
Shares of the file are kept for lasting sections, for the most important lines, and for lines with a day ahead. What a
model wrote in this dream stays, until a third of the memory would leave for it; without a model new lines are weighed
like others. The owner's lines leave last; pinned and counted lines stay. Of the lines chosen, those stay after all
without whose leaving the file fits.

A leaving line becomes a crystal first. It leaves a pointer if that is shorter than the line, and if the model asked
for it or the line is important: search has the others. A pointer's keywords are run through the search: the crystal
must be among the first five results, else other words of the text are tried, within the searches that a dream has; a
line whose crystal cannot be found stays. A line gets no pointer of its own if it has half of the keywords of a
pointer that also leads to it. Every dream verifies the existing pointers and repairs those that no longer work. There
are at most twenty, in a tenth of the room: the most used stay, then those to the most important lines. The crystals
of the others remain searchable.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from functools import partial

from graphs.ports import Memory, Trial
from graphs.sheet import MAX_OLD_LINES, Sheet
from state.changes.change import Change, CurrentLine
from state.changes.likeness import Likeness
from state.crystals.crystal import Crystal
from state.document.document import render
from state.document.operations import Action, Operation, Refusal, Why
from state.document.pointer import (
    FIRST,
    MAX_POINTERS,
    candidates,
    choose,
    parse_pointer,
    render_pointer,
    topic_of,
)
from state.document.sections import POINTER_GUIDE, SectionName
from state.document.seed import split_seed
from state.reading import Reading, line_digest
from state.search.dates import last_day_named
from state.search.query import content_words
from state.search.ranking import HELD
from state.text.words import normalise, terms
from state.trust import Trust
from state.zone import local

MAX_ROUNDS = 20
# The most searches for words that lead to one line, if the model wants a pointer to it or it had one. For all other
# lines that leave together there is one search for each, and twenty more.
TRIES_ASKED = 30
POINTER_CHARACTERS = 80
POINTER_SHARE = 0.1
# What exceeds the budget by less than this share is no matter for a model: the program mends it with the least loss.
A_LITTLE = 0.02
# Lines about who the agent is, who its user is, and lasting facts of their work are kept up to this share of the
# file.
LASTING, LASTING_SHARE = frozenset((SectionName.PHENOTYPE, SectionName.BOND)), 0.35
# Lines of at least this importance are kept up to this share of the file, unless a newer line is mostly the same.
VITAL, VITAL_SHARE, MOSTLY = 0.9, 0.25, 0.5
# The share of the budget left for other lines, however long the owner's own text and pinned lines are.
LEAST_SHARE = 0.25
# Share of the budget for the owner's text from before the first dream, while it is still there.
OLD_TEXT_SHARE = 0.4
# Lines that name a day ahead are kept up to this share of the file, the most important ones first.
AHEAD_SHARE = 0.35
# A line of this importance leaves a pointer: those to all others took a tenth of what the file answers.
POINTED = 0.8
# Importance fades by a power of the age in days, like the odds that something is needed again (J. R. Anderson and
# L. J. Schooler, "Reflections of the environment in memory", 1991). Tuned on the lives of benchmarks.mind.
FADING = 0.1
# A line that is like a newer one keeps this power of what they do not share.
UNLIKENESS = 1.5
AROUND_A_LINE = 3  # bullet, space and newline
# What the first pointer brings along: an empty section is not given.
_HEADING = len(f"## {SectionName.POINTERS}\n\n{POINTER_GUIDE}\n\n\n")
_STAY = frozenset((SectionName.POINTERS, SectionName.NICHE, SectionName.SKILLS))


def fit(sheet: Sheet, archive: Memory) -> None:
    """Point to what the model evicted, evict until the file fits, then repair the pointers that stay.

    A line whose pointer cannot be verified stays, with a refusal.
    """
    _point_to_evicted(sheet, archive)
    _drop_pointers(sheet, lambda pointers: _are_too_many(sheet, pointers))  # before a line leaves for them
    _evict(sheet, _spare_old_text(sheet), archive)
    room = room_for(sheet)
    _drop_pointers(sheet, lambda _: room < sheet.length and is_little(sheet, sheet.length))
    for _ in range(MAX_ROUNDS):  # a line that no words lead to stays, and others leave in its place
        if not (lines := _lines_to_evict(sheet, room)):
            break
        _evict(sheet, lines, archive)
    _mend(sheet, archive)
    _drop_pointers(sheet, lambda pointers: _are_too_many(sheet, pointers) or sheet.length > room)
    if sheet.length > sheet.snapshot.budget:
        figures = (
            f"{sheet.length:,} characters, the budget is {sheet.snapshot.budget:,}; what is left is pinned or yours"
        )
        sheet.refuse(Refusal("budget", "operation", figures))


def _drop_pointers(sheet: Sheet, has_to: Callable[[Sequence[CurrentLine]], bool]) -> None:
    """Remove pointers, the one that matters least first, as long as it has to be."""
    while (pointers := _pointers(sheet)) and has_to(pointers):
        sheet.change(Change(Why.EVICTED, (_first_to_leave(sheet, pointers),)))


def room_for(sheet: Sheet) -> int:
    """Return the budget, or more if headings, pins and the owner's text leave less than a quarter of it."""
    budget, fixed = sheet.snapshot.budget, _fixed(sheet)
    return max(budget, fixed + int(LEAST_SHARE * budget))


def is_little(sheet: Sheet, length: int) -> bool:
    """Return whether this length exceeds the budget by so little, or not at all, that no model is asked about it."""
    return length <= (1 + A_LITTLE) * sheet.snapshot.budget


def length_with_pointers(sheet: Sheet) -> int:
    """Return the length of the file once the model's evictions have left the pointers that it asks for."""
    each = list[int]()
    for line, one in _asked_pointers(sheet):
        keywords = one.keywords or "-" * (POINTER_CHARACTERS // 2)
        text = render_pointer(_topic(sheet, line, one), keywords)
        each += [len(text) + AROUND_A_LINE] if len(text) < len(line.text) else []
    have, most = pointers_have(sheet)
    more = max(0, min(sum(each), most - have))
    is_first = more and not any(line.section is SectionName.POINTERS for line in sheet.standing)
    return sheet.length + more + (_HEADING if is_first else 0)


def leaving(sheet: Sheet) -> list[CurrentLine]:
    """Return the lines that may leave, in the order in which they do."""
    snapshot = sheet.snapshot
    today = snapshot.today
    lasting = sum(length_of(line) for line in sheet.standing if line.section in LASTING)
    likeness = Likeness(line for line in sheet.standing if line.section not in _STAY)
    retold = {line.id: likeness.to_newer(line) for line in sheet.standing if line.section not in _STAY}
    is_kept = LASTING if lasting <= LASTING_SHARE * snapshot.budget else frozenset[SectionName]()
    vital, ahead = _vital(sheet, retold), _ahead(sheet)

    def rank(line: CurrentLine) -> tuple[object, ...]:
        by_hand = line.id in snapshot.handwritten
        is_new = sheet.is_judged and line.id not in sheet.began
        stays = (by_hand, line.id in ahead, line.section in is_kept, line.id in vital, is_new)
        days = max(0.0, (snapshot.now - line.born_at) / timedelta(days=1))
        unlike = max(0.0, 1 - retold.get(line.id, 0.0)) ** UNLIKENESS
        worth = line.importance * snapshot.felt.weight(line.text) * unlike
        weight = round(worth / (1 + days) ** FADING, 3)
        return (*stays, not line.is_past(today), weight, line.born_at, len(line.id), line.id)

    order = sorted(
        (
            line
            for line in sheet.standing
            if not line.pinned and line.section not in _STAY and line.id not in sheet.unmovable
        ),
        key=rank,
    )
    # This dream's lines stay longest, until they have pushed out a third of the memory.
    old = [line for line in order if line.id in sheet.began and not line.is_past(today)]
    late = old[max(0, sheet.spare) :]
    return [*(line for line in order if line not in late), *late]


def reading_of(sheet: Sheet) -> Reading:
    """Return what session starts need to know of the lines: which to leave out for lack of room, and their days."""
    digests = {line.id: line_digest(normalise(line.text)) for line in sheet.standing}
    days = tuple((digests[line.id], day) for line in sheet.standing if (day := sheet.day_of(line)))
    return Reading(tuple(digests[line.id] for line in leaving(sheet)), days)


def _vital(sheet: Sheet, retold: Mapping[str, float]) -> set[str]:
    """Return the most important lines that fit into their share of the file."""
    today = sheet.snapshot.today
    important = (one for one in sheet.standing if one.importance >= VITAL and not one.is_past(today))
    current = [one for one in important if retold.get(one.id, 1.0) < MOSTLY]
    return _within(VITAL_SHARE * sheet.snapshot.budget, current)


def _ahead(sheet: Sheet) -> set[str]:
    """Return the lines that name a day ahead and fit into their share of the file."""
    today, zone = sheet.snapshot.today, sheet.snapshot.zone
    dated = [one for one in sheet.standing if one.section not in _STAY and today <= last_day(one, zone)]
    return _within(AHEAD_SHARE * sheet.snapshot.budget, dated)


def _within(room: float, lines: Sequence[CurrentLine]) -> set[str]:
    """Return the most important of these lines that have room."""
    found = set[str]()
    for line in sorted(lines, key=lambda one: (one.importance, one.born_at), reverse=True):
        room -= length_of(line)
        if room < 0:
            break
        found.add(line.id)
    return found


def last_day(line: CurrentLine, zone: tzinfo) -> str:
    """Return the last day on which a line holds, or else that its text names (ISO 8601; "": none)."""
    return line.until or last_day_named(line.text, local(line.said_at or line.born_at, zone))


def length_of(line: CurrentLine) -> int:
    """Return about how many characters a line takes in the file."""
    return len(line.text) + AROUND_A_LINE


def _lines_to_evict(sheet: Sheet, room: int) -> list[CurrentLine]:
    """Return enough lines, in their order, for the file to fit once some are pointers, as far as those have room.

    Of these, the last ones stay if the file fits without their leaving.
    """
    excess, today = sheet.length - room, sheet.snapshot.today
    free, freed = _room_of_pointers(sheet, room) - _pointer_characters(sheet), dict[str, int]()
    chosen = list[CurrentLine]()
    for line in leaving(sheet) if excess > 0 else ():
        if excess <= 0:
            break
        cost = POINTER_CHARACTERS if free >= POINTER_CHARACTERS and _may_point(line, POINTER_CHARACTERS) else 0
        chosen.append(line)
        freed[line.id] = length_of(line) - cost
        excess, free = excess - freed[line.id], free - cost
    for line in reversed(chosen):
        if freed[line.id] <= -excess and not line.is_past(today):
            excess += freed.pop(line.id)
    return [line for line in chosen if line.id in freed]


def _may_point(line: CurrentLine, characters: int) -> bool:
    """Return whether a line that the program evicts may leave a pointer of this length."""
    return line.importance >= POINTED and characters < len(line.text)


def _spare_old_text(sheet: Sheet) -> list[CurrentLine]:
    """Return the lines by which the text from before the first dream exceeds its share, from its end."""
    parts = split_seed(render(sheet.document))
    excess = len(parts[0]) - OLD_TEXT_SHARE * sheet.snapshot.budget if parts else 0.0
    spare = list[CurrentLine]()
    for line in reversed([line for line in sheet.lines.values() if line.above]):
        if excess <= 0 or len(spare) + sheet.old_left >= MAX_OLD_LINES:
            break
        if not line.pinned:
            spare.append(line)
            excess -= length_of(line)
    return spare


def _evict(sheet: Sheet, lines: Sequence[CurrentLine], archive: Memory) -> None:
    """Remove these lines, as far as the search finds them, each with a pointer if there is room for one.

    The pointer of a line past its last day replaces no other pointer.
    """
    today = sheet.snapshot.today
    for line, operation, keywords in _with_keywords(sheet, [(line, None) for line in lines], archive):
        if keywords is None:
            sheet.unmovable[line.id] = _unfindable(line)
            continue
        pointer = _pointer(sheet, line, operation, keywords) if keywords else None
        pointer = pointer if pointer and _may_point(line, len(pointer.text)) else None
        while pointer and _are_too_many(sheet, pointers := [*_pointers(sheet), pointer]):
            if (least := _first_to_leave(sheet, pointers)) is pointer or line.is_past(today):
                pointer = None
            else:
                sheet.change(Change(Why.EVICTED, (least,)))
        sheet.change(_eviction(line, pointer))
        sheet.old_left += line.above


def _point_to_evicted(sheet: Sheet, archive: Memory) -> None:
    """Add the pointers for the model's evictions; a line that no words lead to stays."""
    wanted = _asked_pointers(sheet)
    sheet.take_back(line for line, _ in wanted)
    for line, operation, keywords in _with_keywords(sheet, wanted, archive):
        if keywords is None:
            sheet.unmovable[line.id] = _unfindable(line)
            sheet.refuse(sheet.unmovable[line.id])
            continue
        pointer = _pointer(sheet, line, operation, keywords) if keywords else None
        rests = sheet.rests_on(operation) if operation else ()
        sheet.change(_eviction(line, pointer if pointer and len(pointer.text) < len(line.text) else None, rests))


def _asked_pointers(sheet: Sheet) -> list[tuple[CurrentLine, Operation]]:
    """Return the lines that the model evicted and wants a pointer to, each with its operation."""
    asked = {
        one.operation.lines[0]: one.operation
        for one in sheet.told
        if one.applied and one.operation.action is Action.EVICT and one.operation.pointer
    }
    return [
        (line, asked[line.id])
        for change in sheet.changes
        if change.why is Why.EVICTED and not change.come
        for line in change.gone
        if line.id in asked and line.section is not SectionName.POINTERS and sheet.find(line.text) is None
    ]


def _unfindable(line: CurrentLine) -> Refusal:
    return Refusal("pointer", "operation", f"no words of {line.id} lead the search to it among {FIRST}; it stays")


def _eviction(line: CurrentLine, pointer: CurrentLine | None, rests: tuple[str, ...] = ()) -> Change:
    """Return the eviction of a line, with the pointer in its place and the crystal that it leads to as evidence."""
    return Change(
        Why.EVICTED, (line,), (pointer,) if pointer else (), (*rests, *([pointer.crystal] if pointer else ()))
    )


def _with_keywords(
    sheet: Sheet, wanted: Sequence[tuple[CurrentLine, Operation | None]], archive: Memory
) -> list[tuple[CurrentLine, Operation | None, str | None]]:
    """Return for each line the keywords that lead the search to it: the requested ones if they do.

    They are "" if an existing pointer, or one of these, leads to a line about the same; None if no words do.
    """
    if not wanted:
        return []
    crystals = [sheet.crystal_of(line) for line, _ in wanted]
    found = list[tuple[CurrentLine, Operation | None, str | None]]()
    with archive.trial([*sheet.snapshot.notes, *sheet.learnt, *crystals]) as trial:
        ranked = [_ranked(crystal.text, trial) for crystal in crystals]
        pointed = [keywords for _, keywords in filter(None, (parse_pointer(one.text) for one in _pointers(sheet)))]
        search = _Search(trial, len(wanted) + MAX_POINTERS)
        for (line, operation), words, crystal in zip(wanted, ranked, crystals, strict=True):
            stays = partial(_stays, sheet, _topic(sheet, line, operation))
            if any(_is_about(one, crystal) and search.finds(one, crystal) for one in pointed):
                keywords: str | None = ""
            elif operation is None:
                keywords = search.chosen(words, crystal, stays)
                # Without searches left, a line leaves without a pointer: among lines that look alike, few words lead
                # to one of them, but its whole text does.
                keywords = "" if keywords is None and not search.left else keywords
            else:
                search.left = max(search.left, TRIES_ASKED)
                named = operation.keywords
                is_led = bool(named) and stays(named) and search.finds(named, crystal)
                keywords = named if is_led else search.chosen(words, crystal, stays)
            pointed += [keywords] if keywords else []
            found.append((line, operation, keywords))
    return found


@dataclass(slots=True)
class _Search:
    """A trial that searches for the same keywords once, and at most `left` times more."""

    trial: Trial
    left: int
    _found: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def finds(self, keywords: str, crystal: Crystal) -> bool:
        """Return whether the keywords lead to this crystal; False if no searches are left."""
        if keywords not in self._found and self.left:
            self.left -= 1
            self._found[keywords] = self.trial.first(keywords, FIRST)
        return crystal.id in self._found.get(keywords, ())

    def chosen(self, ranked: tuple[str, ...], crystal: Crystal, stays: Callable[[str], bool]) -> str | None:
        """Return the best of these words that lead to the crystal, and whose pointer stays as it is written."""
        return choose(ranked, lambda words: stays(words) and self.finds(words, crystal), terms(crystal.text))


def _is_about(keywords: str, crystal: Crystal) -> bool:
    """Return whether a crystal has half of the keywords, so that a search returns it whatever its chance."""
    words = set(terms(keywords))
    return len(words & set(terms(crystal.text))) >= HELD * len(words)


def _stays(sheet: Sheet, topic: str, keywords: str) -> bool:
    """Return whether the pointer is shown as it is written: it does not look as if it held a secret."""
    text = render_pointer(topic, keywords)
    return sheet.snapshot.redaction.of(text) == text


def _ranked(text: str, trial: Trial) -> tuple[str, ...]:
    # Stop words never become keywords, and most crystals of a large store have them: do not count them.
    return candidates(text, trial.frequency(content_words(text)))


def _pointer(sheet: Sheet, line: CurrentLine, operation: Operation | None, keywords: str) -> CurrentLine:
    """Return the pointer that a line leaves behind."""
    topic = _topic(sheet, line, operation)
    return _pointer_line(sheet, topic, keywords, sheet.crystal_of(line).id, line.importance)


def _topic(sheet: Sheet, line: CurrentLine, operation: Operation | None) -> str:
    return topic_of((operation.text if operation else "") or sheet.snapshot.redaction.of(line.text))


def _pointer_line(sheet: Sheet, topic: str, keywords: str, crystal: str, importance: float) -> CurrentLine:
    text, now = render_pointer(topic, keywords), sheet.snapshot.now
    return CurrentLine("", SectionName.POINTERS, text, importance, Trust.AGENT, now, crystal=crystal)


def _mend(sheet: Sheet, archive: Memory) -> None:
    """Verify the existing pointers; one that no longer works gets other keywords, or leaves.

    Pointers to the lines that left in this dream are verified already.
    """
    made = {line.id for change in sheet.changes if change.why is Why.EVICTED for line in change.come}
    staying = [line for line in _pointers(sheet) if line.id not in made and line.crystal]
    if not staying:
        return
    behind = {crystal.id: crystal for crystal in sheet.snapshot.pointed}
    with archive.trial([*sheet.snapshot.notes, *sheet.learnt]) as trial:
        for line in staying:
            topic, keywords = parse_pointer(line.text) or ("", "")
            stays = partial(_stays, sheet, topic)
            if stays(keywords) and line.crystal in trial.first(keywords, FIRST):
                continue
            crystal = behind.get(line.crystal)
            search = _Search(trial, TRIES_ASKED)
            better = search.chosen(_ranked(crystal.text, trial), crystal, stays) if crystal else None
            come = (_pointer_line(sheet, topic, better, line.crystal, line.importance),) if better else ()
            sheet.change(Change(Why.REVISED if come else Why.EVICTED, (line,), come, (line.crystal,) if come else ()))


def _pointers(sheet: Sheet) -> list[CurrentLine]:
    found = (line for line in sheet.standing if line.section is SectionName.POINTERS and not line.pinned)
    return [line for line in found if parse_pointer(line.text) is not None]


def _first_to_leave(sheet: Sheet, pointers: Sequence[CurrentLine]) -> CurrentLine:
    """Return the pointer that leaves first: the least used, then the least important, then the oldest."""
    uses = {one.keywords: one.uses for one in sheet.snapshot.pointers}

    def worth(line: CurrentLine) -> tuple[int, float, datetime]:
        _, keywords = parse_pointer(line.text) or ("", "")
        return uses.get(keywords, 0), line.importance, line.born_at

    return min(pointers, key=worth)


def pointers_have(sheet: Sheet) -> tuple[int, int]:
    """Return how many characters the pointers have, and how many they may have."""
    return _pointer_characters(sheet), _room_of_pointers(sheet, room_for(sheet))


def _are_too_many(sheet: Sheet, pointers: Sequence[CurrentLine]) -> bool:
    room = _room_of_pointers(sheet, room_for(sheet))
    return len(pointers) > MAX_POINTERS or sum(map(length_of, pointers)) > room


def _pointer_characters(sheet: Sheet) -> int:
    return sum(map(length_of, _pointers(sheet)))


def _room_of_pointers(sheet: Sheet, room: int) -> int:
    """Return how many characters pointers may have, so that most of the file is lines."""
    return int(POINTER_SHARE * max(0, room - _fixed(sheet)))


def _fixed(sheet: Sheet) -> int:
    """Return the characters of headings, pins and the owner's own text, which no eviction frees."""
    return sheet.length - sum(length_of(line) for line in sheet.standing if not line.pinned)
