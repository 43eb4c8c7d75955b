"""Turn crystals: turns of a transcript cut into chunks, without secrets, with speaker and date beside the text."""

from collections.abc import Iterable

from daemon.ingest.formats.own_answers import is_own_answer
from daemon.ingest.formats.turn import Turn
from state.crystals.crystal import Crystal, Kind, Origin
from state.crystals.salience import Salience, salience
from state.secrets.policy import DEFAULT, Redaction
from state.text.chunks import chunk
from state.trust import Trust

# What was done is worth finding again, and seldom worth the attention of a dream.
_CALL = Salience(Kind.EPISODE, 0.2)


def crystals_of(turns: Iterable[Turn], redaction: Redaction = DEFAULT) -> list[Crystal]:
    """Return one crystal for each chunk of each turn, in their order, without their secrets.

    The context is "Speaker, 8 May 2023", or the path of headings of a document's block. The chunks of one turn share
    its position, kind and importance.
    """
    return [crystal for turn in turns for crystal in _crystals(turn, redaction)]


def _crystals(turn: Turn, redaction: Redaction) -> Iterable[Crystal]:
    if turn.trust in (Trust.TOOL, Trust.WEB) and is_own_answer(turn.text):
        return
    text = redaction.of(turn.text)  # before it is cut: half a secret is not recognised
    worth = _CALL if turn.call else salience(text, turn.trust)
    for piece in chunk(text):
        yield Crystal(
            text=piece,
            origin=Origin.SESSION,
            created_at=turn.at,
            kind=worth.kind,
            importance=worth.importance,
            trust=turn.trust,
            context=redaction.of(context_of(turn)),
            speaker=redaction.of(turn.speaker),
            session=turn.session,
            position=turn.position,
            source=turn.source,
            heard=turn.heard,
        )


def context_of(turn: Turn) -> str:
    """Return who said it and when, or under which headings it stands: a search needs that beside the text."""
    date = f"{turn.at.day} {turn.at:%B %Y}"
    return ", ".join(part for part in (turn.heading, turn.speaker[:1].upper() + turn.speaker[1:], date) if part)
