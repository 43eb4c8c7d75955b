"""The two native agents behind one face: how each is asked, goes on, is compacted, and what its model was told."""

import json
from dataclasses import dataclass

from tests.support.native_clients import Answered, Person
from tests.support.running import Ended
from tests.support.scripted_apis import MessagesApi, Plan, ResponsesApi


@dataclass(frozen=True, slots=True)
class Agent:
    """`claude -p` or `codex exec`, whose model is scripted; `name` is what `dreamd connect` calls it."""

    person: Person
    api: MessagesApi | ResponsesApi
    name: str

    def ask(self, prompt: str, *options: str) -> Answered:
        """A session of its own, unless the options say otherwise."""
        if isinstance(self.api, MessagesApi):
            return self.person.claude(self.api, prompt, *options)
        return self.person.codex(self.api, *options, prompt)

    def go_on(self, prompt: str, *options: str) -> Answered:
        """The last session, resumed."""
        resumed = ("--continue",) if isinstance(self.api, MessagesApi) else ("resume", "--last")
        return self.ask(prompt, *options, *resumed)

    def compact(self) -> Answered:
        """The last session, compacted."""
        if isinstance(self.api, MessagesApi):
            return self.go_on("/compact")
        # Codex does so by itself when less than what the session has is allowed.
        return self.go_on("Go on.", "-c", "model_auto_compact_token_limit=500")

    def trust(self) -> None:
        """What its person says once in Claude Code's own dialogue; for Codex `connect --trust` says it."""
        if isinstance(self.api, MessagesApi):
            path = self.person.home.folder / ".claude.json"
            config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            config.setdefault("projects", {}).setdefault(str(self.person.project), {})["hasTrustDialogAccepted"] = (
                True
            )
            path.write_text(json.dumps(config), encoding="utf-8")

    def connect(self) -> Ended:
        """As a person does it who agrees."""
        trusting = () if isinstance(self.api, MessagesApi) else ("--trust",)
        return self.person.dreamd("connect", self.name, "--yes", *trusting)

    def output(self, answered: Answered) -> str:
        """The text that the last tool gave to the model."""
        assert answered.ended.status == 0, answered.ended.err
        _, results = self.api.conversation(answered.requests[-1])
        return str(results[-1]).rpartition("Output:\n")[2]


def claude_code(person: Person, plan: Plan) -> Agent:
    """Claude Code, not yet connected."""
    return Agent(person, MessagesApi(plan), "claude-code")


def codex(person: Person, plan: Plan) -> Agent:
    """Codex, not yet connected."""
    api = ResponsesApi(plan)
    person.asks_codex(api)
    return Agent(person, api, "codex")


KINDS = {"claude-code": ("claude", claude_code), "codex": ("codex", codex)}
