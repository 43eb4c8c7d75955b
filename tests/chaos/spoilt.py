"""Files that are damaged: random bytes, cut off, emptied. Then what `doctor` says is done, and everything is back."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from tests.chaos.harm import NODES, Blow, Harm
from tests.chaos.trial import Trial, demand
from tests.support import lived
from tests.support.breaking import DAMAGE

_PAGE = 4096
# The first byte of a page of a B-tree. Of what else SQLite has pages for (the text of a long cell) it knows no check.
_TREES = (2, 5, 10, 13)


def spoilt(trial: Trial) -> None:
    """One file or two are damaged between two dreams, or while a killed one waits to go on."""
    for _ in range(trial.rng.choice((1, 1, 2))):
        trial.append(trial.rng.randint(1, 3))
        if trial.rng.random() < 0.5:
            trial.dream(Harm(Blow.KILL, trial.rng.choice(NODES), leaving=trial.rng.random() < 0.5))
            trial.append(1)
        trial.tally.faults += 1
        trial.rng.choice(_WAYS)(trial)
        trial.remember()


def noise(trial: Trial, path: Path, start: int, length: int) -> None:
    trial.wrote(f"{length} random bytes at {start} of {path.name} ({path.stat().st_size})")
    with path.open("r+b") as file:
        file.seek(start)
        file.write(trial.rng.randbytes(length))


def _damaged(trial: Trial, path: Path) -> None:
    if path.stat().st_size:
        damage = trial.rng.choice(DAMAGE)
        trial.wrote(f"{path.name} {damage.__name__}")
        damage(path, trial.rng)


def checkpoints(trial: Trial) -> None:
    """Damaged checkpoints cost at most that a dream begins anew."""
    path = trial.workspace.checkpoints / "dreams.db"
    if path.exists():
        for part in ("dreams.db-wal", "dreams.db-shm"):
            if trial.rng.random() < 0.5:
                (path.parent / part).unlink(missing_ok=True)
        _damaged(trial, path)
        # What cannot be understood of them may cost the dream that went on with them, and no other.
        lives = [trial.dream(), trial.dream()]
        demand(lives[1].status in (0, 3), f"damaged checkpoints stop the dreams: {lives[0]}, {lives[1]}")


def vectors(trial: Trial) -> None:
    """The vector index is built again by itself."""
    files = [path for path in trial.workspace.index.rglob("*") if path.is_file()]
    if files:
        _damaged(trial, trial.rng.choice(files))
        life = trial.dream()
        demand(life.status in (0, 3), f"a damaged index stops a dream: {life}")


def _scratch(trial: Trial) -> None:
    """One line of the log: the others are as they were."""
    path = trial.workspace.scratch
    if not path.exists() or not lived.pending(trial.workspace):
        return
    content = path.read_bytes()
    lines = [line for line in content.split(b"\n") if line.startswith(b"- ")]
    if not lines:
        return
    line = trial.rng.choice(lines)
    start = content.index(line) + trial.rng.randrange(len(line))
    noise(trial, path, start, min(trial.rng.choice((1, 5, 40)), content.index(b"\n", start) - start))
    after = lived.pending(trial.workspace)
    known = {*trial.tried, *trial.facts, *trial.spoilt}
    standing = set(after) | {row["text"] for row in lived.rows(trial.workspace, "SELECT text FROM crystals")}
    trial.spoilt |= {text for text in trial.acknowledged if text not in standing}
    trial.spoilt |= {text for text in after if text not in known}
    demand(len(trial.spoilt) <= 6, f"one damaged line has changed {trial.spoilt}")


def _lock(trial: Trial) -> None:
    """Nobody is kept out by what stands in them."""
    for path in (trial.workspace.lock, trial.workspace.fence):
        path.write_bytes(trial.rng.randbytes(trial.rng.randrange(40)))


def _document(trial: Trial) -> None:
    """MEMORY.md is no text any more: a dream says so and writes nothing; its advice brings the last version back."""
    path = trial.workspace.document
    size = path.stat().st_size if path.exists() else 0
    if not size:
        return
    with path.open("r+b") as file:
        file.seek(trial.rng.randrange(size))
        file.write(trial.rng.choice((b"\xff\xfe", b"\0\0", b"\xc3\x28")))
    before = path.read_bytes()
    trial.append()
    life = trial.dream()
    demand(life.status == 1 and "MEMORY.md" in life.said, f"MEMORY.md is no text, and a dream says nothing: {life}")
    demand(path.read_bytes() == before, "a dream wrote over a MEMORY.md that is no text")
    path.rename(trial.folder / "kept")
    path.touch(0o644)  # its mode is its owner's business
    trial.dream()


def _gone(trial: Trial) -> None:
    """MEMORY.md is deleted or emptied: an accident, and the last version comes back."""
    if trial.rng.random() < 0.5:
        trial.workspace.document.unlink()
    else:
        trial.workspace.document.write_bytes(b"")


def _database(trial: Trial) -> None:
    """state.db is damaged: nothing is written over, and the doctor's advice brings everything back."""
    path = trial.workspace.database
    with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size
    how = trial.rng.choice(("header", "tree", "cut", "empty"))
    if how == "tree":
        content = path.read_bytes()
        trees = [at for at in range(_PAGE, size, _PAGE) if content[at] in _TREES]
        at = trial.rng.choice(trees)
        noise(trial, path, at, _PAGE)
        with path.open("r+b") as file:  # the type of a page that there is none of
            file.seek(at)
            file.write(b"\xee")
    elif how == "header":
        noise(trial, path, 0, trial.rng.choice((16, 100, _PAGE)))
    else:
        os.truncate(path, 0 if how == "empty" else trial.rng.randrange(1, max(2, size // _PAGE)) * _PAGE)
        trial.wrote(f"state.db {how}: {path.stat().st_size} of {size}")
    memory = lived.document(trial.workspace)
    examined = trial.dreamd("doctor", trial.workspace.root)
    demand(lived.document(trial.workspace) == memory or how == "empty", "the doctor changed MEMORY.md")
    if examined.status == 0 and how != "empty":
        trial.wrote("the damaged page was not in use")
    else:
        demand(how == "empty" or "state.db" in examined.said, f"the doctor says nothing of state.db: {examined}")
        _rescued(trial)
        life = trial.dream()
        demand(life.status in (0, 3), f"after the rescue a dream ends badly: {life}")


def _rescued(trial: Trial) -> None:
    repaired = trial.dreamd("doctor", "--repair", trial.workspace.root)
    trial.rewound = True
    demand(repaired.status == 0, f"doctor --repair: {repaired}")


_WAYS: tuple[Callable[[Trial], None], ...] = (
    checkpoints, vectors, _scratch, _lock, _document, _gone, _database, _database,
)  # fmt: skip
