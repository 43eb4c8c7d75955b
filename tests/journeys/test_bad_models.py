"""Models that answer badly, through litellm: what then stands in MEMORY.md, what is pending, what it cost."""

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from state.stores.disk.workspace import Workspace
from tests.support import lived, model_characters
from tests.support.gallery import FAILING, KINDS, Kind, living, name_of
from tests.support.gallery.replies import paid_back
from tests.support.long_variants import spread, variants
from tests.support.planted import LINES, NEWS, lost
from tests.support.running import Caller
from tests.support.scripted_model import Script, ScriptedModel, error, in_turn

Serve = Callable[[Script], ScriptedModel]


@dataclass(frozen=True, slots=True)
class End:
    """What becomes of a dream by a model of one kind.

    `news` says whether what was noted stands in MEMORY.md, `left` whether it waits for the next dream; None: some of
    it does.
    """

    script: Script
    status: int
    requests: int
    news: bool | None = False
    left: bool | None = False

    def __str__(self) -> str:
        return self.script.__name__


KEPT = (
    # What an answer neither cites nor names, or cites only for what is refused, it has not taken in.
    End(model_characters.wrong_ids, 4, 3, left=True),
    End(model_characters.foreign, 0, 1, news=None, left=None),
    # What is whole of an answer that breaks off is done; what the rest was to say comes again.
    End(model_characters.cut_off, 0, 3, news=None, left=None),
    # It named the notes as read: they are crystals.
    End(model_characters.evicting, 0, 3),
    End(model_characters.eroding, 0, 1),
    # It named one of them, in a call of a tool.
    End(model_characters.calling, 0, 1, news=None, left=None),
    # Answers that cannot be read, or not to their end.
    End(model_characters.one_word, 4, 3),
    End(model_characters.prose, 4, 3),
    End(model_characters.emptied, 4, 3),
    End(model_characters.markdown, 4, 3),
    End(model_characters.doubled, 4, 3),
    # Its cost alone reaches the ceiling.
    End(model_characters.megabyte, 1, 1),
    # Good answers in odd clothes.
    End(model_characters.tool_json, 0, 1, news=True),
    End(model_characters.good, 0, 1, news=True),
)
# A third of them, and those that fail on the way, are a row in which each end occurs; with DREAMD_LONG=1 all are one,
# three times.
_OTHERS = [kind for kind in KINDS if kind not in FAILING]
ROWS = [
    *(pytest.param((*_OTHERS[at::3], *FAILING), 1, id=f"short-{at}") for at in range(3)),
    *(pytest.param(KINDS, *row.values, id="long", marks=row.marks) for row in variants(1, 3)[1:]),
]
UNREADABLE = [end for end in KEPT if end.status == 4]


def assert_ended(
    workspace: Workspace, before: str, *, status: int, news: bool | None, left: bool | None = False
) -> None:
    """Consumed and written, or pending and untouched; in either case nothing is lost."""
    if left is None:
        assert 0 < len(lived.pending(workspace)) < len(NEWS)
    elif left:
        assert sorted(lived.pending(workspace)) == sorted(NEWS)
        assert set(lived.lines(workspace)) == set(LINES)
    elif status == 0:
        assert lived.pending(workspace) == []
        assert {one for one in NEWS if one in lived.lines(workspace)} == (set(NEWS) if news else set())
        assert lost(workspace, NEWS) == []
    else:
        assert lived.document(workspace) == before
        assert sorted(lived.pending(workspace)) == sorted(NEWS)
    lived.assert_valid(workspace)
    assert lost(workspace) == []
    assert lived.places(workspace).total() == lived.places(workspace).keys().__len__()
    assert lived.outcomes(workspace)[-1] == {0: "committed", 1: "failed", 4: "rejected"}[status]


@pytest.mark.full
@pytest.mark.parametrize("end", KEPT, ids=str)
def test_a_bad_answer_costs_three_tries_at_most_and_loses_nothing(
    workspace: Workspace, dreamd: Caller, serve: Serve, end: End
) -> None:
    server, before = serve(end.script), lived.document(workspace)
    ended = dreamd("dream", workspace.root)
    assert ended.status == end.status, ended.err
    assert server.count == end.requests == lived.calls(workspace)
    assert_ended(workspace, before, status=end.status, news=end.news, left=end.left)


@pytest.mark.parametrize("end", spread(UNREADABLE, 2), ids=str)
def test_when_the_configuration_says_so_a_bad_answer_ends_in_a_dream_without_the_model(
    workspace: Workspace, dreamd: Caller, serve: Serve, monkeypatch: pytest.MonkeyPatch, end: End
) -> None:
    monkeypatch.setenv("DREAMD_MODEL__ON_FAILURE", "extractive")
    server, before = serve(end.script), lived.document(workspace)
    ended = dreamd("dream", workspace.root)
    assert ended.status == 0, ended.err
    assert server.count == 3
    assert "without a model after openai/scripted: 3 calls" in ended.out
    assert_ended(workspace, before, status=0, news=True)


