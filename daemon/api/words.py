"""Words: what people read in place of the codes of the ledger: why a dream ran, how it ended, who made a version."""

from graphs.extractive import EXTRACTIVE
from state.document.operations import Why
from state.dream import EDIT, HUMAN, MERGED, REPAIRED, RESTORE, REVIEW, UNDO, Reason
from state.text.words import counted

WITHOUT_MODEL = "without a model"
_REASONS: dict[str, str] = {
    Reason.MANUAL: "on request",
    Reason.INTERVAL: "its time had come",
    Reason.SESSION_END: "a session had ended",
    Reason.IDLE: "nothing new came for a while",
    Reason.PRESSURE: "many notes waited",
    Reason.CATCH_UP: "it was overdue",
    Reason.SPIKE: "much was felt",
    Reason.FIRST_BREATH: "the first one",
    Reason.FLOOR: "a note had waited for a day",
}
_OUTCOMES = {"committed": "", "rejected": "refused", "skipped": "nothing to do", "running": "not finished yet"}
CAUSES = {
    HUMAN: "your edit",
    MERGED: "your edit during a dream",
    EDIT: "your edit",
    REVIEW: "your answers",
    UNDO: "your undo",
    RESTORE: "restored",
    REPAIRED: "found in the file",
}
_FATES: dict[str, str] = {
    Why.REVISED: "changed",
    Why.EVICTED: "put away",
    Why.WEIGHED: "weighed anew",
    Why.RECALLED: "brought back",
}
_STEPS = {
    "follow": "followed",
    "resume": "resumed",
    "ingest": "read",
    "absorb": "took in",
    "embed": "embedded",
    "gather": "gathered",
    "synthesize": "answered",
    "guard": "checked",
    "evict": "made room",
    "commit": "saved",
}
_ORIGINS = {
    "scratch": "a note",
    "session": "a conversation",
    "seed": "an earlier MEMORY.md",
    "dream": "a dream",
    "working": "working memory",
    "line": "a line of MEMORY.md",
}


def reason_words(reason: str) -> str:
    """Return why a dream ran."""
    return _REASONS.get(reason, reason)


def outcome_words(outcome: str) -> str:
    """Return how a dream ended; "" if it did what it was to."""
    return _OUTCOMES.get(outcome, outcome)


def cause_words(cause: str, reason: str = "") -> str:
    """Return what made a version: a dream, or what you did."""
    what = CAUSES.get(cause, f"a {cause}" if cause else "")
    return f"{what} {reason}" if cause == RESTORE and reason else what


def fate_words(why: str) -> str:
    """Return what a change did to its lines."""
    return _FATES.get(why, why)


def author_words(author: str) -> str:
    """Return who wrote: a model by its name without its provider's, or that none did."""
    return WITHOUT_MODEL if author == EXTRACTIVE else "you" if author == "owner" else author.rpartition("/")[2]


def action_words(action: str) -> str:
    """Return what a proposal would do to its lines."""
    return {"revise": "change", "evict": "put away", "weigh": "weigh anew"}.get(action, action)


def trust_words(trust: str) -> str:
    """Return who said a text."""
    return {"owner": "you", "agent": "your agent", "tool": "a tool", "web": "a page"}.get(trust, trust)


def origin_words(origin: str) -> str:
    """Return where a text was found."""
    return _ORIGINS.get(origin, origin)


def step_words(node: str) -> str:
    """Return what a step of a dream has done."""
    return _STEPS.get(node, node)


def signal_words(signal: str) -> str:
    """Return what a share of a result's relevance is for."""
    return {"cosine": "meaning", "near": "words", "beside": "neighbours", "period": "time"}.get(signal, signal)


def waiting_words(number: int, *, more: bool = False) -> str:
    """Return how many notes wait for a dream."""
    notes = f"{number:,}+ notes" if more else counted(number, "note")
    return f"{notes} {'waits' if number == 1 and not more else 'wait'}" if number else "no note waits"


def proposals_words(number: int) -> str:
    """Return how many proposals wait for their owner."""
    return f"{counted(number, 'proposal')} {'waits' if number == 1 else 'wait'} for you"
