"""A dream by a model from the command line: what it costs, who wrote, and what its failures leave."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.scripted_model import Reply, Script, ScriptedModel, error, in_turn
from tests.support.transcript import Transcript

NOTE = "Ada prefers tea over coffee in the morning"
WRITTEN = {
    "operations": [{"op": "add", "section": "The Bond", "text": "Ada drinks tea.", "cites": ["N1"]}],
    "consumed": ["N1"],
}


@pytest.fixture
def with_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], ScriptedModel]]:
    servers: list[ScriptedModel] = []

    def start(script: Script) -> ScriptedModel:
        server = ScriptedModel(script).__enter__()
        servers.append(server)
        monkeypatch.setenv("DREAMD_MODEL__NAME", "openai/gpt-4o")
        monkeypatch.setenv("DREAMD_MODEL__API_BASE", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
        return server

    yield start
    for server in servers:
        server.__exit__()


def test_a_dream_by_a_model_says_what_it_cost_and_why_says_who_wrote(
    told: Transcript, with_model: Callable[[Script], ScriptedModel]
) -> None:
    with_model(in_turn(WRITTEN))
    told(f"""
        $ dreamd note {NOTE}
        noted
        $ dreamd dream
        version 1, …
        + The Bond: Ada drinks tea.
        …1 call, …$0.0…
        $ dreamd why Ada drinks tea
        …by …gpt-4o (dream@…
    """)
    status = told("$ dreamd status --json\n…").json
    assert status["last_dream"]["tokens"] == status["spending"]["tokens"] > 0


def test_a_model_that_fails_fails_the_dream_and_keeps_every_note(
    told: Transcript, with_model: Callable[[Script], ScriptedModel]
) -> None:
    with_model(in_turn(error(401)))
    told(f"""
        $ dreamd note {NOTE}
        noted
        $ dreamd dream --json
        …"code": "MODEL_ERROR",…
        ! …does not accept the key (401)…
        [1]
        $ dreamd bootstrap
        …{NOTE}…
        $ dreamd status
        …last dream   …failed…
    """)


def test_an_answer_that_the_guards_refuse_ends_with_4_and_status_shows_the_figures(
    told: Transcript, with_model: Callable[[Script], ScriptedModel]
) -> None:
    with_model(in_turn(Reply(content="half an answ", finish_reason="length")))
    told(f"""
        $ dreamd note {NOTE}
        noted
        $ dreamd dream
        ! …every note is pending…
        [4]
        $ dreamd status
        …rejected…refused      …
    """)
    assert not (told.here / "MEMORY.md").exists()
