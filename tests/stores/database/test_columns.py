"""The table of columns says of every text of the schema what it is."""

from contextlib import closing

import pytest

from state.stores.database.columns import COLUMNS, Kind, content_of, tables_of
from state.stores.database.connection import memory_database


def test_every_text_of_the_schema_is_described_and_nothing_else() -> None:
    with closing(memory_database()) as connection:
        found = {
            name: {column.name for column in table.columns if column.type in ("TEXT", "BLOB")}
            for name, table in tables_of(connection).items()
        }
    assert {table: set(columns) for table, columns in COLUMNS.items()} == {
        table: columns for table, columns in found.items() if columns
    }


def test_the_name_of_a_moment_says_that_it_is_one() -> None:
    for table, columns in COLUMNS.items():
        for column, content in columns.items():
            assert (content.kind is Kind.MOMENT) is (column == "at" or column.endswith("_at")), (table, column)


@pytest.mark.parametrize(("table", "column"), [("crystals", "of_tomorrow"), ("unheard_of", "text")])
def test_what_nobody_has_told_is_looked_at_as_prose(table: str, column: str) -> None:
    assert content_of(table, column).kind is Kind.PROSE
