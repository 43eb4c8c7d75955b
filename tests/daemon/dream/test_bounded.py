"""Bounded dreams: a bite of what is pending, news since the last dream, and an end to what a model gets wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from daemon.config.settings import Config, ModelSection
from daemon.dream import memory
from daemon.dream.consolidation import new_input
from daemon.dream.progress import Step
from daemon.dream.run import Mode, dream_now
from daemon.journal.restore import restore
from daemon.models import litellm_model
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.stores import Store, utc_now
from state.crystals.crystal import Crystal, Kind, Origin
from state.document.document import parse
from state.document.sections import SectionName
from state.dream import Reason
from state.errors import NothingToDoError, RejectedError
from state.forgetting.cutting import Cut
from state.scratch import Note
from tests.support.committing import cut_off, dreamt, thinking
from tests.support.model_characters import good, inputs_of
from tests.support.notes import noted
from tests.support.scripted_model import Reply, Script, ScriptedModel
from tests.support.working import working

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
WORDS = "parser garden invoice harbour violin ticket kettle museum".split()


def numbered(count: int) -> list[str]:
    return [f"The {WORDS[n % 8]} of house {n} was painted by crew {n * 37 % 1009}" for n in range(count)]


def turns(store: Store, *texts: str, importance: float = 0.6) -> None:
    store.crystals.learn(
        Crystal(text, Origin.SESSION, AT, Kind.FACT, importance, session="s", position=at)
        for at, text in enumerate(texts)
    )


def section(store: Store, name: SectionName) -> list[str]:
    text = store.workspace.document.read_text(encoding="utf-8")
    return [block.text for where, block in parse(text).lines() if where is name]


@pytest.fixture
def small_bites(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(memory, "MOST_NOTES", 10)
    return 10


def test_a_log_is_taken_in_bite_by_bite_each_note_once_and_what_waits_is_said(store: Store, small_bites: int) -> None:
    texts = numbered(34)
    noted(store, *texts)
    outcomes = [dreamt(store) for _ in range(4)]
    assert [outcome.dream.notes for outcome in outcomes] == [10, 10, 10, 4]
    assert [outcome.dream.waiting for outcome in outcomes] == [24, 14, 4, 0]
    assert [outcome.pending for outcome in outcomes] == [24, 14, 4, 0]
    with pytest.raises(NothingToDoError):
        dreamt(store)
    consumed = [crystal.text for outcome in outcomes for crystal in outcome.dream.crystals]
    assert [text for text in consumed if text in texts] == texts
    shown = store.crystals.get(id_ for outcome in outcomes for id_ in outcome.dream.dreamt)
    assert sorted(crystal.text for crystal in shown) == sorted(texts)


def test_a_restore_gives_back_the_bites_since_and_no_others(store: Store, small_bites: int) -> None:
    texts = numbered(30)
    noted(store, *texts)
    for _ in range(3):
        dreamt(store)
    restore(store, 1)
    assert [pending.text for pending in tuple(store.notes.each_pending())] == texts[small_bites:]
    restore(store, 3)  # which undoes the restore
    assert tuple(store.notes.each_pending()) == ()
    restore(store, 2)
    assert [pending.text for pending in tuple(store.notes.each_pending())] == texts[2 * small_bites :]
    assert dreamt(store).dream.notes == small_bites


def test_a_bite_fits_the_models_context(store: Store) -> None:
    noted(store, *(f"{text} {'and so on ' * 120}" for text in numbered(40)))
    read = memory.WorkspaceMemory(store, 8_000).read("d", Reason.MANUAL, AT)
    from graphs.input_budget import capped

    assert 0 < len(read.notes) < 40
    shown = capped(read, 8_000)
    assert [piece.id for piece in shown.evidence if piece.id[0] == "N"] == [
        f"N{number}" for number in range(1, len(read.notes) + 1)
    ]
    assert read.waiting == 40 - len(read.notes)


def test_a_backlog_of_turns_makes_one_dream_and_then_comes_along_with_news(store: Store) -> None:
    turns(store, *numbered(300))
    assert new_input(store) == 300
    assert len(dreamt(store).dream.dreamt) == 50
    assert new_input(store) == 0
    for reason in Reason:
        with pytest.raises(NothingToDoError):
            dream_now(store, reason, Mode.AUTO)
    noted(store, "Ada prefers tea over coffee")
    assert len(dreamt(store).dream.dreamt) == 51
    assert new_input(store) == 0


def test_a_dream_that_was_refused_keeps_its_news(store: Store) -> None:
    turns(store, *numbered(8))
    record = cut_off(store)
    assert new_input(store) == 8
    turns(store, "Ada keeps the spare key under the blue flower pot")
    store.memory.commit(record)
    assert new_input(store) == 1


def test_the_same_input_again_changes_nothing(store: Store) -> None:
    texts = numbered(12)
    noted(store, *texts)
    dreamt(store)
    before = [section(store, name) for name in SectionName]
    for day in (1, 2):
        for text in texts:
            store.notes.inbox.append(Note(text, AT + timedelta(days=day), 0.8))
        dreamt(store)
        assert [section(store, name) for name in SectionName] == before


def test_a_question_that_its_owner_wrote_or_that_has_no_answer_stays(store: Store) -> None:
    noted(store, "Which region holds the backups?")
    dreamt(store)
    text = store.workspace.document.read_text(encoding="utf-8")
    by_hand = "Who keeps the spare key?"
    heading = f"## {SectionName.GAPS.value}\n"
    store.workspace.document.write_text(text.replace(heading, f"{heading}- {by_hand}\n"), encoding="utf-8")
    store.notes.inbox.append(Note("Marta keeps the spare key", datetime.now(UTC), 0.8))
    dreamt(store)
    assert sorted(section(store, SectionName.GAPS)) == ["Which region holds the backups?", by_hand]


@contextmanager
def killed_with_its_answer(folder: Path) -> Iterator[tuple[ScriptedModel, Store]]:
    """A workspace in which a dream over one note was killed when its model had answered."""

    def kill(step: Step) -> None:
        if step.node == "guard":
            raise KeyboardInterrupt

    with thinking(folder) as (model, store):
        noted(store, "Ada prefers tea over coffee")
        with pytest.raises(KeyboardInterrupt):
            dream_now(store, Reason.MANUAL, Mode.AUTO, kill)
        yield model, store


def test_a_dream_that_was_killed_goes_on_with_its_answer_and_says_what_it_cost(tmp_path: Path) -> None:
    with killed_with_its_answer(tmp_path / "agent") as (model, store):
        noted(store, "The harbour wall is of granite")  # it came later, and waits
        done = dreamt(store)
        assert (model.count, done.resumed, done.pending) == (1, True, 1)
        assert (done.dream.usage.calls, done.dream.notes) == (1, 1)


def test_a_dream_that_was_begun_with_a_model_and_ends_without_one_says_so(tmp_path: Path) -> None:
    steps = list[Step]()
    with killed_with_its_answer(tmp_path / "agent") as (model, store):
        without = replace(store, config=Config())
        done = dream_now(without, Reason.MANUAL, Mode.AUTO, steps.append)
        assert (model.count, done.resumed, done.dream.author) == (1, False, "extractive")
        run = store.ledger.run(done.dream.id)
    told = (steps[0].figures, run.detail, done.dream.problems[0])
    assert ["was begun with a model and ends without one" in one for one in told] == [True] * 3


def test_one_that_has_read_something_else_by_now_begins_anew_and_says_so(tmp_path: Path) -> None:
    steps = list[Step]()
    with killed_with_its_answer(tmp_path / "agent") as (model, store):
        store.workspace.document.write_text("# Ours\n\nThe harbour wall is of granite.\n", encoding="utf-8")
        done = dream_now(store, Reason.MANUAL, Mode.AUTO, steps.append)
        assert (model.count, done.resumed, done.dream.notes) == (2, False, 1)
    assert {"1 note", "1 operation applied, 0 refused"} <= {step.figures for step in steps}


LONG = "".join(
    f"Fact {number} of the long note is that crew {number * 37} painted it. " for number in range(270)
).strip()


@contextmanager
def reading_parts(folder: Path, answer: Script) -> Iterator[tuple[list[str], Store]]:
    """A workspace with a long note, whose model has a small context; and the parts of the note that it was shown."""
    parts = list[str]()

    def script(request: dict[str, Any], number: int) -> Reply | str | dict[str, Any]:
        parts.extend(text for name, _, text in inputs_of(request) if name == "N1")
        return answer(request, number)

    with ScriptedModel(script) as model, patch.object(litellm_model, "UNKNOWN_WINDOW", 16_000):
        config = Config(model=ModelSection(name="openai/of-ours", api_base=model.url))
        with working(folder, config) as store:
            noted(store, LONG)
            yield parts, store


def whole(parts: list[str]) -> str:
    bare = [part.removeprefix("continued … ") for part in dict.fromkeys(parts)]
    return " ".join(part.split(" … ")[0] for part in bare)


def test_a_long_note_is_consumed_when_all_of_it_was_shown(tmp_path: Path) -> None:
    with reading_parts(tmp_path / "agent", good) as (parts, store):
        done = [dreamt(store) for _ in range(3)]
        assert [(one.dream.notes, one.pending, one.dream.author != "extractive") for one in done] == [
            (0, 1, True), (0, 1, True), (1, 0, True),
        ]  # fmt: skip
        assert whole(parts) == LONG
        assert [part.endswith("more characters in the next dream") for part in parts] == [True, True, False]
        with pytest.raises(NothingToDoError):
            dreamt(store)
        store.notes.inbox.append(Note(LONG, AT, 0.8))  # said again, it is shown from its beginning
        dreamt(store)
        assert parts[3] == parts[0]


def test_a_kill_between_parts_loses_none_and_a_restore_has_them_shown_again(tmp_path: Path) -> None:
    with reading_parts(tmp_path / "agent", good) as (parts, store):
        dreamt(store)
        cut_off(store)
        dreamt(store)
        dreamt(store)
        assert whole(parts) == LONG
        assert tuple(store.notes.each_pending()) == ()
        restore(store, 1)
        del parts[:]
        while dreamt(store).pending:
            pass
        assert whole(parts) == LONG


def test_a_part_that_no_answer_uses_is_shown_again_and_then_taken_in_without_the_model(tmp_path: Path) -> None:
    silent = iter([True, False, False, False])

    def answer(request: dict[str, Any], number: int) -> str:
        return good(request, number) if next(silent) else '{"operations": [], "consumed": []}'

    with reading_parts(tmp_path / "agent", answer) as (parts, store):
        dreamt(store)
        for _ in range(2):
            with pytest.raises(RejectedError):
                dreamt(store)
        done = dreamt(store)
        assert (len(dict.fromkeys(parts)), done.pending, done.dream.author) == (2, 0, "extractive")
        said = [line.text for line in done.dream.came]
        assert said[-1].startswith(parts[1].removeprefix("continued … ")[:50])


def test_a_part_of_a_note_that_is_forgotten_is_shown_no_more(tmp_path: Path) -> None:
    with reading_parts(tmp_path / "agent", good) as (parts, store):
        dreamt(store)
        secret = "Fact 200 of the long note"
        forget(store, ForgetRequest(secret, Cut.WORDS), utc_now())
        del parts[:]
        while dreamt(store).pending:
            pass
        assert secret not in whole(parts)
        assert "Fact 199 of" in whole(parts)
        assert "Fact 201 of" in whole(parts)
