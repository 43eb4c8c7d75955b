"""A workspace with a text everywhere dreamd can put it, and an independent search for its bytes."""

import json
import sqlite3
import unicodedata
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

from daemon import sessions
from daemon.config.settings import Config, DreamSection
from daemon.dream.proposals import settle
from daemon.dream.run import Mode, dream_now
from daemon.ingest.transcripts import absorb_transcripts
from daemon.journal.restore import restore
from daemon.upkeep.forget import Receipt, forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.adoption import init_workspace
from daemon.workspace.searching import searched_in
from daemon.workspace.stores import Store, utc_now
from daemon.workspace.vector_index import Embedding
from state.document.asking import Ask
from state.document.document import parse
from state.document.sections import SectionName
from state.dream import Reason
from state.errors import NothingToDoError
from state.forgetting.cutting import Cut
from state.stores.crystals.search import search
from state.stores.database.table import unpacked
from state.stores.disk.workspace import Workspace
from state.stores.history.proposals import Proposals
from tests.support import committing
from tests.support.committing import added, with_model
from tests.support.copies import all_files, copy_of
from tests.support.faults import PowerCut
from tests.support.in_memory import BagOfWords
from tests.support.working import noted

SECRET = "the launch crew of project Falconer is 7731 blue"
KEPT = (
    "Ada prefers tea over coffee in the morning",
    "The staging server listens on port 8080",
    "We decided to use SQLite for the ledger",
    "Bo was late for the meeting in Oslo",
    "Grace keeps the spare key under the flowerpot",
    "The ferry to Bergen leaves at seven",
)
BY_HAND = "Ada's sister is called Hedy"
MODEL = Embedding.given(BagOfWords())
opened = partial(committing.opened, embedding=MODEL)
quick = committing.opened  # without embeddings, searched by words


def lived(folder: Path, secret: str = SECRET) -> Workspace:
    """Create dreams, transcripts, sessions, a restore, proposals, a cut-off dream, and lines of the owner's."""
    workspace = init_workspace(folder)
    workspace.document.write_text(f"# Mine\n\n- {KEPT[0]}\n- Remember: {secret}\n", encoding="utf-8")
    talk = workspace.root / "talk.jsonl"
    said = [KEPT[1], f"{KEPT[3]}. By the way, {secret}. {KEPT[4]}.", secret]
    talk.write_text("".join(json.dumps({"role": "user", "content": one}) + "\n" for one in said), encoding="utf-8")
    with opened(workspace) as store:
        noted(store, *KEPT[1:4], secret, f"{KEPT[4]}. And {secret}! {KEPT[5]}.")
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        hand = workspace.document.read_text(encoding="utf-8")
        workspace.document.write_text(added(hand, f"Never say that {secret}"), encoding="utf-8")
        noted(store, f"We must not forget: {secret}", "The kettle of house 9 was repaired")
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        absorb_transcripts(store, [talk], utc_now())
        _sessions(store, secret)
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        restore(store, 1)
        noted(store, f"Once more, {secret}")
        proposing = replace(store, config=Config(dream=DreamSection(ask=Ask.ALL)))
        dream_now(proposing, Reason.MANUAL, Mode.AUTO)
        asked = Proposals(store.connection).all()
        settle(store, (), [next(one.number for one in asked if secret not in one.operation.text)])
        noted(store, f"And again, {secret}", "The piano of house 4 is out of tune")
        dream_now(proposing, Reason.MANUAL, Mode.AUTO)
        store.connection.execute("UPDATE dreams SET detail = ?", (f"refused: {secret}",))
        noted(store, f"This one is cut off: {secret}", "The ladder of house 5 is broken")
        cut_off = patch.object(store.memory, "commit", side_effect=PowerCut)
        with with_model(store) as thinking, cut_off, suppress(PowerCut):
            dream_now(thinking, Reason.MANUAL, Mode.AUTO)
        noted(store, f"{KEPT[0]}. Waiting is what {secret} does. The lamp of house 2 is new.", f"plainly {secret}")
    hand = workspace.document.read_text(encoding="utf-8")
    workspace.document.write_text(
        added(added(hand, BY_HAND), f"Also {secret}", SectionName.CONTEXT), encoding="utf-8"
    )
    with workspace.scratch.open("a", encoding="utf-8") as log:
        log.write(f"- by hand, {secret}\n")
    (workspace.state / "000009.json.broken").write_text(json.dumps({"text": secret}), encoding="utf-8")
    aside = sqlite3.connect(workspace.state / "state.db.broken")
    aside.execute("CREATE TABLE t (x TEXT)")
    aside.execute("INSERT INTO t VALUES (?)", (secret,))
    aside.commit()
    aside.close()
    return workspace


