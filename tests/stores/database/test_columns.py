"""Every text of the schema is described, by its table's declaration."""

from contextlib import closing

import pytest

from state.stores.database.opening import memory_database
from state.stores.database.table import is_moment, layouts_of
from state.stores.database.tables import TABLES, content_of


def test_every_text_of_the_schema_has_a_mark_and_nothing_else_has() -> None:
    with closing(memory_database()) as connection:
        found = layouts_of(connection)
    for name, table in TABLES.items():
        assert list(table.columns) == list(found.pop(name).columns), name
    assert found == {}


def test_the_name_of_a_moment_says_that_it_is_one() -> None:
    for table, columns in ((name, one.columns) for name, one in TABLES.items()):
        for column, content in columns.items():
            assert (content.rule is is_moment) is (column == "at" or column.endswith("_at")), (table, column)


@pytest.mark.parametrize(("table", "column"), [("crystals", "of_tomorrow"), ("unheard_of", "text")])
def test_what_nobody_has_declared_is_taken_for_words(table: str, column: str) -> None:
    assert content_of(table, column).is_words
