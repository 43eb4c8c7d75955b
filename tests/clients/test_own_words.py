"""Transcripts that the agents themselves write: of all that stands in them, what a person said is the owner's."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from state.trust import Trust
from tests.support.native_clients import AGENTS, Agent, ClaudeCode, Person
from tests.support.scripted_apis import Call, Step
from tests.support.serving import PATIENCE_SECONDS
from tests.support.transcripts import read_turns

PROMPT = "Please strip <system-reminder> from the exports: Gunhild signs them"
HOST = "Which host should run the bookings?"
ASKED = {"options": [{"label": name, "description": name} for name in ("auk-1", "auk-2")], "multiSelect": False}
STEPS: dict[str, tuple[Step, ...]] = {
    "Choose a host.": (
        Call("AskUserQuestion", {"questions": [{"question": HOST, "header": "Host", **ASKED}]}, server=""),
        "Noted.",
    ),
    "Clean up.": (Call("Bash", {"command": "git push --force", "description": "Push"}, server=""), "I leave it."),
    "Release it.": (Call("Bash", {"command": "sleep 3", "description": "Wait"}, server=""), "I leave it to her."),
}
ANSWER, REASON, QUEUED = (
    "auk-3, on Debian",
    "Never force-push: Oksana's mirror breaks",
    "Stop: only Marguerite releases",
)
TRANSCRIPTS = {
    "claude-code": ".claude/projects/**/*.jsonl",
    "codex": ".codex/sessions/**/*.jsonl",
    "gemini": ".gemini/tmp/**/chats/*.jsonl",
}

pytestmark = pytest.mark.full


def owners_words(person: Person, agent: str) -> list[str]:
    (path,) = person.home.folder.glob(TRANSCRIPTS[agent])
    reading = read_turns(path)
    assert reading.problems == ()
    return [turn.text for turn in reading.turns if turn.trust is Trust.OWNER]


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_of_a_session_the_prompt_alone_is_the_owners(ada: Person, name: str) -> None:
    kind: type[Agent] = AGENTS[name]
    kind.need()
    agent = kind(ada, lambda _: ("Understood.",))
    with agent.api:
        agent.ready()
        (ada.project / "AGENTS.md").write_text("Mallory always wants zebras.")
        assert agent.ask(PROMPT).ended.status == 0
    assert owners_words(ada, name) == [PROMPT]


def test_what_a_person_answers_refuses_and_types_meanwhile_is_the_owners(ada: Person) -> None:
    ClaudeCode.need()
    agent = ClaudeCode(
        ada, lambda prompt: next((steps for said, steps in STEPS.items() if said in prompt), ("Yes.",))
    )
    with agent.api:
        agent.ready()
        converse(agent, list(STEPS))
    first, second, third = STEPS
    said = owners_words(ada, agent.name)
    assert said == [first, f"{HOST} {ANSWER}", second, REASON, third, QUEUED]


def converse(agent: ClaudeCode, prompts: list[str]) -> None:
    """Say the prompts, one after the other, as a program that asks a person about every call."""
    streaming = ("--input-format", "stream-json", "--permission-prompt-tool", "stdio")
    words = agent.words(prompts[0], streaming)
    with subprocess.Popen(
        [Path(agent.person.home.folder / "bin" / agent.program), *(one for one in words if one != prompts[0])],
        cwd=agent.person.project,
        env=agent.person.environment(**agent.proxied, **agent.login),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout

        def send(message: dict[str, Any]) -> None:
            assert process.stdin
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()

        def say(text: str) -> None:
            send({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}})

        left = iter(prompts)
        say(next(left))
        try:
            for message in map(json.loads, process.stdout):
                if message["type"] == "control_request":
                    response = {"subtype": "success", "request_id": message["request_id"]}
                    send(
                        {"type": "control_response", "response": {**response, "response": decide(message["request"])}}
                    )
                elif message["type"] == "assistant" and "sleep 3" in json.dumps(message):
                    say(QUEUED)
                elif message["type"] == "result":
                    if (prompt := next(left, None)) is None:
                        break
                    say(prompt)
            process.stdin.close()
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()


def decide(request: dict[str, Any]) -> dict[str, Any]:
    """Answer the question, refuse the push, allow the rest."""
    given = request["input"]
    if request["tool_name"] == "AskUserQuestion":
        return {"behavior": "allow", "updatedInput": {**given, "answers": {HOST: ANSWER}}}
    if "push" in json.dumps(given):
        return {"behavior": "deny", "message": REASON}
    return {"behavior": "allow", "updatedInput": given}
