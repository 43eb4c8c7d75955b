"""What holds for every policy over a session's whole life."""

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from state.sessions.item import WEIGHTS
from state.sessions.policies import Bounded, Budget, Hybrid, Policy, Ttl, policy_of, settings_of
from tests.support.long_variants import examples
from tests.support.simulated_session import Session

PROTECTED_TAGS = Budget().protected_tags
TAGS = st.lists(st.sampled_from([*PROTECTED_TAGS[:2], "todo", "Insight"]), max_size=2).map(tuple)
WAITS = st.one_of(st.just(0.0), st.floats(0, 60), st.floats(0, 7_200), st.floats(0, 100_000), st.floats(-600, 0))
PLACES = st.integers(0, 10_000)
TOKENS = st.one_of(st.integers(1, 5), st.integers(1, 40))
# Thresholds themselves, and what lies around them.
WORTH = st.sampled_from([0.0, 0.1, 0.29, 0.3, 0.5, 0.69, 0.7, 0.9, 1.0]) | st.floats(0, 1)


class Life(RuleBasedStateMachine):
    """Any life of a session. Each policy's own machine says which policy, and what its limits are."""

    session: Session

    @rule(
        tokens=TOKENS,
        importance=WORTH,
        priority=st.sampled_from(list(WEIGHTS)),
        tags=TAGS,
        steps=st.integers(-8, 8),
        count=st.integers(1, 6),
    )
    def add(
        self, tokens: int, importance: float, priority: str, tags: tuple[str, ...], steps: int, count: int
    ) -> None:
        for _ in range(count):
            step = max(0, self.session.step + steps)
            fields = {"importance": importance, "priority": priority, "tags": tags, "step_index": step}
            before = list(self.session.held)
            plan = self.session.add(token_count=tokens, **fields)
            if plan is None:
                assert self.session.held == before, "nothing happens when an item is refused"

    @precondition(lambda self: self.session.held)
    @rule(place=PLACES, times=st.integers(1, 12))
    def get(self, place: int, times: int) -> None:
        for _ in range(times):
            self.session.get(place % len(self.session.held))

    @rule(seconds=WAITS)
    def wait(self, seconds: float) -> None:
        self.session.now += timedelta(seconds=seconds)

    @rule()
    def tick(self) -> None:
        self.session.tick()
        assert self.after_tick()

    @precondition(lambda self: self.session.held)
    @rule(place=PLACES)
    def hide(self, place: int) -> None:
        self.session.hide(place % len(self.session.held))

    @precondition(lambda self: self.session.archived)
    @rule(place=PLACES)
    def restore(self, place: int) -> None:
        names = sorted(self.session.archived)
        self.session.restore(names[place % len(names)])

    @precondition(lambda self: self.session.held)
    @rule(place=PLACES)
    def purge(self, place: int) -> None:
        self.session.purge(place % len(self.session.held))

    @invariant()
    def every_item_is_in_one_place_and_the_log_says_which(self) -> None:
        where = list(self.session.where())
        assert len(where) == self.session.added
        assert dict(where) == self.session.last_said()

    @invariant()
    def nothing_is_promoted_twice_from_the_set(self) -> None:
        assert set(self.session.promoted) <= set(self.session.crystals)

    @invariant()
    def the_limits_hold(self) -> None:
        assert self.within()

    @invariant()
    def the_policy_is_what_its_settings_say(self) -> None:
        assert policy_of(self.session.policy.name, settings_of(self.session.policy)) == self.session.policy

    def open(self, policy: Policy) -> None:
        self.session = Session(policy)

    def within(self) -> bool:
        return True

    def after_tick(self) -> bool:
        return True


class TtlLife(Life):
    @initialize(low=st.sampled_from([1, 3600]), score=st.sampled_from([0.5, 0.8]), accesses=st.integers(1, 10))
    def opened(self, low: int, score: float, accesses: int) -> None:
        self.open(
            Ttl.of({"ttl_seconds": {"low": low}, "promote_score": score, "promote_accesses": {"medium": accesses}})
        )

    def after_tick(self) -> bool:
        """Nothing that is eligible waits, nothing that is expired stays."""
        now, policy = self.session.now, self.session.policy
        expired = any(one.expires_at is not None and one.expires_at <= now for one in self.session.held)
        return not policy.earned(self.session.view) and not expired

    def within(self) -> bool:
        """There is no limit; a soft forgetting makes nothing permanent, and a crystal is made once of an item."""
        assert len(set(self.session.crystals)) == len(self.session.crystals)
        return all(one.expires_at is not None for one in self.session.held)


class BudgetLife(Life):
    @initialize(
        soft=st.integers(1, 12),
        above=st.integers(0, 8),
        batch=st.integers(1, 14),
        tags=st.sampled_from([PROTECTED_TAGS, ()]),
    )
    def opened(self, soft: int, above: int, batch: int, tags: tuple[str, ...]) -> None:
        limits = {"soft_limit": soft, "hard_limit": soft + above, "batch_size": batch}
        self.open(Budget.of({**limits, "protected_tags": tags}))

    def within(self) -> bool:
        """After a check the hard limit is not reached; a rescue is of a protected one, and none became permanent."""
        policy = self.session.policy
        assert isinstance(policy, Budget)
        lost = (self.session.archived[name] for name in self.session.rescued)
        assert all(policy.protects(one) for one in lost)
        assert not any(policy.protects(one) for one in self.session.promoted.values())
        return len(self.session.held) < max(policy.hard_limit, 1)


class HybridLife(Life):
    @initialize(tokens=st.integers(1, 100))
    def opened(self, tokens: int) -> None:
        self.open(Hybrid.of({"max_tokens": tokens}))

    def within(self) -> bool:
        policy = self.session.policy
        assert isinstance(policy, Hybrid)
        return self.session.view.tokens <= policy.max_tokens and not self.session.promoted


class BoundedLife(Life):
    @initialize(
        items=st.integers(1, 12),
        tokens=st.integers(1, 100),
        steps=st.integers(0, 20),
        window=st.integers(0, 30),
        low=WORTH,
        high=WORTH,
    )
    def opened(self, items: int, tokens: int, steps: int, window: int, low: float, high: float) -> None:
        limits = {"max_items": items, "max_tokens": tokens, "step_ttl": steps, "recent_window": window}
        first, last = sorted((low, high))
        self.open(Bounded.of({**limits, "importance_threshold_low": first, "importance_threshold_high": last}))

    def within(self) -> bool:
        policy = self.session.policy
        assert isinstance(policy, Bounded)
        return len(self.session.held) <= policy.max_items and self.session.view.tokens <= policy.max_tokens

    def after_tick(self) -> bool:
        """A sweep leaves nothing that is older than it may be, and takes nothing else."""
        policy = self.session.policy
        assert isinstance(policy, Bounded)
        return not any(map(policy.outlived(self.session.view), self.session.held))


LIVES = examples(60, stateful_step_count=40)
TestTtlLife = TtlLife.TestCase
TestTtlLife.settings = LIVES
TestBudgetLife = BudgetLife.TestCase
TestBudgetLife.settings = LIVES
TestHybridLife = HybridLife.TestCase
TestHybridLife.settings = LIVES
TestBoundedLife = BoundedLife.TestCase
TestBoundedLife.settings = LIVES
