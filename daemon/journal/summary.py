"""Summary: a dream, or what its owner did, in a sentence: the words of the window and of the terminal."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from daemon.journal.dream import DreamRun
from state.document.operations import Refusal
from state.dream import EDIT, OWNERS, OWNERS_EDITS, OWNERS_RUNS, RESTORE, REVIEW, UNDO
from state.stores.database.tables import Run
from state.stores.history.lineage import Version
from state.text.words import counted

_TIMES = ("", "once", "twice", "three times", "four times", "five times")
_TOPICS, _LONGEST_TOPIC = 3, 40
_DONE = {
    "added": "learnt", "revised": "changed", "recalled": "brought back", "closed": "answered", "evicted": "put away",
}  # fmt: skip


class Kind(StrEnum):
    """How a run is shown."""

    DREAM = "dream"
    NOTHING = "nothing"
    OWNER = "owner"
    FAILED = "failed"
    SKIPPED = "skipped"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Sentence:
    """What a run did: `lead` ("Failed:", "You:") stands before what is `said`; `about` and `figures` beside it."""

    kind: Kind
    said: str
    lead: str = ""
    about: str = ""
    figures: str = ""

    def __str__(self) -> str:
        return f"{self.lead} {self.said}".strip()


def local_time(at: datetime, now: datetime) -> str:
    """Say a moment as people do: Thu 26 Nov, 23:10; with its year if that is another than now's."""
    return f"{local_day(at, now)}, {at:%H:%M}"


def local_day(at: date, now: date) -> str:
    """Say a day as people do: Thu 26 Nov."""
    year = f" {at.year}" if at.year != now.year else ""
    return f"{at:%a} {at.day} {at:%b}{year}"


# ------------------------------------------------------------------------------------------------ one run


def summary(one: DreamRun) -> Sentence:
    """Return a run in a sentence."""
    run = one.run
    match run.outcome:
        case "failed" | "rejected":
            return Sentence(Kind.FAILED, f"{_why(run)}.{_its_notes(one)}", "Failed:", "", _figures(one))
        case "skipped":
            return Sentence(Kind.SKIPPED, _skipped(run))
        case "running":
            return Sentence(Kind.RUNNING, "It is dreaming, or was interrupted; then the next dream goes on with it.")
    if is_owners(one):
        return owners_acts([one])
    did, without = _did(one.version), _without_model(run.detail)
    said = " ".join(filter(None, (did or "Nothing new.", without)))
    return Sentence(Kind.DREAM if did else Kind.NOTHING, said, "", topics(one.about), _figures(one))


def ended(one: DreamRun, before: datetime | None) -> str:
    """Say in a line how the dream ended that somebody asked for; `before` is when the one before it ended."""
    said = summary(one)
    match said.kind:
        case Kind.SKIPPED | Kind.NOTHING:
            return f"Nothing new since {before:%H:%M}." if before else "Nothing new."
        case Kind.FAILED:
            return f"Failed: {_why(one.run)}; your notes wait."
        case Kind.DREAM:
            cost = f", {dollars(one.spent.usd)}" if one.spent.usd else ""
            first, *more = said.said.split(". ", 1)
            return " ".join((f"{first.rstrip('.')}{cost}.", *more))
    return str(said)


def topics(texts: Sequence[str]) -> str:
    """Return the beginnings of these texts in a row."""
    short = "; ".join(filter(None, (_beginning(text) for text in texts[:_TOPICS])))
    return f"{short} …" if len(texts) > _TOPICS and not short.endswith("…") else short


def _beginning(text: str) -> str:
    """Return the first words of a text, up to the end of its first clause."""
    clause = re.split(r"[:;.!?](?:\s|$)| – | — ", " ".join(text.split()), maxsplit=1)[0]
    if len(clause) <= _LONGEST_TOPIC:
        return clause
    head, space, _ = clause[:_LONGEST_TOPIC].rpartition(" ")
    return f"{head.rstrip(',;') if space else clause[:_LONGEST_TOPIC]} …"


def _did(made: Version | None) -> str:
    """Say what a dream did to the lines of its version; empty if nothing."""
    if made is None:
        return ""
    said = done_words(made.cause, {name: getattr(made, name) for name in _DONE})
    asks = f"It asks you about {made.asked:,}." if made.asked else ""
    return " ".join(filter(None, (_sentence(said), asks)))


