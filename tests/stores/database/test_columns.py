"""Every text of the schema is described, by its table's declaration."""

from contextlib import closing
from typing import get_type_hints

import pytest

from state.stores.database.connection import memory_database
from state.stores.database.table import Declared, Kind, layouts_of
from state.stores.database.tables import TABLES, content_of


def test_every_text_of_the_schema_has_a_mark_and_nothing_else_has() -> None:
    with closing(memory_database()) as connection:
        found = layouts_of(connection)
    for name, table in TABLES.items():
        assert list(table.columns) == list(found.pop(name).columns), name
    assert found == {}


def test_no_declared_text_is_without_its_kind() -> None:
    for row in Declared.__subclasses__():
        assert str not in get_type_hints(row, include_extras=True).values(), row


def test_the_name_of_a_moment_says_that_it_is_one() -> None:
    for table, columns in ((name, one.columns) for name, one in TABLES.items()):
        for column, content in columns.items():
            assert (content.kind is Kind.MOMENT) is (column == "at" or column.endswith("_at")), (table, column)


@pytest.mark.parametrize(("table", "column"), [("crystals", "of_tomorrow"), ("unheard_of", "text")])
def test_what_nobody_has_told_is_looked_at_as_prose(table: str, column: str) -> None:
    assert content_of(table, column).kind is Kind.PROSE