@pytest.mark.full
@pytest.mark.parametrize("on_failure", ["keep", "extractive"])
def test_a_provider_that_fails_for_ever_is_given_up(
    workspace: Workspace, dreamd: Caller, serve: Serve, monkeypatch: pytest.MonkeyPatch, on_failure: str
) -> None:
    monkeypatch.setenv("DREAMD_MODEL__ON_FAILURE", on_failure)
    server, before = serve(in_turn(error(500))), lived.document(workspace)
    ended = dreamd("dream", workspace.root)
    status = 1 if on_failure == "keep" else 0
    assert ended.status == status, ended.err
    assert server.count == 4
    assert "500" in ended.err
    assert_ended(workspace, before, status=status, news=status == 0)


@pytest.mark.full
def test_a_model_that_is_never_right_stops_at_the_ceiling_of_the_day(
    workspace: Workspace, dreamd: Caller, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DREAMD_LIMITS__TOKENS_PER_DAY", "20000")
    server, before = serve(model_characters.one_word), lived.document(workspace)
    ends = [dreamd("dream", workspace.root).status for _ in range(6)]
    assert ends[0] == 4
    assert ends[-1] == 1
    asked = server.count
    assert lived.rows(workspace, "SELECT sum(tokens) AS paid FROM calls")[0]["paid"] <= 20_000
    assert "limits.tokens_per_day" in dreamd("dream", workspace.root).err
    assert server.count == asked
    assert_ended(workspace, before, status=1, news=False)


def test_a_cost_of_less_than_nothing_is_no_credit(workspace: Workspace, dreamd: Caller, serve: Serve) -> None:
    serve(paid_back)
    assert dreamd("dream", workspace.root).status == 0
    assert lived.rows(workspace, "SELECT min(tokens) AS paid FROM calls")[0]["paid"] > 0


@pytest.mark.full
@pytest.mark.parametrize(("kinds", "rounds"), ROWS)
def test_bad_models_of_every_kind_in_a_row_lose_no_fact(
    workspace: Workspace,
    dreamd: Caller,
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    kinds: Sequence[Kind],
    rounds: int,
) -> None:
    """In the short variants each call, in the long one each dream is of the next kind."""
    for limit in ("TOKENS_PER_DAY", "TOKENS_PER_DREAM"):
        monkeypatch.setenv(f"DREAMD_LIMITS__{limit}", "1000000000")
    seed = int(os.environ.get("DREAMD_SEED", "20260312"))
    print(f"DREAMD_SEED={seed}")
    rng = random.Random(seed)
    turn = living.Turn(living.order(kinds, rounds, rng), by_call=rounds == 1)
    serve(turn)
    mine = living.by_hand(workspace)
    facts = [*LINES, *mine, *NEWS]
    lives = living.live(workspace, turn, lambda: dreamd("dream", workspace.root).status, facts, rng)
    first = next(lives)
    healthy, number = lived.document(workspace), lived.versions(workspace)[-1]["number"]
    assert first.outcome == "committed"
    assert set(mine) <= set(lived.lines(workspace))
    done = [first, *lives]
    assert Counter(turn.asked) >= Counter([*kinds] * rounds)
    assert {one.outcome for one in done} == {"committed", "rejected", "failed"}
    assert {one.status for one in done} == {0, 1, 4}
    assert lost(workspace, facts) == []
    assert set(living.PINNED) <= set(lived.lines(workspace))
    fates = lived.rows(workspace, "SELECT text, fate FROM lines WHERE fate IN ('revised', 'merged')")
    assert not {row["text"] for row in fates} & set(mine)
    assert len(lived.document(workspace)) > 4_000
    assert lived.places(workspace).total() == len(lived.places(workspace))
    turn.kinds = iter([model_characters.good])
    assert dreamd("dream", workspace.root).status in {0, 3}
    assert lived.pending(workspace) == []
    assert lost(workspace, facts) == []
    assert dreamd("restore", number, "-w", workspace.root).status == 0
    assert lived.document(workspace) == healthy
    assert lost(workspace, facts) == []


def test_the_gallery_is_large_and_says_what_each_kind_does() -> None:
    assert len(KINDS) == len(set(map(name_of, KINDS))) >= 100
    assert all(kind.__doc__ for kind in KINDS)
    assert len(LINES) == len(set(LINES)) == 100
