"""Input budget: chooses the inputs that fit into the model's context, so that no kind of memory starves another.

A long input is shown in parts, one in each dream, and is consumed with the last of them.
"""

from collections.abc import Sequence
from dataclasses import replace

from state.dream import MOST_SHOWN, Evidence, Kind, Snapshot
from state.secrets.policy import Redaction
from state.text.chunks import best_end

# Share of the model's context for inputs: the rest is for the prompt, the current lines and the answer.
SHARE_OF_CONTEXT = 0.4
# Share of that for notes; a dream takes in only as many notes as fit.
SHARE_OF_NOTES = 0.75
# Share of the room for one input, and the least that is shown of it.
SHARE_OF_ONE = 0.3
LEAST_SHOWN = 200
CHARACTERS_PER_TOKEN = 3
DEFAULT_CONTEXT_TOKENS = 16_000
MAX_CHARACTERS = 60_000
_AROUND_A_PIECE = 80


def capped(snapshot: Snapshot, context_tokens: int | None) -> Snapshot:
    """Keep as many inputs as fit into the model's context: notes first, then by importance; at least one.

    Of a long input a part is shown. What does not fit is not lost: a crystal that is left out is input of a later
    dream, and a snapshot has only as many notes as fit (`room_of_notes`).
    """
    room = _room(context_tokens)
    kept: list[Evidence] = []
    for piece in sorted(snapshot.evidence, key=_order):
        part = _part(piece, snapshot, context_tokens)
        taken = room_of(part.shown, context_tokens)
        if kept and taken > room:
            continue
        room -= taken
        kept.append(part)
    ids = {piece.id for piece in kept}
    unasked = tuple(name for name in snapshot.unasked if name in ids)
    return replace(snapshot, evidence=tuple(sorted(kept, key=_by_id)), unasked=unasked)


def room_of_notes(context_tokens: int | None) -> int:
    """Return the characters available for the notes of one dream, as counted by `room_of`."""
    return int(_room(context_tokens) * SHARE_OF_NOTES)


def room_of(text: str, context_tokens: int | None) -> int:
    """Return how many characters an input takes in the prompt."""
    return min(len(text), _most_of_one(context_tokens)) + _AROUND_A_PIECE


def whole(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot for a dream without a model, which takes in the rest of each input at once."""
    return replace(snapshot, evidence=tuple(replace(one, end=_end(one)) for one in snapshot.evidence))


def as_shown(piece: Evidence, redaction: Redaction) -> str:
    """Return the part of an input that the model is shown, and that it is a part."""
    said = redaction.of(piece.text)
    part = said[piece.start : piece.end or None].strip()
    left = f" … {len(said) - piece.end:,} more characters" if piece.end else ""
    return ("continued … " if piece.start else "") + part + left + (" in the next dream" if piece.goes_on else "")


def _most_of_one(context_tokens: int | None) -> int:
    return max(LEAST_SHOWN, int(_room(context_tokens) * SHARE_OF_ONE) - _AROUND_A_PIECE)


def _part(piece: Evidence, snapshot: Snapshot, context_tokens: int | None) -> Evidence:
    """Return the input with the place where what is shown of it ends."""
    most = _most_of_one(context_tokens)
    if len(piece.text) - piece.start <= most or piece.id in snapshot.unasked:
        return replace(piece, end=_end(piece))
    text = snapshot.redaction.of(piece.text)  # before it is cut: half a secret is not recognised
    if len(text) - piece.start <= most:
        return replace(piece, text=text)
    end = best_end(text, piece.start + most * 2 // 3, piece.start + most)
    return replace(piece, text=text, end=min(end, MOST_SHOWN))


def _end(piece: Evidence) -> int:
    return 0 if len(piece.text) <= MOST_SHOWN else MOST_SHOWN


def _room(context_tokens: int | None) -> int:
    tokens = context_tokens or DEFAULT_CONTEXT_TOKENS
    return min(MAX_CHARACTERS, int(tokens * CHARACTERS_PER_TOKEN * SHARE_OF_CONTEXT))


def numbered(kind: Kind, pieces: Sequence[Evidence], start: int = 1) -> tuple[Evidence, ...]:
    """Number the pieces within their kind: N1, N2 and so on."""
    return tuple(replace(piece, id=f"{kind.value}{number}") for number, piece in enumerate(pieces, start))


def _order(piece: Evidence) -> tuple[int, float, int]:
    first = {Kind.NOTE: 0, Kind.FEED: 1, Kind.SKILL: 1, Kind.OLD_TEXT: 3, Kind.WORKING: 4}
    return first.get(piece.kind, 2), -piece.importance, int(piece.id[1:])


def _by_id(piece: Evidence) -> tuple[int, int]:
    return list(Kind).index(piece.kind), int(piece.id[1:])
