"""Talk: the messages to the model: the memory and what is new, then the outcome of each of its operations."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, tzinfo

from graphs.checks import OF_MODEL
from graphs.extractive import complete, counted_operations
from graphs.input_budget import as_shown
from graphs.room import (
    AROUND_A_LINE,
    is_little,
    leaving,
    length_of,
    length_with_pointers,
    pointers_have,
)
from graphs.sheet import SAID_ALREADY, Sheet, Told
from prompts import Prompt, load, quoted, render
from prompts.replies import read_reply
from state.changes.change import Change, CurrentLine
from state.document.operations import Action, Operation, Refusal, Why
from state.document.pointer import parse_pointer, render_pointer
from state.document.sections import SectionName
from state.dream import Evidence, Kind, Snapshot
from state.errors import ReplyError
from state.signals.hormones import Feeling, mood
from state.trust import Trust
from state.zone import day_of, full_time, local

Message = dict[str, str]
MOST_ANSWERS = 3
SAID_NOTHING = "(no text)"
MOST_REMOVED_SHOWN = 30
NEXT_SHOWN = 8
_TOLD = 20
_NAMES = {
    Kind.NOTE: "note",
    Kind.CRYSTAL: "said in a transcript",
    Kind.GAP: "open question",
    Kind.SKILL: "counted pattern",
    Kind.FEED: "economics",
    Kind.OLD_TEXT: "text from before the first dream",
    Kind.WORKING: "on the agent's mind in a session that is open",
}
_FELT = {
    Feeling.REWARD: ("reward", "rewards"),
    Feeling.ACHIEVEMENT: ("win", "wins"),
    Feeling.ERROR: ("friction", "frictions"),
    Feeling.URGENCY: ("urgency", "urgencies"),
    Feeling.SOCIAL: ("moment of closeness", "moments of closeness"),
}
_COUNTED = frozenset((SectionName.NICHE, SectionName.SKILLS))
NOT_SHOWN = frozenset((Kind.SKILL, Kind.FEED))


def prompt() -> Prompt:
    """Load the prompt of a dream."""
    return load("dream")


def opening(snapshot: Snapshot) -> list[Message]:
    """Return the first two messages: the rules, and everything that this dream reads, as data."""
    redaction, sheet = snapshot.redaction, begun(snapshot)
    asked = {line for one in snapshot.proposed for line in one.lines}
    sections = [
        (
            name.value,
            [
                {
                    "id": line.id,
                    "label": _label(line, snapshot, _uses(line, snapshot), is_asked=line.id in asked),
                    "text": redaction.of(line.text),
                }
                for line in snapshot.lines
                if line.section is name
            ],
        )
        for name in SectionName
    ]
    shown = [one for one in snapshot.evidence if one.kind not in NOT_SHOWN and one.id not in snapshot.unasked]
    system, user = render(
        prompt(),
        {
            "now": full_time(snapshot.now, snapshot.zone),
            "felt": _felt(snapshot),
            "budget": f"{(budget := sheet.told_budget):,}",
            "used": f"{sheet.length:,}",
            "free": f"{free:,}" if (free := budget - sheet.length) >= 0 else "",
            "excess": f"{-free:,}",
            "around": AROUND_A_LINE,
            "around_pointer": AROUND_A_LINE + len(render_pointer("", "")),
            "pointed": pointers_have(sheet)[0],
            "to_point": pointers_have(sheet)[1],
            "spare": sheet.spare,
            "sections": sections,
            "rules": [redaction.of(text) for text in snapshot.genome],
            "inputs": [
                {"id": one.id, "label": label(one, snapshot.zone), "text": as_shown(one, redaction)}
                for one in sorted(shown, key=_as_said)
            ],
            "removed": [redaction.of(text) for text in snapshot.tombstones[-MOST_REMOVED_SHOWN:]],
            "over": sheet.length > snapshot.budget,
            "leaving": ", ".join(line.id for line in _next_to_leave(sheet) or leaving(sheet)[:NEXT_SHOWN]),
            "former": former_outcome(snapshot),
        },
    )
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _as_said(piece: Evidence) -> tuple[bool, float, int, int]:
    """Sort notes and transcripts by time; other inputs follow by kind and number."""
    is_news = piece.kind in (Kind.NOTE, Kind.CRYSTAL)
    return not is_news, piece.at.timestamp() if is_news else 0.0, list(Kind).index(piece.kind), int(piece.id[1:])


def label(piece: Evidence, zone: tzinfo) -> str:
    """Describe an input: when it was said, its kind, its importance, who said it, and its marks."""
    marks = [f"replaces {', '.join(piece.replaces)}"] if piece.replaces else []
    marks += [f"heard {piece.heard}"] if piece.heard else []
    at = f"{local(piece.at, zone):%Y-%m-%d %H:%M}"
    marks = [*_said_by(piece.trust), *marks]
    name = _FELT[Feeling(piece.about)][0] if piece.kind is Kind.FELT else _NAMES[piece.kind]
    return ", ".join((at, name, f"importance {piece.importance:.1f}", *marks))


def _said_by(trust: Trust) -> list[str]:
    """Return whose words these are, unless the agent's, as most are."""
    return [] if trust is Trust.AGENT else [f"from {trust}"]


