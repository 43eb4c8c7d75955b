"""The law of generations: whatever was changed, put, forgotten and swept, what comes up is what was put."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from state.stores.generations.folder_objects import FolderObjects
from state.stores.generations.generations import Generations
from tests.support.folders import PLACE
from tests.support.generation_folders import PREFIX, contents, everything, make_folder, put, write_rows
from tests.support.long_variants import examples

if TYPE_CHECKING:
    from state.fleet.generation import Manifest

_KEPT = 3
_NAMES = ["MEMORY.md", "memory/scratch.md", "a", "a b/c", ".dreamd/history/000009.json", "ü/ñ", ".dreamd/id"]


class Workspaces(RuleBasedStateMachine):
    """One workspace of a fleet, and the folders of three machines that have it now and then."""

    @initialize()
    def begin(self) -> None:
        self.place = tempfile.TemporaryDirectory(dir=PLACE)
        self.root = Path(self.place.name)
        self.here = make_folder(self.root / "here")
        self.objects = FolderObjects(self.root / "store")
        self.generations = Generations(self.objects, PREFIX)
        self.kept: list[tuple[str, Manifest, dict[str, Any]]] = []
        self.number, self.moves, self.secrets = 0, 0, 0
        self.put(whole=False)

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.place.cleanup()

    @rule(
        name=st.sampled_from(_NAMES),
        size=st.sampled_from([0, 1, 4_095, 4_096, 4_097, 60_000]),
        random=st.booleans(),
    )
    def change(self, name: str, size: int, random: bool) -> None:  # noqa: FBT001
        path = self.here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((os.urandom(size - 1) if random else b"x" * (size - 1)) + b"\n" if size else b"")

    @rule(name=st.sampled_from(_NAMES))
    def remove(self, name: str) -> None:
        (self.here / name).unlink(missing_ok=True)

    @rule(texts=st.lists(st.text(max_size=3000), max_size=3))
    def write(self, texts: list[str]) -> None:
        write_rows(self.here, [text.encode(errors="replace").decode() for text in texts])

    @rule(whole=st.booleans())
    def put(self, whole: bool) -> None:  # noqa: FBT001
        self.number += 1
        previous = self.kept[-1][1] if self.kept else None
        manifest = put(self.generations, self.here, previous, self.number, whole=whole)
        self.kept.append((manifest.key, manifest, contents(self.here)))

    @rule()
    def put_in_vain(self) -> None:
        """Its commit is refused: nobody ever has the key."""
        previous = self.kept[-1][1] if self.kept else None
        put(self.generations, self.here, previous, self.number + 1)

    @rule()
    def forget(self) -> None:
        self.secrets += 1
        text = f"secret number {self.secrets};"
        (self.here / "MEMORY.md").write_text(text)
        self.put(whole=False)
        self.put_in_vain()
        (self.here / "MEMORY.md").write_text("- tea\n")
        self.put(whole=True)
        self.kept = self.kept[-1:]
        self.sweep()
        assert not any(text in content for content in everything(self.objects).values())

    @rule()
    def sweep(self) -> None:
        self.kept = self.kept[-_KEPT:]
        self.generations.sweep([manifest for _, manifest, _ in self.kept], self.number)

    @rule(machine=st.sampled_from("abc"), back=st.integers(0, _KEPT - 1))
    def bring_up(self, machine: str, back: int) -> None:
        key, _, wanted = self.kept[max(-len(self.kept), -1 - back)]
        there = self.root / machine
        generations = Generations(self.objects, PREFIX)
        generations.bring_up(there, generations.manifest(key))
        assert contents(there) == wanted

    @rule(machine=st.sampled_from("abc"), name=st.sampled_from(_NAMES))
    def dirty(self, machine: str, name: str) -> None:
        """An owner writes and dies."""
        there = self.root / machine
        if (there / ".dreamd" / "state.db").exists():
            write_rows(there, ["lost"])
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            (there / name).write_text("lost")

    @rule()
    def move(self) -> None:
        """Another machine takes it over."""
        self.moves += 1
        key, _, _ = self.kept[-1]
        generations = Generations(self.objects, PREFIX)
        self.here = self.root / f"owner {self.moves}"
        generations.bring_up(self.here, generations.manifest(key))
        self.generations = generations

    @invariant()
    def the_last_ones_are_there(self) -> None:
        for key, manifest, _ in self.kept[-_KEPT:]:
            assert Generations(self.objects, PREFIX).manifest(key) == manifest


@pytest.mark.full
def test_what_comes_up_is_what_was_put() -> None:
    run_state_machine_as_test(Workspaces, settings=examples(50))
