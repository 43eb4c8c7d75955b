"""An honest update: a memory, what is new, and what a good model makes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from state.document.operations import Operation
from state.dream import Evidence, Snapshot
from tests.graphs.world import memory, snapshot


@dataclass(frozen=True)
class Honest:
    """A memory, what is new, and what a good model makes of it."""

    notes: Sequence[str | Evidence]
    operations: Sequence[Operation]
    before: Mapping[str, Sequence[str]] = field(default_factory=dict)
    genome: tuple[str, ...] = ()
    tombstones: tuple[str, ...] = ()

    @property
    def snapshot(self) -> Snapshot:
        """What a dream would read."""
        return snapshot(memory(**self.before), *self.notes, genome=self.genome, tombstones=self.tombstones)