def begun(snapshot: Snapshot) -> Sheet:
    """Return the sheet before the model has answered, with the lines that the program counts.

    Lines that quote a page or a tool leave; search still shows them.
    """
    sheet = Sheet(snapshot)
    for line in snapshot.lines:
        if line.trust.rank < Trust.AGENT.rank and not line.pinned and line.id not in snapshot.handwritten:
            sheet.change(Change(Why.EVICTED, (line,)))
    complete(sheet, counted_operations(snapshot), asks=False)
    return sheet


def heard(snapshot: Snapshot, messages: Sequence[Message]) -> Sheet:
    """Return the sheet after all of the model's answers so far."""
    sheet = begun(snapshot)
    for message in messages:
        if message["role"] == "assistant":
            _play_answer(sheet, message["content"])
    return sheet


def _play_answer(sheet: Sheet, answer: str) -> None:
    """Play an answer. It settles the previous requests for corrections: only what the model said again counts."""
    sheet.is_judged = True
    sheet.told = [one for one in sheet.told if not one.mend]
    redaction, forgotten = sheet.snapshot.redaction, sheet.snapshot.forgotten

    def clean(text: str) -> str:
        return forgotten.masked(redaction.of(text))

    # Include lines that left in this dream: their changes may be repeated.
    lines = [*sheet.snapshot.lines, *sheet.standing]
    try:
        reply = read_reply(answer, {line.id: line.section for line in lines}, clean)
    except ReplyError as error:
        why = "the answer has no text" if answer == SAID_NOTHING else str(error)
        sheet.unread = [Refusal("schema", "dream", why)]
        sheet.refused += sheet.unread
        return
    before = len(sheet.told)
    known = {line.id: line.text for line in sheet.standing} | {one.id: one.text for one in sheet.snapshot.evidence}
    sheet.unread = list(reply.refused)
    sheet.refused += reply.refused
    operations = list[Operation]()
    for operation in reply.operations:
        # Text that its lines and inputs show the model unredacted is not a secret.
        clear = [redaction.of(known[name]) for name in (*operation.cites, *operation.lines) if name in known]
        text, keywords = redaction.of(operation.text, clear), clean(operation.keywords)
        operations.append(replace(operation, text=text, keywords=keywords))
    sheet.play(operations, OF_MODEL, by_model=True)
    refused = {cite for one in sheet.told[before:] if one.mend for cite in one.operation.cites}
    sheet.heard |= sheet.inputs.keys() & set(reply.consumed) - refused


def reply(sheet: Sheet, answers: int) -> Message | None:
    """Report the outcome of the last answer if something is left to correct or choose; None if the dream may end."""
    wrong = [one for one in sheet.told if one.mend]
    length, budget = length_with_pointers(sheet), sheet.told_budget
    is_over = not is_little(sheet, length)
    if answers >= MOST_ANSWERS or not (wrong or sheet.unread or is_over):
        return None
    rows = [f"That was answer {answers} of {MOST_ANSWERS} at most."]
    # The model knows nothing of the lines that the program counts. An insight is no line, whatever section it names.
    if stand := [
        one
        for one in sheet.told
        if one.applied and (one.operation.action is Action.LEARN or one.operation.section not in _COUNTED)
    ]:
        rows.append("These stand; do not say them again:")
        rows += _said(f"- {_words(one)}: {one.words}" for one in stand)
    if refused := [f"- {_words(one)}: {one.words}" for one in wrong] + [
        f"- {sheet.snapshot.redaction.of(one.figures)}" for one in sheet.unread
    ]:
        rows.append("These were refused:")
        rows += _said(refused)
    if asks := [f"- {_words(one)}: {one.words}" for one in sheet.told if one.asks]:
        rows += ["These wait for the owner; do not say them again:", *_said(asks)]
    rows.append(
        f"With the pointers that you ask for, the file has {length:,} of {budget:,} characters; of the lines of "
        f"before, {max(0, sheet.spare)} more may leave."
    )
    if is_over:
        rows.append(f"That is {length - budget:,} too many. If you choose nothing, these leave, in this order:")
        rows += [
            f"- {line.id}{'' if line.id in sheet.began else ' (new)'}: "
            f"{quoted(sheet.snapshot.redaction.of(line.text)[:80])}"
            for line in _next_to_leave(sheet)
        ]
    rows.append(
        "Answer with the operations that mend this, and nothing else: the same JSON object. They may name new ids."
    )
    return {"role": "user", "content": sheet.snapshot.forgotten.masked("\n".join(rows))}


