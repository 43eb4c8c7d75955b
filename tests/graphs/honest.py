"""Honest updates: a memory, what is new, and what a good model makes of it. None of them may be refused.

honest.json has them: additions, other languages, changes of memories of many shapes, and those reworded so far that
only the operation says which line it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

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


_GROUPS = TypeAdapter(dict[str, list[Honest]]).validate_json(Path(__file__).with_name("honest.json").read_bytes())
ADDITIONS, LANGUAGES, REWORDED = (tuple(_GROUPS[name]) for name in ("additions", "languages", "reworded"))
HONEST = (*ADDITIONS, *LANGUAGES, *_GROUPS["others"])
