"""The agents themselves, connected by one command: they read, note, find, resume, are compacted and end.

Their models are scripted: what stands in a request has reached the model.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from state.dream import Reason
from tests.support.native_clients import AGENTS, DREAMD, Agent, ClaudeCode, Codex, Person
from tests.support.repository import git
from tests.support.running import until_dreamt_apart
from tests.support.scripted_apis import Call, Step
from tests.support.serving import until

CAT = "Ada's cat is called Zanzibar, and sleeps in the piano"
QUESTION = "what is the name of Ada's cat?"
BICYCLE = "My bicycle is green and stands in the cellar of the old mill"
TRAM = "The tram to the mill leaves at ten past eight"
NOTE, FIND, DREAM = "Remember the cat.", f"Tell me: {QUESTION}", "Fold the tram in now."
PLANS: dict[str, Sequence[Step]] = {
    NOTE: (Call("working_memory_note", {"note": CAT, "importance": 0.9}), "I have noted it."),
    FIND: (Call("memory_search", {"query": QUESTION}), "She is called Zanzibar."),
    DREAM: (Call("working_memory_note", {"note": TRAM}), Call("dream_now", {"wait": False}), "It is under way."),
}

pytestmark = pytest.mark.full


def plan(prompt: str) -> Sequence[Step]:
    """Each of the prompts has its call; whatever else is said is understood."""
    return next((steps for words, steps in PLANS.items() if words in prompt), ("Understood.",))


def connected(name: str, ada: Person) -> Iterator[Agent]:
    AGENTS[name].need()
    one = AGENTS[name](ada, plan)
    with one.api:
        one.ready()
        done = one.connect()
        assert done.status == 0, (done.out, done.err)
        yield one


@pytest.fixture(params=list(AGENTS))
def agent(request: pytest.FixtureRequest, ada: Person) -> Iterator[Agent]:
    yield from connected(request.param, ada)


@pytest.fixture(params=["claude-code", "codex"])
def resuming(request: pytest.FixtureRequest, ada: Person) -> Iterator[ClaudeCode | Codex]:
    for one in connected(request.param, ada):
        assert isinstance(one, ClaudeCode | Codex)
        yield one


@contextmanager
def a_daemon(person: Person, *, runs: bool) -> Iterator[None]:
    """With a daemon that keeps the workspace, or without one."""
    if not runs:
        yield
        return
    with person.home.serving() as daemon:
        daemon.until_kept(person.workspace)
        yield


def found(person: Person, query: str) -> list[dict[str, Any]]:
    hits: list[dict[str, Any]] = person.dreamd("search", query, "--json").json["hits"]
    return hits


def until_dreamt(person: Person) -> dict[str, Any]:
    """What `dreamd status` says once a dream about the end of a session was committed."""

    def last() -> dict[str, Any]:
        said: dict[str, Any] = person.dreamd("status", "--json").json
        return said

    seen = list[dict[str, Any]]()

    def is_dreamt() -> bool:
        seen.append(last())
        dream = seen[-1]["last_dream"] or {}
        return (dream.get("reason"), dream.get("outcome")) == (Reason.SESSION_END, "committed")

    until(is_dreamt, lambda: json.dumps(seen[-1]))
    return seen[-1]


def texts(answer: str) -> list[str]:
    """The results of a search, each in its numbered row."""
    rows = (row.partition(". ") for row in answer.splitlines())
    return [text for number, _, text in rows if number.isdigit()]


@pytest.mark.parametrize("runs", [False, True], ids=["alone", "daemon"])
def test_what_one_session_notes_reaches_the_model_of_the_next(agent: Agent, *, runs: bool) -> None:
    ada, below = agent.person, agent.person.project / "below"
    below.mkdir()
    with a_daemon(ada, runs=runs):
        noted = agent.ask(f"{BICYCLE}. {NOTE}")
        assert "noted 20" in agent.output(noted)
        assert not noted.reached(CAT)
        # What was said, and not noted, is read from the transcript, and the session is dreamt about.
        until(lambda: any(BICYCLE in hit["text"] for hit in found(ada, BICYCLE)))
        (told,) = [hit for hit in found(ada, BICYCLE) if BICYCLE in hit["text"]]
        assert (told["origin"], told["trust"]) == ("session", "owner")
        assert ada.dreamd("status", "--json").json["last_bootstrap"]["agent"] == agent.name
        # Whoever asks next has it before the first word, and finds it; in a folder of the project, too.
        for folder in (None, below):
            asked = agent.ask(FIND, folder=folder)
            assert asked.reached(CAT)
            assert texts(agent.output(asked))[0] == CAT
        assert agent.output(agent.ask(DREAM))


def test_a_session_that_goes_on_is_told_again_and_after_a_compaction_too(resuming: ClaudeCode | Codex) -> None:
    agent, ada = resuming, resuming.person
    assert agent.ask(BICYCLE).ended.status == 0
    assert ada.dreamd("note", CAT).status == 0
    resumed = agent.go_on("And now?")
    assert resumed.reached(BICYCLE)
    assert resumed.reached(CAT)
    compacted = agent.compact()
    assert compacted.ended.status == 0, compacted.ended.err
    after = agent.go_on(FIND)
    assert after.reached(CAT)
    assert texts(agent.output(after))[0] == CAT
    # One session, one transcript, read once.
    assert len(list((ada.project / "transcripts").iterdir())) == 1
    until_dreamt(ada)
    assert [hit["text"] for hit in found(ada, BICYCLE)].count(BICYCLE) == 1


def test_asking_the_same_in_five_sessions_drowns_no_fact(resuming: ClaudeCode | Codex) -> None:
    agent = resuming
    assert agent.ask(NOTE).ended.status == 0
    ranks = [texts(agent.output(agent.ask(FIND))).index(CAT) + 1 for _ in range(5)]
    assert ranks == [1] * 5
    # The answers that it was given are no memories, however often they were given.
    assert [hit["text"] for hit in found(agent.person, QUESTION) if "Texts are memory" in hit["text"]] == []


def test_connecting_again_changes_nothing_and_disconnecting_leaves_nothing(agent: Agent) -> None:
    ada, program = agent.person, str(DREAMD)
    project = sorted(ada.project.rglob("*"))
    connected = settings(ada, program)
    assert connected
    again = agent.connect()
    assert (again.status, "it is connected" in again.out) == (0, True)
    assert settings(ada, program) == connected
    assert sorted(ada.project.rglob("*")) == project  # nothing of it is in a project
    assert ada.dreamd("note", CAT).status == 0
    done = ada.dreamd("disconnect", agent.name, "--yes")
    assert done.status == 0, done.err
    assert settings(ada, program) == {}
    forgotten(agent)


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini"])
def test_an_agent_that_has_gone_is_disconnected_all_the_same(ada: Person, name: str) -> None:
    for agent in connected(name, ada):
        assert ada.dreamd("note", CAT).status == 0
        program = ada.home.folder / "bin" / agent.program
        aside = program.rename(program.with_name("aside"))
        refused = ada.dreamd("connect", name, "--check")
        done = ada.dreamd("disconnect", name, "--yes")
        assert (refused.status, done.status) == (0, 0), done.err
        aside.rename(program)
        forgotten(agent)


def settings(person: Person, words: str) -> dict[str, str]:
    """The files of settings and plugins in the home that hold these words."""
    paths = (path for path in person.home.folder.rglob("*") if path.suffix in (".json", ".toml", ".js"))
    return {str(path): text for path in paths if path.is_file() and words in (text := path.read_text())}


def forgotten(agent: Agent) -> None:
    """See that its next session has neither the memory nor the tools."""
    alone = agent.ask("What is the cat called?")
    assert alone.ended.status == 0, alone.ended.err
    for request in alone.requests:
        assert CAT not in json.dumps(request, ensure_ascii=False)
        assert "working_memory_note" not in json.dumps(request.get("tools"))


def test_two_agents_have_one_memory(ada: Person) -> None:
    first, second = ClaudeCode(ada, plan), Codex(ada, plan)
    for one in (first, second):
        one.need()
        one.ready()
    with first.api, second.api:
        assert (first.connect().status, second.connect().status) == (0, 0)
        assert first.ask(NOTE).ended.status == 0
        told = second.ask(FIND)
        assert told.reached(CAT)
        assert texts(second.output(told))[0] == CAT
        until_dreamt_apart(ada.workspace)  # a session that ends meanwhile waits for the next dream
        assert second.ask(BICYCLE).ended.status == 0
        until_dreamt(ada)  # it may have been about the session before
        until(lambda: BICYCLE in [hit["text"] for hit in found(ada, BICYCLE)])
        # Claude Code asked for nothing but its model.
        assert first.api.others == []


def test_a_repository_that_nobody_prepared_is_remembered_in_all_its_worktrees_and_nowhere_else(agent: Agent) -> None:
    ada = agent.person
    shop, tree, other, plain = (ada.home.folder / name for name in ("shop", "shop-fix", "other", "plain"))
    plain.mkdir()
    for top in (shop, other):
        git(ada.home.folder, "init", "--quiet", top)
        git(top, "commit", "--quiet", "--allow-empty", "--message", "first")
    git(shop, "worktree", "add", "--quiet", tree)
    trusting = ("--skip-trust",) if agent.name == "gemini" else ()
    assert "noted 20" in agent.output(agent.ask(NOTE, *trusting, folder=shop))
    assert agent.ask(FIND, *trusting, folder=tree).reached(CAT)
    for folder in (other, plain):
        assert not agent.ask("Hello.", *trusting, folder=folder).reached(CAT)
    for top in (shop, tree, other):
        assert git(top, "status", "--porcelain", "--ignored") == ""
    assert list(plain.iterdir()) == []