def _sessions(store: Store, secret: str) -> None:
    now = utc_now()
    for session in ("s", f"about {secret}"[:60]):
        whole = sessions.add(
            store, session, sessions.Draft(secret, "high", tags=[secret[:40], "x"], metadata={"k": secret}), now
        ).id
        part = sessions.add(store, session, sessions.Draft(f"{KEPT[5]}. Then {secret}. {KEPT[2]}.", "high"), now).id
        sessions.add(store, session, sessions.Draft("The clock of house 7 is slow", "low"), now)
        sessions.relation_add(store, session, part, "says", secret, now, {"because": secret})
        sessions.promote(store, session, whole, now)
        sessions.promote(store, session, part, now)
        gone = sessions.add(store, session, sessions.Draft(f"Forgotten soon: {secret}", "low"), now).id
        sessions.expire(store.connection, session, gone, now)


def copied(workspace: Workspace, folder: Path) -> Workspace:
    return copy_of(workspace.root, folder)


def forgotten(workspace: Workspace, text: str = SECRET, cut: Cut = Cut.SENTENCES) -> Receipt:
    with opened(workspace) as store:
        return forget(store, ForgetRequest(text, cut), utc_now())


def bytes_with(workspace: Workspace, text: str) -> list[str]:
    """Return the files that contain the text in any encoding, except transcripts, which belong to the owner."""
    forms: set[bytes] = set()
    for normal in ("NFC", "NFD"):
        spelt = unicodedata.normalize(normal, text)
        for one in (spelt, spelt.lower(), spelt.casefold(), json.dumps(spelt)[1:-1], json.dumps(spelt.lower())[1:-1]):
            forms |= {one.encode().lower(), one.encode("utf-16-le").lower(), one.encode("utf-16-be").lower()}

    def has(path: Path) -> bool:
        with suppress(FileNotFoundError):  # SQLite removes files beside a database when it is closed
            content = b" ".join((path.read_bytes(), *_packed_texts(path))).lower()
            return any(form in content for form in forms)
        return False

    return [name for name, path in all_files(workspace).items() if path.stem != "talk" and has(path)]


def _packed_texts(path: Path) -> list[bytes]:
    """Return the texts and records of versions, which are compressed in the database."""
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection,
    ):
        rows = connection.execute("SELECT text, record FROM versions").fetchall()
        return [unpacked(value).encode() for row in rows for value in row]
    return []


def finds(store: Store, query: str) -> list[str]:
    return [hit.crystal.text for hit in search(searched_in(store), query, utc_now()).hits]


def assert_sound(workspace: Workspace) -> None:
    """Assert that the workspace works and all other facts are still there."""
    from daemon.journal.story import story_of_line
    from daemon.upkeep.examine import check_stores
    from daemon.workspace.checks import Level

    document = parse(workspace.document.read_text(encoding="utf-8"))
    assert document.missing == ()
    assert BY_HAND in [block.text for _, block in document.lines()]
    with opened(workspace) as store:
        bad = [one for one in check_stores(store) if one.level is Level.PROBLEM]
        assert bad == []
        for line in KEPT:
            assert any(line.rstrip(".") in text for text in finds(store, line)), line
        last = store.lineage.last_version()
        for number in range(1, last + 1):
            assert parse(store.memory.text(number)).missing == ()
        for standing in store.lineage.current_lines():
            assert story_of_line(store, standing.id)
        restore(store, 2)
        noted(store, "The fence of house 8 was painted")
        try:
            dream_now(store, Reason.MANUAL, Mode.AUTO)
        except NothingToDoError as error:
            raise AssertionError from error
        assert store.lineage.last_version() == last + 2


def little(folder: Path, secret: str) -> Workspace:
    """Create one dream, a second version by hand, a transcript, a session and a pending note; without vectors."""
    workspace = init_workspace(folder)
    document = workspace.root / "talk.md"
    document.write_text(f"# Talk\n\n{KEPT[1]}.\n\n{secret}\n\n{KEPT[2]}.\n", encoding="utf-8")
    with quick(workspace) as store:
        noted(store, *KEPT, f"We said: {secret}"[:12_000])
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        hand = workspace.document.read_text(encoding="utf-8")
        line = " ".join(secret.split())
        workspace.document.write_text(added(added(hand, BY_HAND), f"By hand: {line}"), encoding="utf-8")
        absorb_transcripts(store, [document], utc_now())
        noted(store, "The kettle of house 9 was repaired", f"Again: {secret}"[:12_000])
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        now = utc_now()
        sessions.add(store, "s", sessions.Draft(f"{secret}"[:90_000], "high", metadata={"k": secret[:5_000]}), now)
        kept = sessions.add(store, "s", sessions.Draft(f"{KEPT[5]}.\n{secret}"[:90_000], "high"), now).id
        sessions.promote(store, "s", kept, now)
        noted(store, f"{KEPT[0]}.\n\nIt waits: {secret}"[:12_000])
    return workspace


def assert_gone(workspace: Workspace, text: str) -> None:
    """Assert that no file has the text, nor, if it is long, sampled runs of eight of its words."""
    words = text.split()
    pieces = [text] if len(words) <= 8 else [" ".join(words[at : at + 8]) for at in range(0, len(words) - 7, 97)]
    for piece in pieces:
        found = bytes_with(workspace, piece)
        assert found == [], (piece, found)
