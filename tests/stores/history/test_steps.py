"""The steps of a dream stand in their order, and add up to what it cost."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from state.stores.database.connection import memory_database
from state.stores.history.ledger import Call, Ledger
from state.stores.history.steps import Finished, Steps
from tests.support.long_variants import examples

AT = datetime(2026, 3, 12, tzinfo=UTC)
# What is paid (tokens) before each step; None: the process is killed before the step is recorded.
paid = st.lists(st.tuples(st.lists(st.integers(0, 9_000), max_size=3), st.sampled_from(["one", "other", None])))


@examples(30)
@given(paid)
def test_whatever_was_killed_the_steps_add_up_to_what_was_paid_until_the_last_of_them(
    life: list[tuple[list[int], str | None]],
) -> None:
    with closing(memory_database()) as connection:
        ledger, steps, number = Ledger(connection), Steps(connection), count()
        ledger.record_call("another", Call("d", "m", "{}", usable=True, tokens=5, usd=1.0), AT)
        calls, spent, until = 0, 0, (0, 0)
        nodes = []
        for tokens, node in life:
            for one in tokens:
                ledger.record_call("d", Call(str(next(number)), "m", "{}", usable=True, tokens=one, usd=0.1), AT)
            calls, spent = calls + len(tokens), spent + sum(tokens)
            if node:
                nodes.append(node)
                until = calls, spent
                steps.add("d", [Finished(node, AT + timedelta(seconds=len(nodes)), 1.5, "done")])
        found = steps.of("d", 1_000)
        assert [one.node for one in found] == nodes
        assert (sum(one.calls for one in found), sum(one.tokens for one in found)) == until
        assert all(one.calls >= 0 and one.tokens >= 0 for one in found)
        assert steps.count("d") == len(nodes)
        assert steps.of("d", 1) == found[:1]
