"""Suspects: which inputs a dream shows its model once answers over them have failed.

One input may make every answer fail. After two failed dreams in a row, a dream shows half of the suspects, until one
is left, which is dreamt without the model while all others go on with it. If these fail, too, it is the model, and
all are dreamt without it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from graphs.talk import NOT_SHOWN
from state.dream import Evidence, Kind, Snapshot

PATIENCE = 2
NEWS = frozenset((Kind.NOTE, Kind.CRYSTAL, Kind.OLD_TEXT))
"""The kinds of input that are worth asking a model for."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """The inputs of the dreams that failed in a row, by `Evidence.key`; `all_of_them`: no single one is at fault."""

    times: int = 0
    keys: tuple[str, ...] = ()
    all_of_them: bool = False

    @property
    def are_narrowed(self) -> bool:
        """Return whether the next dream is the one that narrows them down."""
        return self.times >= PATIENCE

    def after_failure(self, shown: Iterable[str]) -> "Suspects":
        """Return the suspects after a further dream failed over these inputs."""
        shown = tuple(dict.fromkeys(shown))
        among = tuple(key for key in shown if key in self.keys)
        if self.are_narrowed and self.keys and not among:
            return Suspects(self.times + 1, (*self.keys, *shown), all_of_them=True)
        return Suspects(self.times + 1, among or shown)

    def after_commit(self, read: Iterable[str]) -> "Suspects":
        """Return those that a committed dream did not read."""
        read = set(read)
        left = tuple(key for key in self.keys if key not in read)
        return replace(self, times=min(self.times, PATIENCE), keys=left) if left else Suspects()

    def narrowed(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with half of the suspects alone, or with all inputs but the last not to be asked about.

        What is left out is input of a later dream.
        """
        here = [piece for piece in shown(snapshot) if piece.key in self.keys] if self.are_narrowed else []
        news = [piece for piece in here if piece.kind in NEWS]
        if self.all_of_them or len(news) <= 1:
            failing = tuple(piece.id for piece in here)
            return replace(snapshot, unasked=(*snapshot.unasked, *failing), failing=failing)
        asked = {piece.id for piece in news[: len(news) // 2]}
        kept = tuple(one for one in snapshot.evidence if one.id in asked or one.kind in NOT_SHOWN)
        held = {one.crystal for one in snapshot.evidence if one.kind is Kind.NOTE and one.id not in asked}
        taken = tuple(pair for pair in snapshot.taken if pair[1] not in held)
        return replace(
            snapshot,
            evidence=kept,
            notes=tuple(one for one in snapshot.notes if one.id not in held),
            taken=taken,
            waiting=snapshot.waiting + len(snapshot.taken) - len(taken),
            unasked=(),
        )


def shown(snapshot: Snapshot) -> list[Evidence]:
    """Return the inputs that the model is shown."""
    return [one for one in snapshot.evidence if one.kind not in NOT_SHOWN and one.id not in snapshot.unasked]
