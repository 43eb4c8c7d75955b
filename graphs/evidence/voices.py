"""Voices: which texts of a dream may vouch for a new line, and which are by strangers and must stay attributed."""

from collections.abc import Collection, Iterator, Sequence

from state.attribution.sources import Voice
from state.dream import Kind, Snapshot
from state.injection.defang import spoken_trust, unquoted
from state.trust import Trust, least_trust

# What is on an agent's mind may be what it reads just now; a question states nothing; the program counts the rest.
_NO_VOUCHERS = {Kind.WORKING, Kind.GAP, Kind.SKILL, Kind.FEED}


def strangers(snapshot: Snapshot, cited: Collection[str] = ()) -> tuple[Voice, ...]:
    """Everything in this dream that a page or a program said, cited or not, and what stands quoted as theirs."""
    return tuple(voice for voice in _voices(snapshot, cited) if voice.trust.rank < Trust.AGENT.rank)


def vouchers(snapshot: Snapshot, cited: Collection[str] = ()) -> tuple[str, ...]:
    """The texts of the agent and the owner in this dream, by whose wording a line may stand plainly."""
    silent = {piece.id for piece in snapshot.evidence if piece.kind in _NO_VOUCHERS and piece.id not in cited}
    silent |= {piece.id for piece in snapshot.evidence if piece.kind is Kind.WORKING}
    lines = [(line.id, line.text, line.trust) for line in (*snapshot.lines, *snapshot.old_text)]
    said = [(piece.id, piece.text, piece.trust) for piece in snapshot.evidence]
    return tuple(
        text
        for name, text, trust in (*said, *lines)
        if name not in silent and spoken_trust(text, trust).rank >= Trust.AGENT.rank
    )


def trust_of_line(text: str, sources: Sequence[Trust]) -> Trust:
    """The trust of a new line that was let through: a quotation has its speaker's, any other that of its vouchers."""
    _, speaker = unquoted(text)
    trusted = [trust for trust in sources if trust.rank >= Trust.AGENT.rank]
    return speaker or (least_trust(trusted) if trusted or not sources else Trust.AGENT)


def _voices(snapshot: Snapshot, cited: Collection[str]) -> Iterator[Voice]:
    for piece in snapshot.evidence:
        yield Voice(unquoted(piece.text)[0], spoken_trust(piece.text, piece.trust), piece.id in cited)
    for line in (*snapshot.lines, *snapshot.old_text):
        yield Voice(unquoted(line.text)[0], spoken_trust(line.text, line.trust), line.id in cited)
    for text in snapshot.tombstones:
        yield Voice(unquoted(text)[0], spoken_trust(text, Trust.AGENT))
