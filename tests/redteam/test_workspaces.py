"""What a `git pull` or a clone brings into a folder runs nothing, and reads and writes nothing outside of it.

Hostile folders are tried with commands: a share of both, or with DREAMD_LONG=1 all of both.
"""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from daemon.workspace.adoption import open_workspace
from tests.redteam.house import OUTSIDE, House, Watch, command, holding, house, put
from tests.redteam.places import TEXTS, every, some
from tests.support.long_variants import IS_LONG, spread
from tests.support.scripted_model import ScriptedModel

pytestmark = pytest.mark.timeout(600)


Words = tuple[str, ...]

# Of each command; {w} is the workspace, {o} a folder outside.
ALWAYS: tuple[Words, ...] = (
    ("dream", "{w}"),
    ("status", "-w", "{w}"),
    ("bootstrap", "{w}", "--format", "hook"),
    ("search", "-w", "{w}", "kettle"),
)
OTHERS: tuple[Words, ...] = (
    ("status", "-w", "{w}", "--json"),
    ("bootstrap", "{w}"),
    ("note", "-w", "{w}", "The kettle of house 4 sings again"),
    ("dream", "{w}"),
    ("dream", "{w}", "--dry-run"),
    ("history", "-w", "{w}"),
    ("diff", "-w", "{w}"),
    ("restore", "-w", "{w}", "1"),
    ("why", "-w", "{w}", "kettle"),
    ("forget", "-w", "{w}", "--yes", "The garden gate squeaks"),
    ("forget", "-w", "{w}", "--dry-run", "The garden gate squeaks"),
    ("review", "-w", "{w}"),
    ("review", "-w", "{w}", "--accept"),
    ("feel", "-w", "{w}", "reward"),
    ("mood", "-w", "{w}"),
    ("ingest", "-w", "{w}", "{w}/transcripts"),
    ("ingest", "-w", "{w}", "--hook"),
    ("session", "-w", "{w}", "list"),
    ("session", "-w", "{w}", "show", "talk"),
    ("export", "-w", "{w}", "--output", "{o}/backup.db"),
    ("doctor", "-w", "{w}"),
    ("mcp", "-w", "{w}"),
    ("doctor", "-w", "{w}", "--repair"),
    ("init", "{w}", "--no-daemon"),
)


KINDS = every() if IS_LONG else some()


def chosen(kind: str, always: Sequence[Words], others: int) -> list[Words]:
    """The commands for this workspace: these, then some of the others, for each workspace other ones."""
    if IS_LONG:
        return [*always, *OTHERS]
    start = zlib.crc32(kind.encode())
    return [*always, *(OTHERS[(start + number * 5) % len(OTHERS)] for number in range(others))]


def run(house: House, watch: Watch, words: Words, **environment: str) -> list[str]:
    """Run the command in this house; what has happened that must not."""
    backups = house.folder / "backups"
    backups.mkdir(exist_ok=True)
    given = [word.format(w=house.workspace, o=backups) for word in words]
    done = command(*given, environment=house.environment(**environment), stdin=_stdin(house, words))
    for path in backups.iterdir():
        path.unlink()
    return watch.after(done)


def _stdin(house: House, words: Words) -> str:
    if "--hook" in words:
        said = {"hook_event_name": "PreCompact", "transcript_path": str(house.session), "session_id": "s"}
        return json.dumps(said)
    if words[0] == "mcp":
        begin = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "a test", "version": "1"},
        }
        calls: list[dict[str, object]] = [
            {"method": "initialize", "id": 1, "params": begin},
            {"method": "notifications/initialized"},
            {"method": "tools/list", "id": 2},
            {"method": "tools/call", "id": 3, "params": {"name": "memory_search", "arguments": {"query": "kettle"}}},
            {"method": "tools/call", "id": 4, "params": {"name": "memory_note", "arguments": {"note": "A kettle"}}},
        ]
        return "".join(json.dumps({"jsonrpc": "2.0", **call}) + "\n" for call in calls)
    return ""


@pytest.mark.parametrize("kind", spread(KINDS, 30))
def test_a_workspace_stays_in_its_folder_whatever_is_put_there(good: Path, model: ScriptedModel, kind: str) -> None:
    with house() as one:
        root = put(good, one)
        KINDS[kind](one, root)
        watch, held = Watch(one), holding(root)
        faults = []
        for words in chosen(kind, ALWAYS, 3):
            faults += run(one, watch, words, **asking(model, kind))
        assert faults == []
        assert holding(root) - held == set()
        assert holding(one.folder / "data") == set()
        assert [request for request in model.requests if OUTSIDE in str(request)] == []


@pytest.mark.parametrize("kind", spread(TEXTS, 6))
def test_of_somebody_else_s_folder_nothing_is_used_before_init(good: Path, kind: str) -> None:
    with house() as one:
        root = put(good, one)
        for name in (one.folder / "data").glob("dreamd/*"):  # nothing is known of this folder
            name.rename(one.folder / f"old-{name.name}")
        KINDS[kind](one, root)
        watch = Watch(one)
        faults = []
        for words in (*ALWAYS, ("init", "{w}", "--no-daemon"), *ALWAYS):
            faults += run(one, watch, words)
        assert faults == []
        assert open_workspace(root, one.environment()).state.is_relative_to(one.folder / "data")


def asking(model: ScriptedModel, kind: str) -> dict[str, str]:
    """The model is asked where a text from outside might get into what it is told: that takes a second or two."""
    if not any(word in kind for word in ("outside", "inside", "earlier")):
        return {}
    return {
        "DREAMD_MODEL__NAME": "openai/gpt-4o-mini",
        "DREAMD_MODEL__API_BASE": model.url,
        "DREAMD_MODEL__ON_FAILURE": "extractive",
    }
