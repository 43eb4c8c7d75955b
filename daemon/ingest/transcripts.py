"""Transcripts: turns what is new in the configured files into crystals; each file is read from its watermark on."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from daemon.config.settings import Config
from daemon.ingest.agent_hooks import FOLDER
from daemon.ingest.feelings import feel
from daemon.ingest.formats.conversation import Conversation, Reading, Turn, Watermark
from daemon.ingest.formats.own_answers import is_own_answer
from daemon.ingest.formats.reading import readings
from daemon.workspace.adoption import vouched
from daemon.workspace.redaction import learnable
from daemon.workspace.scan import files
from daemon.workspace.stores import Store
from state.codec import decode, encode
from state.crystals.crystal import Crystal, Kind, Origin
from state.crystals.salience import Salience, salience
from state.errors import ConfigError, DocumentError, DreamdError
from state.secrets.policy import DEFAULT, Redaction
from state.signals.felt import feelings_in
from state.stores.crystals.copies import Copies
from state.stores.database.connection import transaction
from state.stores.disk.disk import leads_elsewhere
from state.stores.disk.packed_files import SUFFIX
from state.stores.disk.strangers import Author, author_of
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.history.unread import UnreadTranscripts
from state.text.chunks import chunk
from state.text.words import counted
from state.trust import Trust
from state.zone import local

# A call is worth finding again, but rarely worth a dream's attention.
_CALL = Salience(Kind.EPISODE, 0.2)
# In a watermark: a file of a stranger's has this minus its size.
_STRANGERS = -2
# The size of a file that was not read to its end, in its watermark; of a stranger's, _STRANGERS.
_UNREAD = -1


@dataclass(frozen=True, slots=True)
class Absorbed:
    """The number of new turns of one pass over transcripts, and the files and lines that could not be read."""

    turns: int = 0
    problems: tuple[str, ...] = ()


def transcript_files(workspace: Workspace, config: Config) -> list[Path]:
    """Return the configured transcripts. Raise ConfigError for a glob that leads out of the workspace."""
    found = matching_files(workspace.root, config) | _packed_since(workspace)
    is_state = workspace.is_state if workspace.is_apart else lambda _: False
    return sorted(path for path in found if not (path.is_relative_to(workspace.root) and is_state(path)))


def matching_files(root: Path, config: Config) -> set[Path]:
    """Return the files of a folder that the configured globs match. Raise ConfigError as `transcript_files`."""
    found = set[Path]()
    for pattern in config.sources.transcripts:
        parts = pattern.split("/")
        is_inside = pattern and not pattern.startswith("/") and ".." not in parts
        if not is_inside or "\0" in pattern or any("**" in part and part != "**" for part in parts):
            why = "is no glob ('**' stands alone)" if is_inside else "is no glob inside the workspace"
            raise ConfigError(f"sources.transcripts: {pattern!r} {why}", "write it as in 'chats/*.md'")
        found |= {path for path in files(root, pattern) if ".dreamd" not in path.relative_to(root).parts}
    return found


def _packed_since(workspace: Workspace) -> set[Path]:
    """Return the packed forms of transcripts that were linked, and were packed since then."""
    named = vouched(workspace)
    links = (link for link in (workspace.root / FOLDER).glob("*") if link.is_symlink() and not link.exists())
    packed = (Path(real + SUFFIX) for real in map(os.path.realpath, links) if real in named)
    return {path for path in packed if path.is_file()}


def absorb_configured(
    store: Store,
    now: datetime,
    report: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Absorbed:
    """Read what is new in the configured transcripts, as `absorb_transcripts` does; the status names unread ones.

    Raise ConfigError for a glob that leads out of the workspace.
    """
    unread = UnreadTranscripts(store.connection, store.workspace.root)
    return absorb_transcripts(store, transcript_files(store.workspace, store.config), now, report, stop, unread)


def absorb_transcripts(
    store: Store,
    paths: Iterable[Path],
    now: datetime,
    report: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    unread: UnreadTranscripts | None = None,
) -> Absorbed:
    """Read what is new in these files until `stop()` is true; unchanged files are not opened.

    `report` gets one line per file with new turns. A file that cannot be read becomes a problem, which `unread` keeps
    for the status, and does not stop the others. What came with the folder or by git is taken in as a stranger's,
    which a notice says.
    """
    turns, problems, strange, copies = 0, list[str](), list[str](), Copies(store.connection)
    for path in paths:
        if stop():
            break
        try:
            count, skipped, author = _absorb_file(store, path, copies, now, stop)
        except DreamdError as error:
            problems.append(str(error))
            if unread is not None:
                unread.unread(path, problems[-1])
            continue
        if unread is not None:
            unread.read(path, skipped, now)
        turns += count
        problems += skipped
        if count:
            report(f"{path.name}: {counted(count, 'turn')}")
            strange += [path.name] if author is Author.STRANGER else []
    if strange:
        others = f" and {counted(len(strange) - 1, 'other')}" if len(strange) > 1 else ""
        store.notices.add(
            f"{strange[0]}{others} came with the folder or by git, so its turns are taken in as a stranger's: search"
            f" has them, and no dream; 'dreamd init --mine {store.workspace.root}' says that they are yours"
        )
    return Absorbed(turns, tuple(problems))


def _absorb_file(
    store: Store, path: Path, copies: Copies, now: datetime, stop: Callable[[], bool]
) -> tuple[int, list[str], Author]:
    """Read what is new in a file; return how many turns, the problems, and whose the file is."""
    name = name_of(store.workspace, path)
    with storage_errors(path):
        status = path.stat()
    connection = store.connection
    both = (name, _other_form(name))
    rows = connection.execute("SELECT * FROM watermarks WHERE file IN (?, ?)", both).fetchall()
    _require_ours(store.workspace, path)
    known = {(row["file"], row["size"], row["mtime_ns"]) for row in rows}
    if (name, status.st_size, status.st_mtime_ns) in known:
        return 0, [], Author.OWNER
    author = author_of(store.workspace, path)
    is_strangers = author is Author.STRANGER
    size, unread = (_STRANGERS - status.st_size, _STRANGERS) if is_strangers else (status.st_size, _UNREAD)
    if author is Author.UNKNOWN or (name, size, status.st_mtime_ns) in known:
        return 0, [], author
    # Once its owner has taken over a stranger's file, it is read again.
    rows = [row for row in rows if is_strangers or row["size"] > _STRANGERS]
    marks = (decode(Watermark, row["record"], f"watermark of {row['file']}") for row in rows)
    mark = max(marks, key=lambda one: one.bytes_read, default=None)
    turns, problems, begins = 0, list[str](), any(row["size"] in (_UNREAD, _STRANGERS) for row in rows)
    for reading in readings(path, mark, store.config.zone):
        spoken = [_strangers(turn) for turn in reading.turns] if is_strangers else reading.turns
        crystals = turn_crystals(store, spoken, name)
        problems += [store.config.redaction.of(str(problem)) for problem in reading.problems]
        begins |= any(turn.position == 0 for turn in reading.turns)
        # Crystals, feelings and the watermark are one transaction: a kill repeats a batch, but never skips one.
        with transaction(connection):
            _take_in(store, crystals, reading, copies, now, begins=begins)
            connection.execute(
                "INSERT OR REPLACE INTO watermarks VALUES (?, ?, ?, ?)",
                (name, size if reading.complete else unread, status.st_mtime_ns, encode(reading.watermark)),
            )
        turns += len(reading.turns)
        if stop():
            break
    return turns, problems, author


def _strangers(turn: Turn) -> Turn:
    return replace(turn, trust=Trust.WEB, heard="")


def _other_form(name: str) -> str:
    """Return the name that a file has when it is packed, or unpacked: its content stays the same."""
    return name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else name + SUFFIX


def _take_in(
    store: Store, crystals: Sequence[Crystal], reading: Reading, copies: Copies, now: datetime, *, begins: bool
) -> None:
    """Write the crystals of a reading, and what they make felt; `begins`: its file is read from the start."""
    kin = Conversation("", now, reading.watermark.memory()).kin
    if begins:
        undated = frozenset(turn.position for turn in reading.turns if not turn.dated)
        crystals = copies.of_file(copies.of_fork(crystals, kin), undated)
    felt = [
        (crystal, events)
        for crystal in crystals
        if crystal.trust is Trust.OWNER
        and (events := feelings_in(crystal.text))
        and not store.crystals.is_known(crystal)
    ]
    store.crystals.learn(crystals)
    copies.settle_forks(kin)
    for crystal, events in felt:
        for learnt in learnable(store.crystals, [crystal]):
            feel(store, events, learnt.text, crystal.created_at, now)


def _require_ours(workspace: Workspace, path: Path) -> None:
    """Raise DocumentError unless this user may read the file that the path leads to.

    A link out of the workspace may be anybody's, since it is copied with the folder. It is only followed to files
    that the owner named, by a hook or by hand: a list outside the workspace, read each time.
    """
    root, real = workspace.root, path.resolve()
    if not path.is_relative_to(root) or str(real) in vouched(workspace):
        return
    if not real.is_relative_to(root):
        advice = f"if you mean that file, run: dreamd ingest {real}"
        raise DocumentError(f"{path} leads to {real}, outside the workspace", advice)
    if leads_elsewhere(path, root):
        raise DocumentError(f"{path} leads to {real}, which is no transcript", "remove the link")


def name_of(workspace: Workspace, path: Path) -> str:
    """Return the resolved file, relative to the workspace if inside. Raise DocumentError if it is not UTF-8."""
    real, root = path.resolve(), workspace.root
    name = str(real.relative_to(root) if real.is_relative_to(root) else real)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DocumentError(f"{name!a}: its name is not UTF-8, so nothing can be kept of it", "rename it") from None
    return name


def turn_crystals(store: Store, turns: Iterable[Turn], file: str) -> list[Crystal]:
    """Return the crystals of these turns, with this file as source.

    Forgotten texts are cut from a long turn before it is cut into chunks.
    """
    forgotten, redaction, zone = store.crystals.forgotten, store.config.redaction, store.config.zone
    tombstones, crystals, withheld = forgotten.tombstones(), list[Crystal](), 0
    for turn in (replace(turn, source=replace(turn.source, file=file)) for turn in turns):
        made = list(crystals_of(turn, redaction, zone))
        if len(made) > 1 and (text := tombstones.without(turn.text)) != turn.text:
            made = list(crystals_of(replace(turn, text=text), redaction, zone)) if text else []
            withheld += 1
        crystals += made
    forgotten.count(withheld)
    return crystals


def crystals_of(turn: Turn, redaction: Redaction = DEFAULT, zone: tzinfo = UTC) -> Iterator[Crystal]:
    """Yield one crystal per chunk of a turn, without secrets; all share its position, kind and importance.

    The context is what a search needs besides the text: "Speaker, 8 May 2023", or the path of headings.
    """
    if turn.trust in (Trust.TOOL, Trust.WEB) and is_own_answer(turn.text):
        return
    text = redaction.of(turn.text)  # before chunking: half a secret is not recognised
    worth = _CALL if turn.call else salience(text, turn.trust)
    speaker = turn.speaker[:1].upper() + turn.speaker[1:]
    at = local(turn.at, zone)
    context = ", ".join(filter(None, (turn.heading, speaker, f"{at.day} {at:%B %Y}")))
    for piece in chunk(text):
        yield Crystal(
            text=piece,
            origin=Origin.SESSION,
            created_at=turn.at,
            kind=worth.kind,
            importance=worth.importance,
            trust=turn.trust,
            context=redaction.of(context),
            speaker=redaction.of(turn.speaker),
            session=turn.session,
            position=turn.position,
            source=turn.source,
            heard=turn.heard,
        )
