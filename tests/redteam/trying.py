"""Which hostile folders are tried with which commands: a share of both, or with DREAMD_LONG=1 all of both."""

import json
import zlib
from collections.abc import Sequence

from tests.redteam.house import House, Watch, command
from tests.redteam.places import Build, every, some
from tests.support.long_variants import IS_LONG

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
    ("review", "-w", "{w}", "--approve"),
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


def kinds() -> dict[str, Build]:
    """The hostile folders by their names; some of them, unless all are wanted."""
    return every() if IS_LONG else some()


def chosen(kind: str, always: Sequence[Words], others: int = 4) -> list[Words]:
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
