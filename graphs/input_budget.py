"""Input budget: chooses the inputs that fit into the model's context, so that no kind of memory starves another."""

from collections.abc import Sequence
from dataclasses import replace

from state.dream import Evidence, Kind, Snapshot

# Share of the model's context for inputs: the rest is for the prompt, the current lines and the answer.
SHARE_OF_CONTEXT = 0.4
# Share of that for notes; a dream takes in only as many notes as fit.
SHARE_OF_NOTES = 0.75
CHARACTERS_PER_TOKEN = 3
MAX_PIECE_CHARACTERS = 2_000
DEFAULT_CONTEXT_TOKENS = 16_000
MAX_CHARACTERS = 60_000
_AROUND_A_PIECE = 80


def capped(snapshot: Snapshot, context_tokens: int | None) -> Snapshot:
    """Keep as many inputs as fit into the model's context: notes first, then by importance.

    A long input is cut; its crystal stays whole. What does not fit is not lost: a crystal that is left out is input
    of a later dream, and a snapshot has only as many notes as fit (`room_of_notes`).
    """
    room = _room(context_tokens)
    kept: list[Evidence] = []
    for piece in sorted(snapshot.evidence, key=_order):
        short = piece if len(piece.text) <= MAX_PIECE_CHARACTERS else replace(piece, text=_cut(piece.text))
        if room_of(short.text) > room:
            continue
        room -= room_of(short.text)
        kept.append(short)
    ids = {piece.id for piece in kept}
    unasked = tuple(name for name in snapshot.unasked if name in ids)
    return replace(snapshot, evidence=tuple(sorted(kept, key=_by_id)), unasked=unasked)


def room_of_notes(context_tokens: int | None) -> int:
    """Return the characters available for the notes of one dream, as counted by `room_of`."""
    return int(_room(context_tokens) * SHARE_OF_NOTES)


def room_of(text: str) -> int:
    """Return how many characters an input takes in the prompt."""
    return min(len(text), MAX_PIECE_CHARACTERS) + _AROUND_A_PIECE


def _room(context_tokens: int | None) -> int:
    tokens = context_tokens or DEFAULT_CONTEXT_TOKENS
    return min(MAX_CHARACTERS, int(tokens * CHARACTERS_PER_TOKEN * SHARE_OF_CONTEXT))


def numbered(kind: Kind, pieces: Sequence[Evidence], start: int = 1) -> tuple[Evidence, ...]:
    """Number the pieces within their kind: N1, N2 and so on."""
    return tuple(replace(piece, id=f"{kind.value}{number}") for number, piece in enumerate(pieces, start))


def _cut(text: str) -> str:
    return text[: MAX_PIECE_CHARACTERS - 1].rsplit(" ", 1)[0] + "…"


def _order(piece: Evidence) -> tuple[int, float, int]:
    first = {Kind.NOTE: 0, Kind.FEED: 1, Kind.SKILL: 1, Kind.OLD_TEXT: 3, Kind.WORKING: 4}
    return first.get(piece.kind, 2), -piece.importance, int(piece.id[1:])


def _by_id(piece: Evidence) -> tuple[int, int]:
    return list(Kind).index(piece.kind), int(piece.id[1:])
