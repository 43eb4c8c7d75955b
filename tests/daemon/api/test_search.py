"""What a search says beneath its results, sets apart and leaves out, as a reply and in words."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.api.access import LocalAccess
from daemon.api.operations.search import SearchReply, memory_search, search_text
from daemon.config.settings import Config
from daemon.workspace.adoption import init_workspace
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal, Origin
from state.trust import Trust

DAY = datetime(2026, 11, 16, 9, tzinfo=UTC)
TURNS = {
    "The release train of the harbour project leaves on Tuesday mornings.": -9,
    "The release train of the harbour project leaves on Thursday mornings now.": 0,
}
ASKED = "Who drives the release train of the harbour project?"


@pytest.fixture(scope="module")
def embedding() -> Embedding:
    return Embedding()


@pytest.fixture
def access(tmp_path: Path, embedding: Embedding) -> Iterator[LocalAccess]:
    with LocalAccess(init_workspace(tmp_path / "agent"), Config(), "a test", embedding=embedding) as access:
        with access.write() as store:
            store.crystals.learn(
                Crystal(
                    text, Origin.SESSION, DAY + timedelta(days), session=str(days), speaker="Ada", trust=Trust.OWNER
                )
                for text, days in TURNS.items()
            )
            store.crystals.learn([Crystal(ASKED, Origin.SCRATCH, DAY)])
        yield access


def asked(access: LocalAccess, query: str, *, everything: bool = False) -> SearchReply:
    return memory_search.run(access, query, all=everything)


def test_what_was_said_later_stands_beneath_a_turn_with_its_day(access: LocalAccess) -> None:
    earlier, later = TURNS
    reply = asked(
        access, "On which day does the release train of the harbour project leave, Tuesday?", everything=True
    )
    (hit,) = [one for one in reply.hits if one.text == earlier]
    assert hit.later is not None
    assert (hit.later.text, hit.later.at) == (later, DAY)
    assert f'   later: "{later}", 16 Nov 2026\n' in search_text(reply)


def test_what_only_asks_stands_apart(access: LocalAccess) -> None:
    reply = asked(access, "driver of the release train of the harbour project")
    assert ASKED not in [hit.text for hit in reply.hits]
    assert [one.text for one in reply.questions] == [ASKED]
    assert f"? {ASKED}\n   open question, " in search_text(reply).replace("?  ", "? ")
    assert ASKED in [hit.text for hit in asked(access, "release train of the harbour", everything=True).hits]


def test_what_answers_is_not_called_unlikely(access: LocalAccess) -> None:
    with access.write() as store:
        store.crystals.learn([Crystal("We use PostgreSQL 16 with pgbouncer", Origin.SCRATCH, DAY)])
    first = search_text(asked(access, "Which database do we use")).splitlines()[1:3]
    assert first[0] == "1. We use PostgreSQL 16 with pgbouncer"
    assert "unlikely" not in first[1]
