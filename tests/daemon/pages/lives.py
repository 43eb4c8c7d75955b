"""Workspaces with something on every page: what was noted and dreamt, said, felt, and kept in mind."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from daemon.api.access import LocalAccess
from daemon.config.settings import Config, DreamSection, load
from daemon.dream.run import Mode, dream_now
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal, Origin, Source
from state.crystals.supersession import Cause, Supersession
from state.document.asking import Ask
from state.dream import Reason
from state.scratch import Note
from state.signals.curiosity import Cause as Asked
from state.signals.hormones import Feeling
from state.stores.database.connection import transaction
from state.stores.disk.workspace import Workspace
from state.stores.vectors.embedder import Unavailable
from state.trust import Trust
from tests.support.revising import revises

NOW = datetime.now(UTC)
TEA, COFFEE = "Ada prefers tea in the morning", "Ada prefers coffee in the morning"
SHORT, LONG = "Ada likes short answers of one line", "Ada likes short answers of three lines"
PREFACE = "Written by hand, and above everything"
ASKING = DreamSection(ask=Ask.ALL)
HOSTILE = '<img src="https://a.test/x"> \u202e{{ 7 * 7 }}'
TURNS = [
    Crystal(
        text, Origin.SESSION, NOW - timedelta(days=9 - at), session="talk", position=at, speaker="Ada",
        trust=Trust.OWNER, source=Source("talk.md", at + 1, at + 1, "ab" * 20),
        id=f"{0xCA7 + at:012x}" + 20 * "0",  # the same in every process, for tests are named by it
    )
    for at, text in enumerate(("The cache holds an hour.", "The cache holds a day.", "Ada has a cat.", HOSTILE))
]  # fmt: skip
OLD, NEW, CAT, BAD = TURNS


def changed_by_a_model(folder: Path, rules: DreamSection) -> Path:
    """A workspace after two dreams; the second revises the two lines of the first."""
    workspace = init_workspace(folder)
    workspace.document.write_text(f"# Notes\n\n{PREFACE}\n", encoding="utf-8")
    with revises({COFFEE: TEA, LONG: SHORT}):
        dreamt(workspace, TEA, SHORT, rules=DreamSection())
        dreamt(workspace, COFFEE, LONG, rules=rules)
    return workspace.root


def dreamt(workspace: Workspace, *notes: str, rules: DreamSection | None = None, mode: Mode = Mode.AUTO) -> None:
    """Dream over these notes."""
    config = load(None).model_copy(update={"dream": rules}) if rules else Config()
    embedding = Embedding.given(Unavailable("no model in this test"))
    with LocalAccess(workspace, config, "a test", embedding=embedding) as access, access.write() as store:
        for note in notes:
            store.notes.inbox.append(Note(note, utc_now(), 0.7))
        dream_now(store, Reason.MANUAL, mode)


def live(store: Store, more: Mapping[str, str]) -> None:
    """Put crystals, a superseded one, questions and feelings into a store."""
    store.crystals.learn(
        [*TURNS, Crystal("Ada likes animals.", Origin.DREAM, NOW, parents=(CAT.id,), importance=0.9)]
    )
    keys = store.crystals.keys([OLD.id, NEW.id])
    with transaction(store.connection):
        pair = Supersession(keys[OLD.id], keys[NEW.id], NOW, Trust.AGENT, Cause.DREAM)
        store.supersessions.record([pair])
    for question, cause in more.items():
        store.questions.raise_(question, Asked(cause), NOW - timedelta(hours=1))
    store.feelings.feel([Feeling.ERROR], "the <b>build</b> broke", NOW - timedelta(hours=2))
