"""Whatever is done to a session, its limits hold, and every item is in the set, cold, a crystal, or purged.

The event log, read from its beginning, says of each item where it is; the statistics say what the rows say.
"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from daemon import sessions
from daemon.sessions.crystals import digest_of
from state.errors import DreamdError
from state.sessions.item import WEIGHTS, Item, State
from state.sessions.policies import View, policy_of
from state.stores.sessions.sessions import Sessions
from tests.support.long_variants import examples, sample
from tests.support.working import AT, HOUR, SECOND, everything, working

LIMITS: dict[str, dict[str, object]] = {
    "ttl": {},
    "budget": {"soft_limit": 4, "hard_limit": 6, "batch_size": 2},
    "hybrid": {"max_tokens": 12},
    "bounded": {"max_items": 4, "max_tokens": 12, "step_ttl": 3, "recent_window": 1},
}
# What an event says of where its item is now.
PLACES = {"added": "set", "restored": "set", "archived": "cold", "left": "cold", "purged": "purged"}
IN_SET = (State.LIVE, State.HIDDEN)


class Session(RuleBasedStateMachine):
    """One session and whatever can be asked of it. `policy` is set by the subclass."""

    policy: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="dreamd-"))
        self.stack = ExitStack()
        self.store = self.stack.enter_context(working(self.folder / "w"))
        self.store.connection.execute("PRAGMA synchronous = OFF")
        self.now = AT
        self.said: dict[int, str] = {}

    @initialize()
    def open(self) -> None:
        sessions.session_open(self.store, "s", self.now, self.policy, LIMITS[self.policy])

    @rule(
        importance=st.sampled_from([0.0, 0.2, 0.3, 0.5, 0.7, 1.0]),
        priority=st.sampled_from(["low", "medium", "high", "critical"]),
        tokens=st.integers(1, 12),
        step=st.none() | st.integers(0, 9),
        tags=st.sampled_from([[], ["decision"], ["todo"]]),
    )
    def add(self, importance: float, priority: str, tokens: int, step: int | None, tags: list[str]) -> None:
        content = f"thing {len(self.said)}"
        expected = sessions.preview(self.store.connection, "s", self.now, 1_000).leaving
        made = sessions.add(
            self.store,
            "s",
            sessions.Draft(content, priority, tags=tags, importance=importance, token_count=tokens, step_index=step),
            self.now,
        )
        self.said[made.seq] = content
        assert made.seq == len(self.said) - 1
        gone = [one.memory_id for one in made.evicted]
        if self.policy == "hybrid":  # what was there leaves in the order of the preview
            assert gone == [one.memory_id for one in expected][: len(gone)]

    @precondition(lambda self: self.said)
    @rule(data=st.data(), call=st.sampled_from(["get", "promote", "expire", "extend_ttl", "restore"]))
    def touch(self, data: st.DataObject, call: str) -> None:
        items = everything(self.store)
        item = items[data.draw(st.integers(0, len(items) - 1))]
        function: Callable[..., object] = getattr(sessions, call)
        try:
            function(self._of(function), "s", item.id, self.now)
        except DreamdError as error:
            assert error.code in ("NOT_FOUND", "EXPIRED", "VALIDATION_ERROR")  # noqa: PT017

    @rule(
        instruction=st.sampled_from(["oldest", "least important", "position:1", "before:step_2"]),
        mode=st.sampled_from(["soft", "hard"]),
    )
    def forget(self, instruction: str, mode: str) -> None:
        try:
            sessions.forget(self.store, "s", instruction, self.now, mode, confirm=True)
        except DreamdError as error:
            assert error.code == "NOT_FOUND"  # noqa: PT017

    @rule()
    def tend(self) -> None:
        sessions.maintain(self.store, self.now)

    @rule(call=st.sampled_from([sessions.sweep, sessions.clear_session, sessions.list_pending, sessions.stats]))
    def ask(self, call: Callable[..., object]) -> None:
        call(self._of(call), "s", self.now)

    @rule(call=st.sampled_from(["close", "recall"]))
    def leave(self, call: str) -> None:
        if call == "recall":
            sessions.recall(self.store, "s", "thing", self.now)
            return
        sessions.close_session(self.store.connection, "s", self.now)
        sessions.session_open(self.store, "s", self.now, self.policy, LIMITS[self.policy])

    @rule(hours=st.sampled_from([0.01, 0.5, 1, 5, 30]))
    def wait(self, hours: float) -> None:
        self.now += hours * HOUR + SECOND

    @invariant()
    def the_limits_hold(self) -> None:
        held = [item for item in everything(self.store) if item.state in IN_SET]
        tokens = sum(item.token_count for item in held)
        match self.policy:
            case "budget":
                assert len(held) < 6
            case "hybrid":
                assert tokens <= 12
            case "bounded":
                assert len(held) <= 4
                assert tokens <= 12
        found = sessions.stats(self.store.connection, "s", self.now).capacity
        assert (found.items, found.tokens) == (len(held), tokens)

    @invariant()
    def nothing_is_lost_and_the_log_says_where_it_is(self) -> None:
        store = Sessions(self.store.connection)
        session = store.find("s")
        items = everything(self.store)
        assert [item.seq for item in items] == list(self.said)
        for item in items:
            if session is None:
                break
            place = "nowhere"
            for event in store.events(session, item):
                place = PLACES.get(event.action, place)
            assert place == self._place(item), (item, place)
            if item.state == State.PURGED:
                assert item.content == ""
                assert store.forgotten.holds(self.said[item.seq])
            else:
                assert item.content == self.said[item.seq]

    @invariant()
    def the_indexes_hold_what_the_rows_say(self) -> None:
        def keys(query: str) -> list[int]:
            return [row[0] for row in self.store.connection.execute(query)]

        assert keys("SELECT id FROM cold_words_docsize ORDER BY id") == keys(
            "SELECT key FROM items WHERE state = 'archived' ORDER BY key"
        )
        self.store.connection.execute("INSERT INTO cold_words (cold_words, rank) VALUES ('integrity-check', 1)")

    @invariant()
    def the_kept_statistics_are_those_that_are_counted(self) -> None:
        held = [item for item in everything(self.store) if item.state in IN_SET]
        decides = policy_of(self.policy, LIMITS[self.policy])
        kept = sessions.stats(self.store.connection, "s", self.now)
        assert (kept.total_count, kept.hidden_count, kept.promoted_count, kept.expired_count) == (
            len(held),
            sum(item.state == State.HIDDEN for item in held),
            sum(item.promoted_to_id is not None for item in held),
            sum(item.is_expired(self.now) for item in held),
        )
        assert kept.pending_promotion == len(decides.earned(View(held, 0, self.now)))
        assert kept.by_priority == {one: sum(item.priority == one for item in held) for one in WEIGHTS}
        if held:
            assert kept.avg_access_count == round(sum(item.access_count for item in held) / len(held), 6)
            score = sum(item.importance_score for item in held) / len(held)
            assert kept.avg_importance == pytest.approx(score, abs=1e-6)

    @invariant()
    def the_same_state_gives_the_same_plan(self) -> None:
        first, second = (sessions.preview(self.store.connection, "s", self.now) for _ in range(2))
        assert first == second

    def _of(self, function: Callable[..., object]) -> object:
        takes_all = next(iter(signature(function).parameters)) == "store"
        return self.store if takes_all else self.store.connection

    def _place(self, item: Item) -> str:
        if item.state in IN_SET:
            return "set"
        if item.state == State.PURGED:
            return "purged"
        assert item.promoted_to_id is None or self.store.crystals.ids_of([digest_of(item)])
        return "cold"

    def teardown(self) -> None:
        self.stack.close()
        shutil.rmtree(self.folder)


@pytest.mark.parametrize("policy", sample(LIMITS, lambda _, name: name == "bounded"))
def test_nothing_is_ever_lost(policy: str) -> None:
    machine = type(policy, (Session,), {"policy": policy})
    run_state_machine_as_test(
        machine, settings=examples(25, stateful_step_count=30, suppress_health_check=list(HealthCheck))
    )
