"""What is new becomes crystals: pending notes, and transcripts from where they were left."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from daemon.ingest.formats.reading import read_turns
from daemon.ingest.formats.turn import Turn, Watermark
from daemon.ingest.turn_crystals import crystals_of
from daemon.workspace.adoption import vouched
from daemon.workspace.redaction import learnable, redacted
from daemon.workspace.scan import files
from daemon.workspace.stores import Store, utc_now
from state.codec import decode, encode
from state.crystals.crystal import Crystal, Origin, Source
from state.crystals.salience import salience
from state.errors import ConfigError, DocumentError, DreamdError, NotFoundError, StorageError
from state.scratch import Note, parse_notes
from state.scratch import decode as scratch_text
from state.signals.curiosity import Cause, questions_in
from state.signals.event_lexicon import feelings_in
from state.signals.hormones import Feeling, spike_note, valence
from state.stores.database.connection import transaction
from state.stores.disk.disk import LONGEST_LOG, leads_elsewhere
from state.stores.disk.syscalls import storage_errors as named_failure
from state.stores.history.segments import QUIET_SECONDS, PendingFile
from state.trust import Trust

# After three hours an eighth of what was felt is left, or less.
FELT_FOR = timedelta(hours=3)
# In `meta`: how far each file of notes has been read, by its inode, which it keeps when it becomes a segment.
_READ = "notes_read"


@dataclass(frozen=True, slots=True)
class Absorbed:
    """What one pass over the sources found; `problems` are lines that could not be read."""

    notes: int = 0
    turns: int = 0
    problems: tuple[str, ...] = ()


def note_crystal(store: Store, note: Note, file: str, now: datetime) -> Crystal:
    """The crystal of a note, without its secrets."""
    text = redacted(store, note.text)
    digest = hashlib.sha256(note.text.encode("utf-8", "surrogatepass")).hexdigest()
    return Crystal(
        text=text,
        origin=Origin.SCRATCH,
        created_at=note.at,
        kind=salience(text, Trust.AGENT).kind,
        importance=note.importance,
        trust=Trust.AGENT,
        source=Source(file, note.first_line, note.last_line, digest) if file else None,
        valence=valence(store.feelings.levels(now)),
    )


def absorb_notes(store: Store, now: datetime) -> int:
    """Make a crystal of every pending note that has none yet; returns how many were new.

    Their words raise hormones, and a hormone that rises above .7 writes its own note. All of that is one
    transaction, and so is how far each file was read: a file that has not changed is not opened again.
    """
    unread = _unread(store)
    if unread is None:
        return 0
    notes, marks = unread
    made = [(note, note_crystal(store, note, "", now)) for note in notes]
    connection = store.crystals.connection
    with transaction(connection):
        buried = store.crystals.forgotten.tombstones()
        spared = [(note, left) for note, crystal in made if (left := buried.spared(crystal)) is not None]
        crystals = {crystal.id: (note, crystal) for note, crystal in spared}
        # Read in here: another thread may have absorbed the same.
        for known in store.crystals.get(crystals):
            del crystals[known.id]
        store.remember([crystal for _, crystal in crystals.values()])
        for note, crystal in crystals.values():
            for question in questions_in(crystal.text):
                store.questions.raise_(question, Cause.QUESTION, now)
            if not note.auto:
                feel(store, feelings_in(crystal.text), crystal.text, note.at, now)
        connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (_READ, json.dumps(marks)))
    return len(crystals)


def _unread(store: Store) -> tuple[list[Note], dict[str, list[int | str]]] | None:
    """The notes that were written since the last call, and how far each file is read now; None: nothing has changed.

    A mark holds the size and time of a file that was read to its end, where its last note begins (it may grow), and
    the digest of what stands before that: a file that was changed there is read again from its beginning.
    What is forgotten is taken out of a file before it is read.
    """
    row = store.crystals.connection.execute("SELECT value FROM meta WHERE name = ?", (_READ,)).fetchone()
    before: dict[str, list[int | str]] = json.loads(row["value"]) if row else {}
    blanked = set[str]()
    while True:
        notes: list[Note] = []
        marks: dict[str, list[int | str]] = {}
        files = store.segments.pending_files()
        for file in files:
            name, state = str(file.status.st_ino), [file.status.st_size, file.status.st_mtime_ns]
            if name in before and before[name][:2] == state:
                marks[name] = before[name]
                continue
            content = store.disk.read_if_there(file.path, LONGEST_LOG)
            if content is None or not _is_there(file):
                break  # it was taken while it was looked at, and is another file now
            found, marks[name] = _read_on(file, content, before.get(name))
            if name not in blanked and holds_forgotten(store, found):
                blanked.add(name)
                blank(store, file)
                break
            notes += found
        else:
            return None if marks == before else (notes, marks)


def holds_forgotten(store: Store, notes: Iterable[Note]) -> bool:
    """Whether any of these notes holds what is forgotten."""
    buried = store.crystals.forgotten.tombstones().anywhere
    return bool(buried) and any(buried.found(note.text) for note in notes)


def blank(store: Store, file: PendingFile) -> None:
    """Take what is forgotten out of a file of notes, in place; where it cannot be written, a notice says so."""
    forgotten = store.crystals.forgotten
    try:
        forgotten.count(store.segments.blank(file, forgotten.tombstones().anywhere.found))
    except StorageError as error:
        store.notice(f"a note that holds what is forgotten is not learnt, but still stands there: {error}")


def forget_notes(store: Store) -> None:
    """Take what is forgotten out of the pending notes, in place."""
    if store.crystals.forgotten.tombstones().anywhere:
        for file in store.segments.pending_files():
            blank(store, file)


def _is_there(file: PendingFile) -> bool:
    with suppress(NotFoundError), named_failure(file.path):
        return os.path.samestat(file.path.stat(), file.status)
    return False


def _read_on(file: PendingFile, content: bytes, mark: list[int | str] | None) -> tuple[list[Note], list[int | str]]:
    """The notes of a file from its last known one on, without a last line that is being written."""
    status, whole = file.status, True
    changed = datetime.fromtimestamp(status.st_mtime, UTC)
    if not content.endswith(b"\n") and abs((utc_now() - changed).total_seconds()) < QUIET_SECONDS:
        content, whole = content[: content.rfind(b"\n") + 1], False  # half a note is no memory
    start = file.start
    if mark is not None and mark[3] == _digest(content[: int(mark[2])]):
        start = max(start, int(mark[2]))
    notes = parse_notes(scratch_text(content[start:]), changed)
    if notes:
        lines = content[start:].split(b"\n", notes[-1].first_line - 1)
        start = len(content) - len(lines[-1])
    return list(notes), [status.st_size if whole else -1, status.st_mtime_ns, start, _digest(content[:start])]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def feel(store: Store, feelings: Iterable[Feeling], cause: str, at: datetime, now: datetime) -> None:
    """Raise the events of something said at that time; what is long past is felt no more.

    Each hormone that rises above .7 leaves one automatic note in the scratch log. It is written before the rise is
    committed: a kill between the two writes it twice rather than never.
    """
    events = tuple(feelings)
    if not events or now - at > FELT_FOR:
        return
    with transaction(store.crystals.connection):
        cause = store.crystals.forgotten.without_forgotten(cause)
        levels, spiked = store.feelings.feel(events, cause[:200], min(at, now))
        for hormone in spiked:
            text = spike_note(hormone, levels.level(hormone), events, cause)
            spike = Note(text=text, at=now, importance=0.8, auto=True)
            store.segments.append(spike, store.config.secrets.redaction)


def transcript_files(store: Store) -> list[Path]:
    """The transcripts that the configuration names. Raises ConfigError for a glob that leads out of the workspace."""
    found = {path for pattern in store.config.sources.transcripts for path in _matching(store, pattern)}
    return sorted(found)


def _matching(store: Store, pattern: str) -> list[Path]:
    root = store.workspace.root
    if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
        raise ConfigError(
            f"sources.transcripts: {pattern!r} is no glob inside the workspace", "write it as in 'chats/*.md'"
        )
    if "\0" in pattern or any("**" in part and part != "**" for part in pattern.split("/")):
        raise ConfigError(
            f"sources.transcripts: {pattern!r} is no glob ('**' stands alone)", "write it as in 'chats/*.md'"
        )
    return [path for path in files(root, pattern) if ".dreamd" not in path.relative_to(root).parts]


def absorb_transcripts(
    store: Store,
    paths: Iterable[Path],
    now: datetime,
    storage_errors: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Absorbed:
    """Read what is new in these files, until `stop` says so; a file that has not changed is not opened.

    A file that cannot be read is a problem that is named, and the others are read.
    """
    turns, problems = 0, list[str]()
    for path in paths:
        if stop():
            break
        try:
            count, found = _absorb_file(store, path, now, stop)
        except DreamdError as error:
            problems.append(str(error))
            continue
        turns += count
        problems += found
        if count:
            storage_errors(f"{path.name}: {count} turns")
    return Absorbed(turns=turns, problems=tuple(problems))


def _absorb_file(store: Store, path: Path, now: datetime, stop: Callable[[], bool]) -> tuple[int, list[str]]:
    name = _name(store, path)
    with named_failure(path):
        status = path.stat()
    connection = store.crystals.connection
    row = connection.execute("SELECT * FROM watermarks WHERE file = ?", (name,)).fetchone()
    _require_ours(store, path)
    if row and (row["size"], row["mtime_ns"]) == (status.st_size, status.st_mtime_ns):
        return 0, []
    mark = decode(Watermark, row["record"], f"watermark of {name}") if row else None
    turns, problems, complete = 0, list[str](), False
    while not complete and not stop():
        reading = read_turns(path, mark)
        complete, mark = reading.complete, reading.watermark
        turned = [_named(crystal, name) for crystal in _crystals_of(store, reading.turns)]
        problems += [redacted(store, str(problem)) for problem in reading.problems]
        # The crystals, what they make felt and how far they reach are one transaction: a kill repeats a batch, it
        # never skips one.
        with transaction(connection):
            store.remember(turned)
            for crystal in turned:
                if crystal.trust is Trust.OWNER and (felt := feelings_in(crystal.text)):
                    for learnt in learnable(store, [crystal]):
                        feel(store, felt, learnt.text, crystal.created_at, now)
            connection.execute(
                "INSERT OR REPLACE INTO watermarks VALUES (?, ?, ?, ?)",
                (name, status.st_size if complete else -1, status.st_mtime_ns, encode(mark)),
            )
        turns += len(reading.turns)
    return turns, problems


def _require_ours(store: Store, path: Path) -> None:
    """A link in the workspace may lead anywhere, and be anybody's: who copies a folder, copies it.

    One that leads out is followed to what its owner has named, by a hook or by hand; that is asked each time, of a
    list outside the workspace, whatever state.db says. Raises DocumentError for any other.
    """
    root, real = store.workspace.root, path.resolve()
    if not path.is_relative_to(root) or str(real) in vouched(store.workspace):
        return
    if real.is_relative_to(root):
        if leads_elsewhere(path, root):
            raise DocumentError(f"{path} leads to {real}, which is no transcript", "remove the link")
        return
    raise DocumentError(
        f"{path} leads to {real}, outside the workspace", f"if you mean that file, run: dreamd ingest {real}"
    )


def _crystals_of(store: Store, turns: Iterable[Turn]) -> list[Crystal]:
    """The crystals of these turns. Of a long one what is forgotten is taken out before it is cut anywhere."""
    forgotten, redaction = store.crystals.forgotten, store.config.secrets.redaction
    buried, crystals, withheld = forgotten.tombstones(), list[Crystal](), 0
    for turn in turns:
        made = crystals_of([turn], redaction)
        if len(made) > 1 and (text := buried.without(turn.text)) != turn.text:
            made = crystals_of([replace(turn, text=text)], redaction) if text else []
            withheld += 1
        crystals += made
    forgotten.count(withheld)
    return crystals


def _named(crystal: Crystal, file: str) -> Crystal:
    """With its file as the workspace knows it."""
    return replace(crystal, source=replace(crystal.source, file=file)) if crystal.source else crystal


def _name(store: Store, path: Path) -> str:
    real = path.resolve()
    root = store.workspace.root
    name = str(real.relative_to(root)) if real.is_relative_to(root) else str(real)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DocumentError(f"{name!a}: its name is not UTF-8, so nothing can be kept of it", "rename it") from None
    return name
