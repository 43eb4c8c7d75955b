"""Lives written by others: what is noted stays known, and no line is replaced by a line about something else."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.life import LIVES, Life, given_at_start, lived, read
from daemon.workspace.stores import Store
from state.document.document import parse
from state.document.operations import Why
from state.stores.history.proposals import Proposals
from state.text.words import normalise
from tests.support.long_variants import fewer, spread
from tests.support.model_characters import inputs_of, lines_of
from tests.support.scripted_model import ScriptedModel

LIFE = read(LIVES / "two_hundred_days.json")
FACTS = {normalise(one["note"]): one.get("fact") for one in LIFE.notes}


@pytest.mark.parametrize("name", spread(["five_days_a", "five_days_b"], 2))
def test_without_a_model_memory_answers_what_the_raw_notes_answer(tmp_path: Path, name: str) -> None:
    life = read(LIVES / f"{name}.json")
    with lived(life, 8_000, tmp_path / "agent") as store:
        given = given_at_start(store, life)
    raw = life.raw_notes(8_000)
    assert [one.question for one in life.questions if one.is_answered(raw) and not one.is_answered(given)] == []


def sensible(request: Mapping[str, Any], _number: int) -> str:
    """Revise the line of the same fact, else add one: as a capable model that understands each note."""
    if '"insights"' in str(request["messages"][0]["content"]):
        return json.dumps({"insights": []})
    standing = {fact: name for name, _, text in lines_of(dict(request)) if (fact := FACTS.get(normalise(text)))}
    operations, notes = list[dict[str, object]](), inputs_of(dict(request))
    for name, _, text in notes:
        if not name.startswith("N"):
            continue
        fact = FACTS.get(normalise(text))
        if fact in standing:
            operations.append({"op": "revise", "line": standing[fact], "text": text, "cites": [name]})
        else:
            operations.append({"op": "add", "section": "Active Context", "text": text, "cites": [name]})
    return json.dumps({"operations": operations, "consumed": [name for name, _, _ in notes]})


def replaced_by_another_fact(store: Store) -> list[tuple[str, str]]:
    """The lines in whose place a line about something else came, over the whole ledger."""
    rows = store.connection.execute(
        "SELECT d.text, b.text FROM lines d JOIN lines b ON b.id = d.successor WHERE d.fate IN (?, ?)",
        (Why.REVISED.value, Why.MERGED.value),
    )
    return [(old, new) for old, new in rows if FACTS.get(normalise(old)) != FACTS.get(normalise(new))]


def current_values(life: Life) -> dict[str, str]:
    """The value that each fact has at the end."""
    return {one["fact"]: one["value"] for one in life.notes if one.get("fact")}


def known(store: Store) -> str:
    """What MEMORY.md says, and what its pointers lead to."""
    text = store.workspace.document.read_text("utf-8")
    pointed = store.crystals.get([one.crystal for one in store.lineage.pointers(current=True)])
    return "\n".join((*(block.text for _, block in parse(text).lines()), *(one.text for one in pointed)))


@pytest.mark.parametrize("model", ["none", pytest.param("sensible", marks=pytest.mark.full)])
def test_two_hundred_days_replace_no_fact_by_another(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = replace(LIFE, days=LIFE.days[: fewer(12, 200)])
    with ScriptedModel(sensible) as server:
        if model == "sensible":
            monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
            settings = {"name": "openai/scripted", "api_base": server.url}
        else:
            settings = {}
        with lived(life, 8_000, tmp_path / "agent", settings) as store:
            assert replaced_by_another_fact(store) == []
            refused = store.connection.execute("SELECT guard, figures FROM rejections").fetchall()
            assert [tuple(row) for row in refused] == []
            assert Proposals(store.connection).count() == 0
            if model == "sensible":
                said = known(store)
                values = current_values(life)
                missing = [fact for fact, value in values.items() if value not in said]
                print(f"{len(values) - len(missing)} of {len(values)} current facts are known; missing {missing}")
                assert len(missing) <= 1
