"""Agents themselves (Claude Code, Codex, Gemini CLI, opencode) and the MCP Inspector, in a home of their own.

Their models are scripted, and the server of the script is their proxy as well: nothing that they ask for leaves the
machine, and whatever else they asked for is known. A test that needs one which is not installed is skipped.
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
    """What an agent did about a prompt: its own report of it, and what reached its model."""

    ended: Ended
    requests: list[dict[str, Any]]

    def reached(self, words: str, request: int = 0) -> bool:
        """Whether these words stood in what the model was sent; in the first request, unless told."""
        return json.dumps(words, ensure_ascii=False)[1:-1] in json.dumps(self.requests[request], ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a home and a workspace in a project whose name has blanks and quotes."""

    home: Home
    workspace: Workspace

    @property
    def project(self) -> Path:
        return self.workspace.root

    def environment(self, **more: str) -> dict[str, str]:
        """Of this person's shell: the agents are on the PATH, and ask for nothing beside their model."""
        path = os.pathsep.join((str(self.home.folder / "bin"), "/usr/bin", "/bin"))
        quiet = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC DISABLE_AUTOUPDATER DISABLE_TELEMETRY".split()
        return self.home.environment(PATH=path, TERM="dumb", SHELL="/bin/sh", **dict.fromkeys(quiet, "1"), **more)

    def run(self, *words: str | Path, **more: str) -> Ended:
        """A command in the project, as it stands on this person's PATH."""
        environment = self.environment(**more)
        program = shutil.which(str(words[0]), path=environment["PATH"])
        assert program, words
        ran = subprocess.run(
            [program, *map(str, words[1:])],
            cwd=self.project,
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
        """`mcp-inspector --cli` with the server that stands in the project's .mcp.json, or the test is skipped."""
        entry, config = INSTALLED / ".bin" / "mcp-inspector", self.project / ".mcp.json"
        if not entry.exists() or not shutil.which("node", path="/usr/bin:/bin"):
            pytest.skip("the MCP Inspector is not installed: 'make clients' does that where npm is there")
        return self.run("node", entry, "--cli", "--config", config, "--server", "dreamd", *words)


def person(home: Home) -> Person:
    """Somebody at home who has the agents that are installed here, and a workspace."""
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
    """Write this as JSON, as its owner does it by hand."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


class Agent(ABC):
    """An agent of a person's, whose model is scripted; `name` is what `dreamd connect` calls it."""

    name: ClassVar[str]
    program: ClassVar[str]
    place: ClassVar[str]  # of its own program among what is installed
    trusting: ClassVar[tuple[str, ...]] = ()  # words of `dreamd connect`

    def __init__(self, person: Person, plan: Plan) -> None:
        self.person = person
        self.api = self.model(plan)

    @abstractmethod
    def model(self, plan: Plan) -> ScriptedApi:
        """What it asks."""

    @property
    @abstractmethod
    def login(self) -> dict[str, str]:
        """The variables that its model's provider is reached with; without them nobody is logged in."""

    @abstractmethod
    def ready(self) -> None:
        """Its user has given it its model, and trusts the project."""

    @abstractmethod
    def words(self, prompt: str, options: tuple[str, ...]) -> tuple[str, ...]:
        """Those by which it is asked once."""

    @classmethod
    def installed(cls) -> Path | None:
        place = cls.place.format(machine=_MACHINES.get(platform.machine().lower(), ""))
        return next(iter(sorted(INSTALLED.glob(place))), None)

    @classmethod
    def need(cls) -> None:
        """It is installed, or the test is skipped."""
        if cls.installed() is None:
            pytest.skip(f"{cls.program} is not installed: 'make clients' does that where npm is there")

    @property
    def proxied(self) -> dict[str, str]:
        """Whatever is not on this machine is asked of the script, which refuses it."""
        return {"HTTP_PROXY": self.api.url, "HTTPS_PROXY": self.api.url, "NO_PROXY": "127.0.0.1,localhost"}

    def ask(self, prompt: str, *options: str) -> Answered:
        """A session of its own, unless the options say otherwise."""
        before = len(self.api.requests)
        ended = self.person.run(self.program, *self.words(prompt, options), **self.proxied, **self.login)
        return Answered(ended, self.api.requests[before:])

    def connect(self, *options: str) -> Ended:
        """As a person does it who agrees."""
        return self.person.dreamd("connect", self.name, "--yes", *self.trusting, *options)

    def output(self, answered: Answered) -> str:
        """The text that the last tool gave to the model."""
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
            "check_for_update_on_startup = false\n"
            f'[model_providers.scripted]\nname = "scripted"\nbase_url = "{self.api.url}/v1"\nwire_api = "responses"\n'
            'env_key = "SCRIPTED_KEY"\nrequest_max_retries = 0\nstream_max_retries = 0\n',
            encoding="utf-8",
        )

    def words(self, prompt: str, options: tuple[str, ...]) -> tuple[str, ...]:
        return ("exec", "--skip-git-repo-check", "--json", *options, prompt)

    def go_on(self, prompt: str, *options: str) -> Answered:
        return self.ask(prompt, *options, "resume", "--last")

    def compact(self) -> Answered:
        """The last session, which it compacts by itself when less than what it has is allowed."""
        return self.go_on("Go on.", "-c", "model_auto_compact_token_limit=500")

    def hooks(self) -> list[dict[str, Any]]:
        """The hooks that Codex knows in the project, and whether it trusts them, as its own server says."""
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
        """What Codex writes when its user allows every hook in `/hooks`."""
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
