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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from state.stores.disk.workspace import Workspace
from tests.support.running import Ended
from tests.support.scripted_apis import ChatApi, GenerateApi, MessagesApi, ResponsesApi, ScriptedApi
from tests.support.serving import PATIENCE_SECONDS, Home

INSTALLED = Path(sys.prefix) / "clients" / "node_modules"
DREAMD = Path(sys.executable).with_name("dreamd")
PROJECT = 'Ada\'s "own" project'
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Answered:
    """What an agent did about a prompt: its own report of it, and what reached its model."""

    ended: Ended
    events: list[dict[str, Any]]
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

    @property
    def codex_config(self) -> Path:
        return self.home.folder / ".codex" / "config.toml"

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
        """The real command, in the project."""
        return self.run(DREAMD, *words, **more)

    def claude(self, api: MessagesApi, prompt: str, *options: str) -> Answered:
        """`claude -p`, and its events."""
        words = ("claude", "-p", prompt, "--output-format", "stream-json", "--verbose", "--include-hook-events")
        return self._answered(api, *words, *options, **_proxied(api), ANTHROPIC_BASE_URL=api.url)

    def codex(self, api: ResponsesApi, *words: str) -> Answered:
        """`codex exec`, and its events."""
        return self._answered(
            api,
            "codex",
            "exec",
            "--skip-git-repo-check",
            "--json",
            *words,
            **_proxied(api),
            SCRIPTED_KEY="sk-scripted",
        )

    def asks_codex(self, api: ResponsesApi, *settings: str) -> None:
        """Codex's own configuration, made by hand: its model is the scripted one."""
        self.codex_config.parent.mkdir(exist_ok=True)
        provider = {
            "name": "scripted",
            "base_url": f"{api.url}/v1",
            "wire_api": "responses",
            "env_key": "SCRIPTED_KEY",
        }
        rows = [
            "# Ada's own",
            'model = "gpt-5.5-codex"',
            'model_provider = "scripted"',
            "check_for_update_on_startup = false",
            *settings,
            "[model_providers.scripted]",
            *(f"{key} = {json.dumps(value)}" for key, value in provider.items()),
            "request_max_retries = 0",
            "stream_max_retries = 0",
        ]
        self.codex_config.write_text("\n".join((*rows, "")), encoding="utf-8")

    def gemini(self, api: GenerateApi, prompt: str) -> Answered:
        """`gemini -p`."""
        words = ("gemini", "-p", prompt, "-m", "gemini-2.5-flash")
        return self._answered(api, *words, **_proxied(api), GEMINI_API_KEY="scripted", GOOGLE_GEMINI_BASE_URL=api.url)

    def opencode(self, api: ChatApi, prompt: str) -> Answered:
        """`opencode run`."""
        return self._answered(api, "opencode", "run", prompt, **_proxied(api))

    def codex_hooks(self) -> list[dict[str, Any]]:
        """The hooks that Codex knows in the project, and whether it trusts them, as its own server says."""
        with subprocess.Popen(
            [self.home.folder / "bin" / "codex", "app-server"],
            cwd=self.project,
            env=self.environment(),
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
                    {"id": 2, "method": "hooks/list", "params": {"cwds": [str(self.project)]}},
                )
                server.stdin.write("".join(json.dumps(message) + "\n" for message in asked))
                server.stdin.flush()
                answers = (json.loads(line) for line in server.stdout)
                answer = next(one for one in answers if one.get("id") == asked[-1]["id"])
            finally:
                server.kill()
        (listed,) = answer["result"]["data"]
        hooks: list[dict[str, Any]] = listed["hooks"]
        return hooks

    def trusts_codex_hooks(self) -> None:
        """What Codex writes when its user allows every hook in `/hooks`."""
        rows = [
            f"[hooks.state.{json.dumps(hook['key'])}]\ntrusted_hash = {json.dumps(hook['currentHash'])}\n"
            for hook in self.codex_hooks()
        ]
        with self.codex_config.open("a", encoding="utf-8") as config:
            config.write("\n" + "\n".join(rows))

    def inspect(self, *words: str) -> Ended:
        """`mcp-inspector --cli` with the server that stands in the project's .mcp.json."""
        config = self.project / ".mcp.json"
        entry = INSTALLED / ".bin" / "mcp-inspector"
        return self.run("node", entry, "--cli", "--config", config, "--server", "dreamd", *words)

    def _answered(self, api: ScriptedApi, *words: str, **more: str) -> Answered:
        before = len(api.requests)
        ended = self.run(*words, **more)
        events = [json.loads(row) for row in ended.out.splitlines() if row.startswith("{")]
        return Answered(ended, events, api.requests[before:])


def _proxied(api: ScriptedApi) -> dict[str, str]:
    """Whatever is not on this machine is asked of the script, which refuses it."""
    return {
        "HTTP_PROXY": api.url,
        "HTTPS_PROXY": api.url,
        "NO_PROXY": "127.0.0.1,localhost",
        "ANTHROPIC_API_KEY": "sk-ant-scripted",
    }


def _native(name: str) -> Path | None:
    machine = _MACHINES.get(platform.machine().lower(), "")
    place = {
        "claude": f"@anthropic-ai/claude-code-linux-{machine}/claude",
        "codex": f"@openai/codex-linux-{machine}/vendor/*/bin/codex",
        "gemini": "@google/gemini-cli/bundle/gemini.js",
        "opencode": f"opencode-linux-{machine}/bin/opencode",
    }[name]
    return next(iter(sorted(INSTALLED.glob(place))), None)


def need(name: str) -> Path:
    """The agent's own program, or the test is skipped."""
    program = _native(name)
    if program is None:
        pytest.skip(f"{name} is not installed: 'make clients' does that where npm is there")
    return program


def need_inspector() -> None:
    """The Inspector, or the test is skipped."""
    if not (INSTALLED / ".bin" / "mcp-inspector").exists() or not shutil.which("node", path="/usr/bin:/bin"):
        pytest.skip("the MCP Inspector is not installed: 'make clients' does that where npm is there")


def person(home: Home) -> Person:
    """Somebody at home who has the agents that are installed here, and a workspace."""
    folder = home.folder / "bin"
    folder.mkdir()
    (folder / "dreamd").symlink_to(DREAMD)
    for name in ("claude", "codex", "gemini", "opencode"):
        if program := _native(name):
            words = f'node "{program}"' if program.suffix == ".js" else f'"{program}"'
            (folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (folder / name).chmod(0o755)
    return Person(home, home.workspace(PROJECT))
