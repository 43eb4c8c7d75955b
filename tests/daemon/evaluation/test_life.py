"""A life is read from both formats, what cannot be read is named, and what a text states is told by fact."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.evaluation.life import Fact, Life, built_in, read_life
from state.errors import UsageError

END = datetime(2026, 3, 1, 12, tzinfo=UTC)
SMALL = {
    "days": 4,
    "facts": [
        {
            "id": "port",
            "question": "Which port does the shop listen on?",
            "past": "Which port did the shop have before?",
            "about": ["shop"],
            "versions": [
                {"day": 0, "text": "The shop listens on port 8410.", "value": "8410"},
                {"day": 2, "text": "Since today the shop is on 8455.", "value": ["8455"]},
            ],
        }
    ],
    "steady": [{"text": "Ada plays the harp.", "question": "What does Ada play?", "value": "harp", "day": 1}],
    "noise": ["It rained."],
}


def life_of(folder: Path, content: object, name: str = "life.json") -> Life:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_life(path)


@pytest.fixture
def fact(tmp_path: Path) -> Fact:
    return life_of(tmp_path, SMALL).facts[0]


def test_the_life_that_comes_with_dreamd_has_what_it_promises() -> None:
    life = built_in()
    changing = [fact for fact in life.facts if fact.id.startswith("steady") is False]
    assert len(life.days) == 60
    assert len(changing) >= 45
    assert len(life.facts) - len(changing) >= 60
    assert all(len(fact.statements) > 1 and fact.past for fact in changing)
    assert sum(len(fact.statements) > 2 for fact in changing) >= 5
    assert sum(len(fact.superseded) < len(fact.statements) - 1 for fact in changing) >= 3  # a value came back
    shapes = {fact.alike for fact in life.facts if fact.alike}
    assert all(sum(fact.alike == shape for fact in life.facts) > 1 for shape in shapes)
    assert len(shapes) >= 5


def test_each_note_of_the_built_in_life_states_its_fact_and_no_other() -> None:
    life = built_in()
    stating = {one.text: fact for fact in life.facts for one in (*fact.statements, *fact.again)}
    for text in {text for day in life.days for text, _ in day}:
        found = [fact.id for fact in life.facts if fact.stated_in(text) is not None]
        assert found == ([stating[text].id] if text in stating else []), text
    for fact in life.facts:
        for one in (*fact.statements, *fact.again):
            stated = fact.stated_in(one.text)
            assert stated is not None
            assert stated.value == one.value
            # The value's words are in the note, so that another text is known by them.
            assert one.has_value(one.text.casefold()), one.text


def test_a_value_counts_only_beside_its_subject_and_as_a_whole_word(fact: Fact) -> None:
    old, new = fact.statements
    assert fact.stated_in("port 8455: that's the shop's") is new
    assert fact.stated_in("The shop moved from 8410 to 8455") is new  # what was before may be said too
    assert fact.stated_in("- [2026-02-01T00:00:00Z] (importance: 0.7) The shop listens on port 8410.") is old
    assert fact.stated_in("The wiki listens on port 8455.") is None
    assert fact.stated_in("The shop has 84551 customers") is None
    assert fact.stated_in("") is None


def test_without_words_of_the_subject_those_of_the_question_tell_it(tmp_path: Path) -> None:
    harp = life_of(tmp_path, SMALL).facts[1]
    assert harp.stated_in("What Ada likes to play is the harp") is harp.current
    assert harp.stated_in("A harp stands in the corner") is None


def test_a_value_that_came_back_is_not_superseded(tmp_path: Path) -> None:
    again = {"day": 3, "text": "The shop is back on 8410.", "value": "8410"}
    facts = [{**SMALL["facts"][0], "versions": [*SMALL["facts"][0]["versions"], again]}]  # type: ignore[index]
    fact = life_of(tmp_path, {**SMALL, "facts": facts}).facts[0]
    assert [one.value for one in fact.superseded] == [("8455",)]
    assert fact.is_current(fact.statements[0])


def test_toml_and_json_are_one_life_and_days_are_those_before_the_end(tmp_path: Path) -> None:
    text = """
        days = 4
        noise = ["It rained."]
        [[facts]]
        id = "port"
        question = "Which port does the shop listen on?"
        past = "Which port did the shop have before?"
        about = ["shop"]
        versions = [{day = 0, text = "The shop listens on port 8410.", value = ["8410"]},
                    {day = 2, text = "Since today the shop is on 8455.", value = ["8455"]}]
        [[steady]]
        text = "Ada plays the harp."
        question = "What does Ada play?"
        value = "harp"
        day = 1
        """
    one, other = life_of(tmp_path, SMALL), life_of(tmp_path, text, "life.toml")
    assert (one.facts, one.days) == (other.facts, other.days)
    days = list(one.notes(END))
    assert [note.at.day for day in days for note in day if "shop" in note.text] == [25, 27]
    assert {note.importance for day in days for note in day} == {0.7, 0.5}
    assert all(note.at < END for day in days for note in day)


def test_days_may_be_left_out(tmp_path: Path) -> None:
    facts = [
        {"question": "Who?", "versions": [{"text": f"It is {who}.", "value": who} for who in ("Ann", "Bo", "Cy")]}
    ]
    fact = life_of(tmp_path, {"facts": facts}).facts[0]
    days = [one.day for one in fact.statements]
    assert days == sorted(set(days))
    assert [one.value for one in fact.statements] == [("ann",), ("bo",), ("cy",)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "it: "),
        ({"facts": []}, "facts: "),
        ({"facts": [{"question": "Who?"}]}, r"facts\.0\.versions: "),
        ({"facts": [{"question": "Who?", "versions": [{"text": "a", "value": [" "]}]}]}, r"versions\.0\.value: "),
        ({**SMALL, "days": 2}, "day 2 of .*8455.* is after its 2 days"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, content: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        life_of(tmp_path, content)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.toml"):
        read_life(tmp_path / "nothing.toml")
