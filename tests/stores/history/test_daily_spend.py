"""The ceilings of a day over all workspaces of a user: counted by whoever pays, and held for all."""

from datetime import timedelta
from pathlib import Path

import pytest

from daemon.config.settings import Config, DaemonSection, ModelSection
from daemon.dream.run import Mode, dream_now
from daemon.engine.held import Held
from daemon.workspace.adoption import init_workspace
from daemon.workspace.status import status
from daemon.workspace.stores import open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.budget import DayLimits, Spend, check_day
from state.dream import Reason
from state.errors import CeilingError
from state.scratch import Note
from state.stores.history.inbox import NoteInbox
from state.stores.vectors.embedder import Unavailable
from tests.support.model_characters import good
from tests.support.scripted_model import ScriptedModel


def test_the_call_that_could_pass_the_ceiling_of_all_is_not_made() -> None:
    limits = DayLimits(usd_per_day=1.0, tokens_per_day=100)
    check_day(limits, today=Spend(9, 90, 0.9), about_to=Spend(1, 10, 0.1))
    with pytest.raises(CeilingError, match=r"daemon\.usd_per_day"):
        check_day(limits, today=Spend(9, 9, 0.95), about_to=Spend(1, 1, 0.1))
    with pytest.raises(CeilingError, match=r"raise daemon\.tokens_per_day"):
        check_day(limits, today=Spend(9, 95, 0.0), about_to=Spend(1, 10, 0.0))


@pytest.mark.full
def test_what_one_workspace_spent_another_one_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    first, second = (init_workspace(tmp_path / name) for name in ("first", "second"))
    with ScriptedModel(good) as server:
        model = ModelSection(name="openai/gpt-4o-mini", api_base=server.url)
        config = Config(model=model)
        for workspace in (first, second):
            NoteInbox(workspace).append(Note("The cat is called Miez", utc_now(), 0.5))
        with open_exclusive(first, config, "test") as store:  # no daemon has to run for it to count
            dream_now(store, Reason.MANUAL, Mode.AUTO)
        spending = status(second, config, utc_now()).spending
        assert spending.tokens == 0
        assert spending.all_tokens == status(first, config, utc_now()).spending.tokens > 0
        assert spending.breaker == ""

        config = Config(model=model, daemon=DaemonSection(tokens_per_day=spending.all_tokens))
        asked = len(server.requests)
        with (
            open_exclusive(second, config, "test") as store,
            pytest.raises(CeilingError, match=r"daemon\.tokens_per_day"),
        ):
            dream_now(store, Reason.MANUAL, Mode.AUTO)
        assert len(server.requests) == asked
    assert "over all workspaces" in status(second, config, utc_now()).spending.breaker
    unavailable = Embedding.given(Unavailable("no model in this test"))
    held = Held(second, lambda: config, unavailable, utc_now())
    held.acquire()
    until = held.facts(utc_now()).history.ceiling_until
    held.release()
    assert until is not None
    assert timedelta() < until - utc_now() <= timedelta(days=1)
