"""What an older dreamd was to forget stays forgotten."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from state.forgetting.known import Target
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database, to_text
from state.stores.database.tombstones import TombstoneStore, tombstones_in
from tests.support.older import older_schema

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
SECRET = "the vault code is 4711"
HELD = "Miez is a cat. The Vault **code** is 4711! Rex is a dog."


def _version_3(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        older_schema(connection, 3)
        connection.execute(
            "INSERT INTO crystals (id, text, origin, kind, importance, trust, lifecycle, created_at)"
            " VALUES ('00', 'an old memory', 'scratch', 'fact', .5, 'agent', 'generated', ?)",
            (to_text(AT),),
        )
        connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
        connection.execute("INSERT INTO meta VALUES ('forgotten_salt', ?)", ("ab" * 32,))
        # As that version buried "never again" with this salt.
        digest = "fce29c459fdc8383d995c48359fe7911ffa112c4bad1608a12f34026643f25a0"
        connection.execute("INSERT INTO forgotten VALUES (?, ?)", (digest, to_text(AT)))


def test_a_database_of_version_3_forgets_on_and_more(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _version_3(path)
    assert not tombstones_in(path)  # read beside its owner, who has not migrated it: nothing fails
    for _ in range(2):
        with closing(open_database(path)) as connection:
            forgotten = TombstoneStore(connection)
            assert forgotten.holds("never again")
            assert not forgotten.holds("it is never again so")
            forgotten.block(Target.of(SECRET), AT)
            assert forgotten.holds(HELD)
            assert Crystals(connection).by_keys([1])[1].text == "an old memory"
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