def _said(rows: Iterable[str]) -> list[str]:
    """Return the first of these rows, and how many more there are."""
    every = list(rows)
    return [*every[:_TOLD], *([f"- and {len(every) - _TOLD} more"] if len(every) > _TOLD else [])]


def former_outcome(snapshot: Snapshot) -> list[str]:
    """Return what the program did after the last answer of the dream before, which no answer was told."""
    former = snapshot.former
    if former is None:
        return []
    shown = snapshot.redaction.of

    def short(line: CurrentLine) -> str:
        return f"{line.id} {quoted(shown(line.text)[:80])}"

    done = {name for one in former.operations for name in (*one.lines, *one.cites)}
    left = [line for line, why in former.left if why is Why.EVICTED and line.id not in done]
    rows = [
        f"- {'a pointer' if line.section is SectionName.POINTERS else 'a line'} left, for lack of room: {short(line)}"
        for line in left
    ]
    denied = [(one.operation, one.figures) for one in former.refused if not one.figures.endswith(SAID_ALREADY)]
    rows += [
        f"- refused: {one.action} {quoted(shown(one.text)[:60])}: {shown(figures)}"
        for one, figures in denied
        if one is not None and done.isdisjoint((*one.lines, *one.cites))
    ]
    asked = [one.operation for one in former.proposed]
    rows += [f"- waits for the owner: {one.action} {quoted(shown(one.text)[:60])}" for one in asked]
    return [snapshot.forgotten.masked(row) for row in _said(rows)]


def _next_to_leave(sheet: Sheet) -> list[CurrentLine]:
    """Return the lines that leave if nobody chooses, as long as the file is too long."""
    excess, found = sheet.length - sheet.snapshot.budget, list[CurrentLine]()
    for line in leaving(sheet):
        if excess <= 0:
            break
        found.append(line)
        excess -= length_of(line)
    return found


def _uses(line: CurrentLine, snapshot: Snapshot) -> int:
    """Return how often a search asked for what a line says, or with a pointer's keywords."""
    if line.section is SectionName.POINTERS:
        _, keywords = parse_pointer(line.text) or ("", "")
        return next((one.uses for one in snapshot.pointers if one.keywords == keywords), 0)
    return next((one.accesses for one in snapshot.twins if one.id == line.crystal), 0)


def _label(line: CurrentLine, snapshot: Snapshot, uses: int, *, is_asked: bool) -> str:
    known = [
        day_of(line.born_at, snapshot.zone),
        f"{length_of(line)} characters",
        f"importance {line.importance:.1f}",
    ]
    known += ["by the owner"] if line.id in snapshot.handwritten else _said_by(line.trust)
    known += [f"until {line.until}"] if _is_date(line.until) else []
    known += ["over"] if line.is_past(snapshot.today) else []
    known += ["pinned"] if line.pinned else []
    known += [f"asked for {uses} time{'s' * (uses > 1)}"] if uses else []
    known += ["a change of it waits for the owner"] if is_asked else []
    return ", ".join(known)


def _is_date(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


def _felt(snapshot: Snapshot) -> str:
    """Return a sentence about what was felt since the last dream; the causes are inputs."""
    felt = snapshot.felt
    if not felt.events:
        return "Nothing was felt since the last dream."
    counts = Counter(feeling for feeling, _ in felt.events)
    told = ", ".join(f"{count} {_FELT[feeling][count > 1]}" for feeling, count in counts.most_common())
    return f"Since the last dream: {told} (at its height {mood(felt.height)})."


def _words(told: Told) -> str:
    one = told.operation
    return f"{one.action} {', '.join(one.lines[:5]) or quoted(one.text[:60])}"
