"""All that is known of a dream: what it did, asked and paid, what it changed and why; nothing that is forgotten."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon.api.access import LocalAccess
from daemon.api.operations.dreams import acts, dream_details, dreams
from daemon.config.settings import RetentionSection
from daemon.dream.answers import messages_of, settle_answers
from daemon.journal.dream import DreamDetails, Message
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.retention import sweep
from daemon.workspace.stores import Store, utc_now
from graphs.ports import Answer, Request
from state.codec import encode
from state.errors import NotFoundError, NothingToDoError, RejectedError, UsageError
from state.forgetting.cutting import Cut
from state.stores.database.tables import Act
from state.stores.history.ledger import Call, Finished
from tests.support.committing import dreamt as dream_of
from tests.support.committing import thinking
from tests.support.model_characters import good, inputs_of
from tests.support.working import SECRET, noted

TEA, HERON = "Ada prefers tea over coffee in the morning", "The staging database is called heron"


def dreamt(store: Store, *texts: str) -> str:
    return dream_of(store, *texts).dream.id


def reading(store: Store) -> LocalAccess:
    return LocalAccess(store.workspace, store.config, "test", _store=store)


def asked(store: Store, dream: str = "", **fields: Any) -> DreamDetails:
    return dream_details.run(reading(store), dream, **fields)


@pytest.mark.full
def test_a_dream_shows_its_steps_its_prompt_its_answer_and_what_it_changed_and_why(tmp_path: Path) -> None:
    with thinking(tmp_path / "here") as (_, store):
        dream = dreamt(store, TEA, f"The key of the gateway is {SECRET}")
        found = asked(store, dream[:-4])
        assert found == asked(store, version=1)
        assert [step.node for step in found.steps] == ["absorb", "gather", "synthesize", "guard", "evict", "commit"]
        assert [step.calls for step in found.steps] == [0, 0, 1, 0, 0, 0]
        (call,) = found.calls
        assert found.run.spent.tokens == call.tokens == found.steps[2].tokens > 0
        system, user = call.request
        assert (system.role, user.role) == ("system", "user")
        assert TEA in user.content
        assert json.loads(call.reply)["consumed"] == ["N1", "N2"]
        assert SECRET not in repr(found)
        tea = next(one for one in found.changes if [line.text for line in one.new] == [TEA])
        assert (tea.why, tea.section, tea.old) == ("added", "Active Context", ())
        assert [(one.text, one.trust) for one in tea.evidence] == [(TEA, "agent")]
        assert f"+- {TEA}" in found.diff
        assert "--- MEMORY.md (before dreamd)" in found.diff
        assert (found.before, found.itself, found.more) == (None, 1, {})
        assert found.run.version is not None
        assert (found.run.run.outcome, found.run.version.added, found.run.run.version) == ("committed", 2, 1)


def test_an_old_line_is_shown_beside_the_new_one(tmp_path: Path) -> None:
    def moved(request: dict[str, Any], number: int) -> str:
        said = json.loads(good(request, number))
        if number == 2:
            said["operations"][0] |= {"op": "revise", "lines": ["L1"]}
        return json.dumps(said)

    with thinking(tmp_path / "here", moved) as (_, store):
        dreamt(store, HERON)
        found = asked(store, dreamt(store, "The staging database is called egret now, not heron"))
        (revised,) = found.changes
        assert (revised.name, revised.why, [line.text for line in revised.old]) == ("2.1", "revised", [HERON])
        assert (found.before, found.itself) == (1, 2)
        short = asked(store, found.run.run.id, limit=1)
        assert (len(short.steps), short.more) == (1, {"steps": 5})


def test_a_secret_that_the_owner_wrote_into_the_file_is_not_in_the_diff(tmp_path: Path) -> None:
    with thinking(tmp_path / "here") as (_, store):
        dreamt(store, TEA)
        document = store.workspace.document
        text = document.read_text(encoding="utf-8")
        document.write_text(text.replace(f"- {TEA}", f"- {TEA}\n- The key is {SECRET}"), encoding="utf-8")
        found = asked(store, dreamt(store, HERON))
        assert "The key is" in found.diff
        assert HERON in found.diff
        assert SECRET not in repr(found)


def test_of_a_dream_that_was_refused_it_is_said_why_and_what_it_cost(tmp_path: Path) -> None:
    with thinking(tmp_path / "here", lambda *_: "This is no answer.") as (_, store):
        with pytest.raises(RejectedError):
            dreamt(store, TEA)
        (run,) = dreams.run(reading(store), outcome="rejected").dreams
        found = asked(store, run.run.id)
        assert found.refusals
        assert found.run == run
        assert (run.spent.calls, run.version) == (len(found.calls), None)
        assert run.spent.tokens == sum(call.tokens for call in found.calls) > 0
        assert (found.diff, found.changes, found.itself) == ("", (), None)


def test_a_run_says_what_it_was_about_and_what_became_of_the_notes_of_one_that_failed(tmp_path: Path) -> None:
    said = ["This is no answer."]

    def silent_once(request: dict[str, Any], number: int) -> str:
        return said[0] if said else good(request, number)

    with thinking(tmp_path / "here", silent_once) as (_, store):
        with pytest.raises(RejectedError):
            dreamt(store, TEA, f"The key of the gateway is {SECRET}")
        (failed,) = dreams.run(reading(store)).dreams
        assert (failed.notes, failed.taken_at, failed.about) == (2, None, ())
        said.clear()
        dreamt(store)
        done, failed = dreams.run(reading(store)).dreams
        assert (failed.notes, failed.taken_at) == (2, done.run.started_at)
        assert done.about[0] == TEA
        assert SECRET not in repr(done)
        assert (done.version and done.version.added, done.notes, done.taken_at) == (2, 0, None)


def test_a_dream_that_changed_nothing_has_no_version_of_another(tmp_path: Path) -> None:
    def deaf(request: dict[str, Any], number: int) -> str:
        names = [name for name, _, _ in inputs_of(request)]
        return good(request, number) if number == 1 else json.dumps({"operations": [], "consumed": names})

    with thinking(tmp_path / "here", deaf) as (_, store):
        dreamt(store, TEA)
        found = asked(store, dreamt(store, HERON))
        assert (found.run.run.outcome, found.run.version, found.changes) == ("committed", None, ())


def test_where_no_answers_are_kept_there_is_none(tmp_path: Path) -> None:
    with thinking(tmp_path / "here", retention=RetentionSection(answers_days=0)) as (_, store):
        found = asked(store, dreamt(store, TEA))
        assert [line.text for one in found.changes for line in one.new] == [TEA]
        assert [(call.request, call.reply) for call in found.calls] == [((), "")]
        assert (found.run.spent.calls, sum(one.calls for one in found.steps)) == (1, 1)


def test_what_is_gone_is_empty_and_no_error(tmp_path: Path) -> None:
    with thinking(tmp_path / "here") as (_, store):
        dream = dreamt(store, TEA)
        store.connection.execute("UPDATE versions SET text = x'', record = x''")
        sweep(store, utc_now() + timedelta(days=15))
        found = asked(store, dream)
        assert (found.changes, found.diff, found.itself) == ((), "", None)
        assert [(call.request, call.reply) for call in found.calls] == [((), "")]
        assert found.run.spent.calls == 1
        store.connection.execute("DELETE FROM dreams")
        assert asked(store, version=1).run.run.outcome == "committed"
        for dream, version in (("", 7), ("2", None), ("nobody", None)):  # "2" begins both
            with pytest.raises(NotFoundError):
                asked(store, dream, version=version)
        for dream, version in (("", None), ("2", 1)):
            with pytest.raises(UsageError):
                asked(store, dream, version=version)


def test_runs_are_listed_page_by_page_each_once(tmp_path: Path) -> None:
    with thinking(tmp_path / "here") as (_, store):
        for number in range(3):
            dreamt(store, f"The parser of house {number} was painted by crew {number + 3}")
        with pytest.raises(NothingToDoError):
            dreamt(store)
        caller, cursor, seen = reading(store), "", list[str]()
        for _ in range(4):
            page = dreams.run(caller, limit=1, cursor=cursor)
            seen += [one.run.outcome for one in page.dreams]
            cursor = page.next_cursor or ""
        assert (seen, cursor) == (["skipped", "committed", "committed", "committed"], "")
        committed = dreams.run(caller, outcome="committed")
        assert [one.run.version for one in committed.dreams] == [3, 2, 1]
        assert all(one.spent.calls == 1 and one.spent.tokens > 0 and one.version for one in committed.dreams)
        with pytest.raises(UsageError):
            dreams.run(caller, cursor="nobody")


def test_what_is_forgotten_is_in_no_prompt_answer_or_step(tmp_path: Path) -> None:
    with thinking(tmp_path / "here") as (_, store):
        (store.workspace.root / "transcripts").mkdir()
        named = store.workspace.root / "transcripts" / "the staging database is called heron.md"
        named.write_text("User: Bo likes coffee\n\nAssistant: noted\n", encoding="utf-8")
        dream = dreamt(store, TEA, HERON)
        named.unlink()
        assert "heron" in asked(store, dream).steps[0].figures
        assert "heron" in asked(store, dream).calls[0].request[1].content
        assert forget(store, ForgetRequest(HERON, Cut.SENTENCES), utc_now()).clean
        found = asked(store, dream)
        assert "called heron" not in repr(found)
        assert found.calls[0].request == ()
        connection = store.crystals.connection  # whatever the ledger holds
        said = (dream, f"it says so. {HERON}. The key is {SECRET}")
        connection.execute(
            "INSERT INTO rejections (dream, at, guard, scope, figures) VALUES (?, '', 'g', 'dream', ?)", said
        )
        (refusal,) = asked(store, dream).refusals
        assert "it says so" in refusal.figures
        assert not any(word in refusal.figures for word in (HERON, SECRET))


def test_what_a_model_says_of_what_is_forgotten_is_not_kept_of_a_dream_that_is_over(tmp_path: Path) -> None:
    def knowing(request: dict[str, Any], _number: int) -> str:
        names = [name for name, _, _ in inputs_of(request)]
        texts = {"The Niche": HERON, "The Bond": TEA}
        adds = [{"op": "add", "section": at, "text": text, "cites": names[:1]} for at, text in texts.items()]
        return json.dumps({"operations": adds, "consumed": names})

    with thinking(tmp_path / "here", knowing) as (_, store):
        noted(store, HERON)
        forget(store, ForgetRequest(HERON, Cut.SENTENCES), utc_now())
        found = asked(store, dreamt(store, TEA))
        assert found.calls[0].reply
        assert HERON not in repr(found)
        now, answer = utc_now(), Answer("{}", "m", 1, 1, 0.0, "stop", 1.0, estimated=False)
        asking = messages_of(Request((("system", "Be brief."), ("user", f"N1: {json.dumps(HERON)}"))))
        store.ledger.begin("another", "manual", now)
        store.ledger.record_call("another", Call("d", "m", encode(answer), True, 2, 0.0, asking), now)  # noqa: FBT003
        store.ledger.add_steps("another", [Finished("ingest", now, 0.0, f"{HERON}.md: 2 turns")])
        settle_answers(store, "another")
        found = asked(store, "another")
        assert found.calls[0].request[0] == Message("system", "Be brief.")
        assert "called heron" not in repr(found)


def test_acts_are_listed_page_by_page(tmp_path: Path) -> None:
    at = datetime(2026, 3, 12, tzinfo=UTC)
    with thinking(tmp_path / "here") as (_, store):
        for number in range(3):
            about = f"change {number}"
            store.ledger.record_act(
                Act(at=at, author="owner, in the window", act="decide", about=about, outcome="done")
            )
        caller = reading(store)
        first = acts.run(caller, limit=2)
        assert [one.about for one in first.acts] == ["change 2", "change 1"]
        last = acts.run(caller, limit=2, cursor=first.next_cursor)
        assert ([one.about for one in last.acts], last.next_cursor) == (["change 0"], None)
