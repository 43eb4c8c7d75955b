"""The two native agents behind one face: how each is asked, goes on, is compacted, and what its model was told."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass

from tests.support.native_clients import Answered, Person
from tests.support.running import Ended
from tests.support.scripted_apis import MessagesApi, Plan, ResponsesApi, ScriptedApi


@dataclass(frozen=True, slots=True)
class Agent(ABC):
    """An agent of one person, whose model is scripted. `name` is what `dreamd connect` calls it."""

    person: Person
    api: ScriptedApi
    name: str

    @abstractmethod
    def ask(self, prompt: str) -> Answered:
        """A session of its own."""

    @abstractmethod
    def go_on(self, prompt: str) -> Answered:
        """The last session, resumed."""

    @abstractmethod
    def compact(self) -> Answered:
        """The last session, compacted."""

    @abstractmethod
    def trust(self) -> None:
        """What the person says once in the agent's own dialogue, where the command does not say it for them."""

    def connect(self, *options: str) -> Ended:
        """As a person does it who agrees."""
        return self.person.dreamd("connect", self.name, "--yes", *options)

    def output(self, answered: Answered) -> str:
        """The text that the last tool gave to the model."""
        assert answered.ended.status == 0, answered.ended.err
        _, results = self.api.conversation(answered.requests[-1])
        return str(results[-1]).rpartition("Output:\n")[2]


class ClaudeCode(Agent):
    """`claude -p`."""

    api: MessagesApi

    def ask(self, prompt: str) -> Answered:
        return self.person.claude(self.api, prompt)

    def go_on(self, prompt: str) -> Answered:
        return self.person.claude(self.api, prompt, "--continue")

    def compact(self) -> Answered:
        return self.go_on("/compact")

    def trust(self) -> None:
        path = self.person.home.folder / ".claude.json"
        config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        config.setdefault("projects", {}).setdefault(str(self.person.project), {})["hasTrustDialogAccepted"] = True
        path.write_text(json.dumps(config), encoding="utf-8")


class Codex(Agent):
    """`codex exec`."""

    api: ResponsesApi

    def connect(self, *options: str) -> Ended:
        return super().connect("--trust", *options)

    def ask(self, prompt: str) -> Answered:
        return self.person.codex(self.api, prompt)

    def go_on(self, prompt: str) -> Answered:
        return self.person.codex(self.api, "resume", "--last", prompt)

    def compact(self) -> Answered:
        # It does so by itself when less than what the session has is allowed.
        return self.person.codex(self.api, "-c", "model_auto_compact_token_limit=500", "resume", "--last", "Go on.")

    def trust(self) -> None:
        """Said by `dreamd connect codex --trust`."""


def claude_code(person: Person, plan: Plan) -> ClaudeCode:
    """Claude Code, not yet connected."""
    return ClaudeCode(person, MessagesApi(plan), "claude-code")


def codex(person: Person, plan: Plan) -> Codex:
    """Codex, not yet connected."""
    api = ResponsesApi(plan)
    person.asks_codex(api)
    return Codex(person, api, "codex")


KINDS = {"claude-code": ("claude", claude_code), "codex": ("codex", codex)}