def done_words(cause: str, counts: Mapping[str, int]) -> str:
    """Say how many lines a version added, changed and so on, by the names of its counts; empty if none."""
    words = _DONE | {"added": "added"} if cause in OWNERS_EDITS else _DONE
    return ", ".join(f"{word} {counts[name]:,}" for name, word in words.items() if counts.get(name))


def _figures(one: DreamRun) -> str:
    notes = one.version.notes if one.version is not None else one.notes
    parts = (
        counted(notes, "note") if notes else "",
        dollars(one.spent.usd) if one.spent.usd or one.run.outcome in ("failed", "rejected") else "",
        _lasted(one.seconds) if one.seconds else "",
    )
    return " · ".join(filter(None, parts))


def dollars(value: float) -> str:
    """Return dollars with as many places as say something."""
    if 0 < value < 0.0001:
        return "under $0.0001"
    places = 2 if value >= 0.1 else max(2, len(f"{value:.4f}".rstrip("0")) - 2)
    return f"${value:,.{places}f}" if value else "$0"


def _lasted(seconds: float) -> str:
    if seconds < 1:
        return "under 1 s"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


# ------------------------------------------------------------------------------------------------ what went wrong

# What the ledger says of a failure, and what to say instead, the first that fits.
_FAILURES: tuple[tuple[str, str], ...] = (
    (r"failed \((\d{3})\) \(tries: (\d+)", "the model's server answered {0} {times}"),
    (r"failed \((\d{3})\)", "the model's server answered {0}"),
    (r"cannot be reached", "the model's server could not be reached"),
    (r"did not answer within (\S+) s", "the model did not answer within {0} s"),
    (r"broke the connection off", "the connection to the model broke off"),
    (r"limiting the rate|cannot be asked now", "the model's server takes no more requests for now"),
    (r"key is missing", "the key for the model is missing"),
    (r"does not accept the key", "the model's server does not accept the key"),
    (r"is not known there", "the model's server does not know this model"),
    (r"used up", "the account at the model's provider is used up"),
    (r"no request as long", "the notes were too long for this model"),
    (r"refused the content by its policy", "the model's provider refused the text by its policy"),
    (r"has to ask you something first", "the agent that dreams has to ask you something first"),
    (r"there is no program", "the program that dreams is not there"),
    (r"limits\.\w+_per_day|daemon\.\w+_per_day", "what the model may cost in a day is used up"),
    (r"limits\.\w+_per_dream", "it would have taken more than one dream may"),
    (r"no chat completion|answered nothing|no answer|no text", "the model gave no answer that can be used"),
    (r"answered with a redirect", "the model's server sent the request elsewhere"),
    (r"refused", "the model's server refused the request"),
    (r"interrupted|process that dreams", "it was interrupted"),
    (r"^CONFLICT", "MEMORY.md was saved at the same moment"),
    (r"no space|disk|STORAGE_ERROR", "the disk could not be written"),
    (r"^(?:MODEL_ERROR|CEILING)", "the model could not be asked"),
)
_REFUSALS: tuple[tuple[str, str], ...] = (
    (r"^the answer changes nothing", "the model's answer used none of the notes"),
    (r"schema|no text|read", "the model's answer could not be read"),
)
# Why a change was refused: its guard and a part of its figures, and what to say, the first that fits.
_GUARDS: tuple[tuple[str, str, str], ...] = (
    ("human veto", "forgotten", "you had it forgotten"),
    ("human veto", "meanwhile", "you changed the line meanwhile"),
    ("human veto", "", "you had deleted it"),
    ("citation", "", "no note says so"),
    ("pinned", "", "you pinned the line"),
    ("approval", "asked already", "you were asked about it already"),
    ("approval", "written by the owner", "you wrote the line, and no note asks to change it"),
    ("approval", "third", "more than a third of the memory would change at once"),
    ("approval", "", "enough lines were tidied at once"),
    ("bounds", "no line of it says", "its lines do not say so"),
    ("bounds", "", "one note would change too many lines"),
    ("eviction runaway", "", "too many lines would leave at once"),
    ("budget", "", "there is no room for it"),
    ("pointer", "", "no search would find it again"),
    ("empty synthesis", "", "it says nothing"),
    ("schema", "", "the answer could not be read"),
    ("nothing taken in", "", "the answer used none of the notes"),
    ("refused before", "", "models left these notes out, so they came in as they are"),
    ("shape", "says so already", "another line says so already"),
    ("shape", "earlier operation", "the line had changed by then"),
    ("shape", "at most", "it is too long for a line"),
    ("shape", "written by the program", "dreamd writes that line itself"),
    ("shape", "nothing would change", "it would change nothing"),
)


