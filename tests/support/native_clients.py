"""The real agents (Claude Code, Codex, Gemini CLI, opencode) and the MCP Inspector, in a home folder of their own.

Their models are scripted, and the scripted server is also their proxy, so that no request leaves the machine and all
others are recorded. A test is skipped if the agent it needs is not installed.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from state.stores.disk.workspace import Workspace
from tests.support.running import Ended
from tests.support.scripted_apis import ChatApi, GenerateApi, MessagesApi, Plan, ResponsesApi, ScriptedApi
from tests.support.serving import PATIENCE_SECONDS, Home

INSTALLED = Path(sys.prefix) / "clients" / "node_modules"
DREAMD = Path(sys.executable).with_name("dreamd")
PROJECT = 'Ada\'s "own" project'
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Answered:
    """An agent's run for a prompt: its output, and the requests to its model."""

    ended: Ended
    requests: list[dict[str, Any]]

    def reached(self, words: str, request: int = 0) -> bool:
        """Return whether a request to the model, by default the first, contained these words."""
        return json.dumps(words, ensure_ascii=False)[1:-1] in json.dumps(self.requests[request], ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Person:
    """A user with a home folder, and a workspace in a project whose name has blanks and quotes."""

    home: Home
    workspace: Workspace

    @property
    def project(self) -> Path:
        return self.workspace.root

    def environment(self, **more: str) -> dict[str, str]:
        """Return this user's environment, with agents on the PATH and their telemetry and updates off."""
        path = os.pathsep.join((str(self.home.folder / "bin"), "/usr/bin", "/bin"))
        quiet = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC DISABLE_AUTOUPDATER DISABLE_TELEMETRY".split()
        return self.home.environment(PATH=path, TERM="dumb", SHELL="/bin/sh", **dict.fromkeys(quiet, "1"), **more)

    def run(self, *words: str | Path, **more: str) -> Ended:
        """Run a command from this user's PATH in the project."""
        return self.run_in(self.project, *words, **more)

    def run_in(self, folder: Path, *words: str | Path, **more: str) -> Ended:
        environment = self.environment(**more)
        program = shutil.which(str(words[0]), path=environment["PATH"])
        assert program, words
        ran = subprocess.run(
            [program, *map(str, words[1:])],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECONDS,
            text=True,
        )
        return Ended(ran.returncode, ran.stdout, ran.stderr)

    def dreamd(self, *words: str | Path, **more: str) -> Ended:
        return self.run(DREAMD, *words, **more)

    def inspect(self, *words: str) -> Ended:
        """Run `mcp-inspector --cli` with the server of Claude Code's plugin; skip the test if not installed."""
        plugin = self.home.folder / "data/dreamd/agents/claude-code/plugin"
        entry, config = INSTALLED / ".bin" / "mcp-inspector", plugin / ".mcp.json"
        if not entry.exists() or not shutil.which("node", path="/usr/bin:/bin"):
            pytest.skip("the MCP Inspector is not installed: 'make clients' does that where npm is there")
        return self.run("node", entry, "--cli", "--config", config, "--server", "dreamd", *words)


def person(home: Home) -> Person:
    """Give this home a workspace, and the agents that are installed on this machine."""
    folder = home.folder / "bin"
    folder.mkdir()
    (folder / "dreamd").symlink_to(DREAMD)
    for agent in AGENTS.values():
        if program := agent.installed():
            words = f'node "{program}"' if program.suffix == ".js" else f'"{program}"'
            (folder / agent.program).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (folder / agent.program).chmod(0o755)
    return Person(home, home.workspace(PROJECT))


def write(path: Path, value: object) -> None:
    """Write this value as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


class Agent(ABC):
    """A user's agent with a scripted model; `name` is its name for `dreamd connect`."""

    name: ClassVar[str]
    program: ClassVar[str]
    place: ClassVar[str]  # glob of its program below INSTALLED
    trusting: ClassVar[tuple[str, ...]] = ()  # options for `dreamd connect`

    def __init__(self, person: Person, plan: Plan) -> None:
        self.person = person
        self.api = self.model(plan)

    @abstractmethod
    def model(self, plan: Plan) -> ScriptedApi:
        """Create its scripted model."""

    @property
    @abstractmethod
    def login(self) -> dict[str, str]:
        """Return the variables with its provider's address and key; without them it is not logged in."""

    @abstractmethod
    def ready(self) -> None:
        """Configure its model, and trust the project, as its user would."""

    @abstractmethod
    def words(self, prompt: str, options: tuple[str, ...]) -> tuple[str, ...]:
        """Return its arguments for a single prompt."""

    @classmethod
    def installed(cls) -> Path | None:
        place = cls.place.format(machine=_MACHINES.get(platform.machine().lower(), ""))
        return next(iter(sorted(INSTALLED.glob(place))), None)

    @classmethod
    def need(cls) -> None:
        """Skip the test if the agent is not installed."""
        if cls.installed() is None:
            pytest.skip(f"{cls.program} is not installed: 'make clients' does that where npm is there")

    @property
    def proxied(self) -> dict[str, str]:
        """Return variables that send all requests to other machines to the scripted server, which refuses them."""
        return {"HTTP_PROXY": self.api.url, "HTTPS_PROXY": self.api.url, "NO_PROXY": "127.0.0.1,localhost"}

    def ask(self, prompt: str, *options: str, folder: Path | None = None) -> Answered:
        """Ask it in a new session, unless the options say otherwise."""
        before, words = len(self.api.requests), self.words(prompt, options)
        where = folder or self.person.project
        ended = self.person.run_in(where, self.program, *words, **self.proxied, **self.login)
        return Answered(ended, self.api.requests[before:])

    def connect(self, *options: str) -> Ended:
        """Run `dreamd connect` and agree to every change."""
        return self.person.dreamd("connect", self.name, "--yes", *self.trusting, *options)

    def output(self, answered: Answered) -> str:
        """Return the output of the last tool, as the model received it."""
        assert answered.ended.status == 0, answered.ended.err
        _, results = self.api.conversation(answered.requests[-1])
        return str(results[-1]).rpartition("Output:\n")[2]


class ClaudeCode(Agent):
    name, program = "claude-code", "claude"
    place = "@anthropic-ai/claude-code-linux-{machine}/claude"

    def model(self, plan: Plan) -> ScriptedApi:
        return MessagesApi(plan)

    @property
    def login(self) -> dict[str, str]:
        return {"ANTHROPIC_API_KEY": "sk-ant-scripted", "ANTHROPIC_BASE_URL": self.api.url}

    def ready(self) -> None:
        projects = {str(self.person.project): {"hasTrustDialogAccepted": True}}
        write(self.person.home.folder / ".claude.json", {"projects": projects})

    def words(self, prompt: str, options: tuple[str, ...]) -> tuple[str, ...]:
        return ("-p", prompt, "--output-format", "stream-json", "--verbose", "--include-hook-events", *options)

    def go_on(self, prompt: str) -> Answered:
        return self.ask(prompt, "--continue")

    def compact(self) -> Answered:
        return self.go_on("/compact")


class Codex(Agent):
    name, program = "codex", "codex"
    place = "@openai/codex-linux-{machine}/vendor/*/bin/codex"
    trusting = ("--trust",)

    def model(self, plan: Plan) -> ScriptedApi:
        return ResponsesApi(plan)

    @property
    def login(self) -> dict[str, str]:
        return {"SCRIPTED_KEY": "sk-scripted"}

    @property
    def config(self) -> Path:
        return self.person.home.folder / ".codex" / "config.toml"

    def ready(self) -> None:
        self.config.parent.mkdir(exist_ok=True)
        self.config.write_text(
            '# Ada\'s own\nmodel = "gpt-5.5-codex"\nmodel_provider = "scripted"\n'
            "check_for_update_on_startup = false\nmcp_optional_startup_grace_ms = 60000\n"
            f'[model_providers.scripted]\nname = "scripted"\nbase_url = "{self.api.url}/v1"\nwire_api = "responses"\n'
            'env_key = "SCRIPTED_KEY"\nrequest_max_retries = 0\nstream_max_retries = 0\n',
            encoding="utf-8",
        )

    def words(self, prompt: str, options: tuple[str, ...]) -> tuple[str, ...]:
        return ("exec", "--skip-git-repo-check", "--json", *options, prompt)

    def go_on(self, prompt: str, *options: str) -> Answered:
        return self.ask(prompt, *options, "resume", "--last")

    def compact(self) -> Answered:
        """Resume the last session with a token limit so low that Codex compacts it."""
        return self.go_on("Go on.", "-c", "model_auto_compact_token_limit=500")

    def hooks(self) -> list[dict[str, Any]]:
        """Return the project's hooks, and whether Codex trusts them, from Codex' own app server."""
        with subprocess.Popen(
            [self.person.home.folder / "bin" / "codex", "app-server"],
            cwd=self.person.project,
            env=self.person.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server:
            try:
                assert server.stdin
                assert server.stdout
                asked = (
                    {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}},
                    {"method": "initialized"},
                    {"id": 2, "method": "hooks/list", "params": {"cwds": [str(self.person.project)]}},
                )
                server.stdin.write("".join(json.dumps(message) + "\n" for message in asked))
                server.stdin.flush()
                answers = (json.loads(line) for line in server.stdout)
                answer = next(one for one in answers if one.get("id") == 2)
            finally:
                server.kill()
        (listed,) = answer["result"]["data"]
        hooks: list[dict[str, Any]] = listed["hooks"]
        return hooks

    def trusts_hooks(self) -> None:
        """Write what Codex writes when its user allows every hook in `/hooks`."""
        with self.config.open("a", encoding="utf-8") as config:
            for hook in self.hooks():
                key, digest = json.dumps(hook["key"]), json.dumps(hook["currentHash"])
                config.write(f"\n[hooks.state.{key}]\ntrusted_hash = {digest}\n")


class Gemini(Agent):
    name, program, place = "gemini", "gemini", "@google/gemini-cli/bundle/gemini.js"

    def model(self, plan: Plan) -> ScriptedApi:
        return GenerateApi(plan)

    @property
    def login(self) -> dict[str, str]:
        return {"GEMINI_API_KEY": "AIza-scripted", "GOOGLE_GEMINI_BASE_URL": self.api.url}

    def ready(self) -> None:
        home = self.person.home.folder
        write(home / ".gemini/settings.json", {"security": {"auth": {"selectedType": "gemini-api-key"}}})
        write(home / ".gemini/trustedFolders.json", {str(self.person.project): "TRUST_FOLDER"})

    def words(self, prompt: str, options: tuple[str, ...]) -> tuple[str, ...]:
        return ("-p", prompt, "-m", "gemini-2.5-flash", *options)


class Opencode(Agent):
    name, program, place = "opencode", "opencode", "opencode-linux-{machine}/bin/opencode"

    def model(self, plan: Plan) -> ScriptedApi:
        return ChatApi(plan)

    @property
    def login(self) -> dict[str, str]:
        return {}

    def ready(self) -> None:
        options, models = {"baseURL": f"{self.api.url}/v1", "apiKey": "scripted"}, {"m": {"name": "m"}}
        scripted = {"npm": "@ai-sdk/openai-compatible", "name": "s", "options": options, "models": models}
        folder = Path(self.person.environment()["XDG_CONFIG_HOME"])
        own = {"provider": {"scripted": scripted}, "model": "scripted/m", "autoupdate": False}
        write(folder / "opencode/opencode.json", own)

    def words(self, prompt: str, options: tuple[str, ...]) -> tuple[str, ...]:
        return ("run", prompt, *options)


AGENTS: dict[str, type[Agent]] = {one.name: one for one in (ClaudeCode, Codex, Gemini, Opencode)}
