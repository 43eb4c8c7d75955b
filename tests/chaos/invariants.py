"""What must be so of a workspace whatever happened to it: looked at once it was let alone and has come to rest."""

import json
import re
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

from daemon.config.settings import Config
from daemon.workspace.stores import open_exclusive
from state.stores.disk.workspace import DISPLACED
from tests.chaos.harm import Harm
from tests.chaos.trial import HORMONAL, Life, Trial, demand
from tests.support import lived
from tests.support.copies import all_files
from tests.support.planted import lost

_MOST_DREAMS = 12
_LATER_SECONDS = 3 * 3600.0
_OWN_FILES = re.compile(r"(history/\d+\.json|fence|lock.*|crystals/clean\.json)")
# The state of this machine, of its model files, and of a dream that failed before the last one that did not.
_HARMLESS = ("disk", "embeddings", "service", "dreams")


def check(trial: Trial) -> None:
    """Everything. Raises LostError for the first thing that is not as it must be."""
    trial.remember()
    _comes_to_rest(trial)
    for one in (_conserved, _document, _ledger, _notes, _nothing_left_over, _permissions, _idle):
        one(trial)
    found = list(lived.contradictions(trial.workspace, has_ledger=not trial.rewound))
    demand(not found, "; ".join(found))
    _doctor(trial)
    _facts(trial)


def _comes_to_rest(trial: Trial) -> None:
    """It dreams of one more note; then there is nothing to dream of, now and later."""
    trial.append()
    life = trial.dream()
    demand(life.status == 0, f"a dream that nothing befalls ends badly: {life}")
    for number in range(_MOST_DREAMS):
        # So much later that what killed writers left is old enough, and what sessions had in mind has left it.
        life = trial.dream(Harm(shift_seconds=_LATER_SECONDS))
        if life.status == 3:
            trial.remember()
            return
        demand(life.status == 0 and number < _MOST_DREAMS - 1, f"there is always something to dream of: {life}")
        demand(number < trial.most_dreams, f"a further dream finds something to do: {life}")


def _conserved(trial: Trial) -> None:
    """Every acknowledged note is a crystal once, and what was only tried at most once; nothing else is there."""
    places = lived.places(trial.workspace)
    missing = [text for text in trial.acknowledged if not places[text] and text not in trial.spoilt]
    demand(not missing, f"acknowledged and lost: {missing}")
    twice = {text: times for text, times in places.items() if times > 1 and not text.startswith(HORMONAL)}
    demand(not twice, f"consumed more than once: {twice}")
    strange = trial.pieces(places)
    demand(not strange, f"nobody wrote these: {strange}")
    items = {row["content"] for row in lived.rows(trial.workspace, "SELECT content FROM items")}
    gone = [one for one in trial.items if one not in items]
    demand(trial.rewound or not gone, f"items that were acknowledged and are gone: {gone}")
    demand(lived.pending(trial.workspace) == [], f"still pending: {lived.pending(trial.workspace)}")


def _document(trial: Trial) -> None:
    """MEMORY.md is the last version, or a human's save of it."""
    text = lived.document(trial.workspace)
    last = lived.versions(trial.workspace)[-1]["text"]
    demand(text and (text == last or text in trial.by_hand), "MEMORY.md is neither the last version nor a save")


def _ledger(trial: Trial) -> None:
    """Every run has ended; what was paid is counted once."""
    outcomes = lived.outcomes(trial.workspace)
    demand("running" not in outcomes, f"a dream is said to run: {outcomes}")
    twice = "SELECT dream FROM calls WHERE usable GROUP BY dream, digest HAVING count(*) > 1"
    demand(lived.rows(trial.workspace, twice) == [], "an answer was paid twice")


def _notes(trial: Trial) -> None:
    """Every acknowledged note is a row, once."""
    rows = lived.rows(trial.workspace, "SELECT text FROM notes JOIN crystals ON crystals.key = notes.crystal")
    said = "\n".join(row["text"] for row in rows)
    counts = {text: said.count(text) for text in trial.acknowledged if text not in trial.spoilt}
    wrong = {text: count for text, count in counts.items() if count != 1}
    demand(not wrong, f"so often among the notes: {wrong}")


def _nothing_left_over(trial: Trial) -> None:
    left = [str(path) for path in all_files(trial.workspace).values() if _is_left_over(path)]
    demand(not left, f"left over: {left}")
    checkpoints = trial.workspace.checkpoints / "dreams.db"
    if checkpoints.exists():
        with closing(sqlite3.connect(checkpoints)) as connection:
            threads = connection.execute("SELECT count(DISTINCT thread_id) FROM checkpoints").fetchone()[0]
        demand(threads == 0, f"{threads} dreams have checkpoints")


def _is_left_over(path: Path) -> bool:
    # The last scratch.md that was put aside stays: it shows what was pending, should state.db be lost.
    is_kept = path.match(DISPLACED)
    return (path.name.endswith((".dreamd-tmp", ".displaced")) and not is_kept) or path.name == "lock.new"


def _permissions(trial: Trial) -> None:
    state = trial.workspace.state
    for path in (state, *state.rglob("*")):
        mode, name = stat.S_IMODE(path.lstat().st_mode), str(path.relative_to(state))
        closed = path == state or (path.is_dir() and path.parent == state) or _OWN_FILES.fullmatch(name)
        demand(not (closed and mode & 0o077), f"{path} is open to others ({mode:o})")
    # The log, and what was it before, have the mode that the `>>` gave them that was there first.
    folder = trial.workspace.scratch.parent
    demand(not folder.stat().st_mode & 0o077, f"{folder} is open to others")
    mode = stat.S_IMODE(trial.workspace.document.stat().st_mode)
    demand(mode == 0o644, f"MEMORY.md has the mode {mode:o}")


def _idle(trial: Trial) -> None:
    """Opening it repairs nothing: there is nothing to repair."""
    with open_exclusive(trial.workspace, Config(), "chaos") as store:
        demand(not store.notices, f"opening the workspace mended something: {store.notices}")
        demand(store.memory.recover() == 0, "recover() has something to do")


def _doctor(trial: Trial) -> None:
    life = trial.dreamd("doctor", "-w", trial.workspace.root, "--json")
    findings = _json(life)["findings"]
    bad = [one for one in findings if one["level"] != "ok" and one["about"] not in _HARMLESS]
    bad += [one for one in findings if one["level"] == "problem"]
    bad = [one for one in bad if "search is by words only" not in one["what"]]
    demand(not bad, f"doctor: {bad}")
    status = trial.dreamd("status", "-w", trial.workspace.root, "--json")
    demand(status.status == 0 and _json(status)["pending"]["notes"] == 0, f"status: {status}")


def _json(life: Life) -> Any:
    start = re.search(r"^[\[{]", life.said, re.MULTILINE)
    demand(start, f"no JSON: {life}")
    assert start
    return json.loads(life.said[start.start() :])


def _facts(trial: Trial) -> None:
    """Every planted fact, every note and what a human wrote is in MEMORY.md, behind a pointer, or found by search."""
    written = [text for text in trial.acknowledged if text not in trial.spoilt]
    wanted = tuple(dict.fromkeys([*trial.facts, *written]))
    gone = lost(trial.workspace, wanted)
    demand(not gone, f"neither in MEMORY.md nor found: {gone}")