def refused(one: Refusal) -> str:
    """Say why a change was refused."""
    fits = (words for guard, part, words in _GUARDS if guard == one.guard and part in one.figures)
    return next(fits, "it does not fit MEMORY.md")


def _why(run: Run) -> str:
    """Say why a dream failed or was refused."""
    if run.outcome == "rejected":
        return _said((*_REFUSALS, *_FAILURES), run.detail) or "the model's answer could not be used"
    return _why_failed(run.detail)


def _why_failed(detail: str) -> str:
    """Say why a dream failed, without the names of exceptions, addresses and what a server wrote."""
    return _said(_FAILURES, detail) or "something went wrong that dreamd does not know"


def _said(rows: Iterable[tuple[str, str]], detail: str) -> str:
    for pattern, words in rows:
        if found := re.search(pattern, detail):
            groups = found.groups()
            tries = int(groups[-1]) if len(groups) > 1 else 0
            return words.format(*groups, times=_TIMES[tries] if tries < len(_TIMES) else f"{tries} times")
    return ""


def _its_notes(one: DreamRun) -> str:
    """Say what became of the notes of a dream that failed."""
    if not one.notes:
        return " Nothing changed."
    notes = "Its note" if one.notes == 1 else f"Its {one.notes:,} notes"
    if one.taken_at is None:
        return f" {notes} {'waits' if one.notes == 1 else 'wait'}."
    days = (one.taken_at.date() - one.run.started_at.date()).days
    when = "later that day" if days == 0 else "the next day" if days == 1 else f"{days} days later"
    return f" {notes} came in {when}."


def _without_model(detail: str) -> str:
    """Say why a dream did without its model, or left something out."""
    if withheld := re.match(r"(\d[\d,]*) texts? withheld", detail):
        return f"It left out {withheld[1]} that you had forgotten."
    is_without = re.match(r"the model (?:failed|gave)|was begun with a model", detail) is not None
    why = "no model is set any more" if detail.startswith("was begun") else _why_failed(detail)
    return f"Without the model: {why}." if is_without else ""


def _skipped(run: Run) -> str:
    """Say why a look at what is new led to no dream, and how often in a row."""
    new = re.match(r"(\d+) new, (\d+) wanted", run.detail)
    said = f"{new[1]} of {new[2]} that a dream wants" if new and int(new[1]) else "Nothing new"
    return f"{said}, {run.times:,} times in a row." if run.times > 1 else f"{said}."


# ------------------------------------------------------------------------------------------------ the owner


def is_owners(one: DreamRun) -> bool:
    """Return whether its owner did it, and no dream."""
    if one.version is not None:
        return one.version.cause in OWNERS
    return one.run.reason.startswith(tuple(one.partition("{")[0] for one in OWNERS_RUNS.values()))


def owners_acts(runs: Iterable[DreamRun]) -> Sentence:
    """Return what the owner did in these runs: You: accepted 4 · edited 1 · undid 1."""
    every = Counter[str]()
    for one in runs:
        every.update(_acts(one.version) if one.version is not None else {})
    said = " · ".join(f"{word} {count:,}" if count else word for word, count in every.items())
    return Sentence(Kind.OWNER, said or "changed nothing", "You:")


def _acts(made: Version) -> dict[str, int]:
    """Return how many of each act a version of its owner has; 0: an act that is not counted."""
    if made.cause == REVIEW:
        answers = re.findall(r"(accepted|declined) ([\d, ]+)", made.reason)
        return {word: numbers.count(",") + 1 for word, numbers in answers}
    if made.cause == EDIT:
        edits = re.findall(r"(\d+) (\w+)", made.reason)
        return {word: int(count) for count, word in edits} or {"put right": 1}
    if made.cause == UNDO:
        return {"undid": made.reason.count(",") + 1}
    if made.cause == RESTORE:
        return {f"restored {made.reason}": 0}
    words = {"added": made.added, "edited": made.revised, "deleted": made.closed}
    return {word: count for word, count in words.items() if count} or {"edited the file": 0}
