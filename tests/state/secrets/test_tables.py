"""The files of words have every row, and each rule for secrets compiles."""

from pathlib import Path

import pytest

from state.secrets import languages, rules
from state.text.languages.loader import rows_of

FILES = Path(languages.__file__).parent.glob("languages/*.json")


@pytest.mark.parametrize("file", sorted(FILES), ids=lambda file: file.stem)
def test_a_language_has_every_row_and_no_other(file: Path) -> None:
    rows = rows_of(file)
    assert sorted(rows) == sorted(languages.ROWS)
    assert all(words and all(isinstance(word, str) and word for word in words) for words in rows.values())


def test_each_rule_compiles_and_has_keywords() -> None:
    assert len(rules.every()) > 600
    assert all(rule.pattern and rule.keywords for rule in rules.every())
