"""The files of words and rules are read as TOML, only faster."""

import tomllib
from pathlib import Path

import pytest

from state.errors import ConfigError
from state.secrets import languages, rules

FOLDER = Path(rules.__file__).parent
ROWS = "\n".join(f'{name} = ["a word"]' for name in languages.ROWS)


def loaded(name: str) -> dict[str, object]:
    return tomllib.loads((FOLDER / "rules" / name).read_text("utf-8"))


@pytest.mark.parametrize("file", sorted(FOLDER.glob("languages/*.toml")), ids=lambda file: file.stem)
def test_the_words_of_a_language_are_those_of_its_file(file: Path) -> None:
    assert languages.rows_of(file) == tomllib.loads(file.read_text("utf-8"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the row 'password' is no list of words"),
        (ROWS.replace('pin = ["a word"]', "pin = []"), "the row 'pin' is no list of words"),
        (ROWS.replace('pin = ["a word"]', "pin = [1]"), "the row 'pin' is no list of words"),
        (ROWS.replace('pin = ["a word"]', "pin = ['a word']"), "the row 'pin' is no list of words"),
        (f'{ROWS}\nother = ["a word"]', "'other' is no row of a language"),
        (f"# A comment\n{ROWS}\npin: a word\n", "'pin:' is in no row"),
    ],
)
def test_a_file_that_is_no_list_of_rows_is_refused(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "xx.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"xx.toml: {told}"):
        languages.rows_of(file)


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
