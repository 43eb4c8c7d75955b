"""The files of words have every row, and those of rules are read as TOML, only faster."""

import tomllib
from pathlib import Path

import pytest

from state.secrets import languages, rules
from state.text.languages.loader import rows_of

FOLDER = Path(rules.__file__).parent


def loaded(name: str) -> dict[str, object]:
    return tomllib.loads((FOLDER / "rules" / name).read_text("utf-8"))


@pytest.mark.parametrize("file", sorted(FOLDER.glob("languages/*.json")), ids=lambda file: file.stem)
def test_a_language_has_every_row_and_no_other(file: Path) -> None:
    rows = rows_of(file)
    assert sorted(rows) == sorted(languages.ROWS)
    assert all(words and all(isinstance(word, str) and word for word in words) for words in rows.values())


def test_each_rule_is_that_of_its_file() -> None:
    tokens = [(kind, row) for kind, rows in loaded("tokens.toml")["tokens"].items() for row in rows]  # type: ignore[attr-defined]
    own: list[dict[str, object]] = loaded("shapes.toml")["rules"]  # type: ignore[assignment]
    entries = rules.ours()
    read = [(entry, entry.read(entry.written)) for entry in entries]
    assert [(entry.keywords, rule.kind) for entry, rule in read[: len(tokens)] if rule] == [
        ((row.split(" ")[0].lower(),), kind) for kind, row in tokens
    ]
    assert [
        (list(entry.keywords), rule.kind, rule.source, rule.exact, rule.look)
        for entry, rule in read[len(tokens) :]
        if rule
    ] == [(row["keywords"], row["kind"], row["regex"], row.get("exact", False), row.get("look", "")) for row in own]


def test_each_rule_of_gitleaks_is_tried_by_its_keywords() -> None:
    theirs: list[dict[str, object]] = loaded("gitleaks.toml")["rules"]  # type: ignore[assignment]
    assert [list(entry.keywords) for entry in rules.theirs()] == [row.get("keywords", [""]) for row in theirs]


def test_each_rule_compiles() -> None:
    read = (entry.read(entry.written) for entry in (*rules.ours(), *rules.theirs()))
    assert all(rule.pattern for rule in read if rule)
