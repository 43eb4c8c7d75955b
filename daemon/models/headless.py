"""Headless agents: gets one answer from the user's own coding agent, with that user's login.

`claude -p`, `codex exec` and `gemini` each run for one turn in an empty folder and read the prompt from stdin. They
use no tools, MCP servers, hooks or memory files, and leave no session file. The user pays the agent's maker, so calls
and tokens are counted but dollars are unknown. A program that would have to ask its user something, for example to
log in, raises UnattendedError, and the dream continues without a model.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from daemon.models.errors import TransientError, UnusableReplyError, lost_answer
from graphs.ports import Answer, Request
from state.budget import Limits, Spend
from state.errors import ModelError, StoppedError, UnattendedError
from state.stores.disk.user_folder import DAEMONS_OWN, home

_STATUS_SECONDS = 20.0
# Installers put programs here, but a service's PATH seldom has these folders.
_MORE_FOLDERS = (".local/bin", ".claude/local", ".npm-global/bin", "bin")
# The last two tell Claude Code that it runs inside itself.
_NOT_PASSED_ON = (*DAEMONS_OWN, "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT")
_USED_UP = re.compile(
    r"usage limit|quota|credit balance|insufficient credit|hit your .*limit|(?<!rate )limit reached|out of .*usage",
    re.IGNORECASE,
)
_OPENS_AT = re.compile(r"\|\s*(\d{10})\b")  # seconds since 1970, as Claude Code says it
_ASKS = re.compile(
    r"log ?in|logged in|sign in|api key|credential|\bo?auth|unauthori[sz]ed|\b40[13]\b|trusted|environment variable",
    re.IGNORECASE,
)
_PASSES = re.compile(
    r"\b429\b|\b5\d\d\b|rate.?limit|overloaded|time.?out|timed out|connect|disconnect|network|unavailable|temporar",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Said:
    """The parsed output of a program: the model's answer, its tokens, and the error if there was one."""

    text: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    error: str = ""
    finish_reason: str = "stop"


@dataclass(frozen=True, slots=True)
class _Program:
    """An agent's program, which adds at most `overhead` tokens to a request.

    `prepare` takes a private folder that lasts as long as the call and has the system prompt in `system.md`, and the
    most tokens of an answer. It creates the program's files there and returns arguments and environment variables.
    `model` is what it is told to use unless `model.name` says it ("": what its user has set).
    `read` parses stdout and stderr, and raises ValueError, LookupError or TypeError for an unknown format. `asks`
    returns what the program at a path would ask its user before it answers, "" if nothing is known.
    """

    command: str
    title: str
    overhead: int
    prepare: Callable[[Path, int], tuple[list[str], dict[str, str]]]
    read: Callable[[str, str], _Said]
    asks: Callable[[str], str] = lambda _: ""  # most say so in their answer
    model: str = ""


def _prepare_claude(folder: Path, max_output_tokens: int) -> tuple[list[str], dict[str, str]]:
    flags = ["--safe-mode", "--strict-mcp-config", "--no-session-persistence", "--disable-slash-commands"]
    asked = ["--tools", "", "--max-turns", "1", "--system-prompt-file", str(folder / "system.md")]
    quiet = dict.fromkeys(("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER"), "1")
    # It would try ten times, for minutes, and say nothing meanwhile; `Metered` retries what passes.
    variables = {**quiet, "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(max_output_tokens), "CLAUDE_CODE_MAX_RETRIES": "0"}
    return ["-p", "--output-format", "json", *flags, *asked], variables


def _read_claude(out: str, _: str) -> _Said:
    said = json.loads(out)
    used = said.get("usage") or {}
    kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    counts = (sum(int(used.get(kind) or 0) for kind in kinds), int(used.get("output_tokens") or 0))
    if said["is_error"]:
        error = said.get("result") or "; ".join(map(str, said.get("errors", ()))) or said["subtype"]
        return _Said("", *counts, error=str(error))
    return _Said(str(said["result"]), *counts, "", "length" if said.get("stop_reason") == "max_tokens" else "stop")


# Each is a tool, or starts something other than the model.
_CODEX_FEATURES = (
    "shell_tool unified_exec view_image image_generation goals multi_agent tool_suggest skill_search hooks apps"
    " plugins remote_plugin shell_snapshot unbounded_connection_retries"
).split()
_CODEX_OFF = (
    "include_environment_context include_permissions_instructions include_apps_instructions"
    " skills.include_instructions skills.bundled.enabled analytics.enabled check_for_update_on_startup"
).split()


def _prepare_codex(folder: Path, _: int) -> tuple[list[str], dict[str, str]]:
    # Codex has no option to disable all MCP servers, so each is disabled by name.
    named = _codex_configured().get("mcp_servers")
    servers = ", ".join(f"{json.dumps(name)} = {{enabled = false}}" for name in (named or ()))
    settings = {
        "features": "{" + ", ".join(f"{name} = false" for name in _CODEX_FEATURES) + "}",
        "mcp_servers": "{" + servers + "}",
        "model_instructions_file": json.dumps(str(folder / "system.md")),
        "web_search": '"disabled"',
        **dict.fromkeys(_CODEX_OFF, "false"),
    }
    flags = ["--skip-git-repo-check", "--ephemeral", "--json", "--sandbox", "read-only"]
    return ["exec", *flags, *(word for one in settings.items() for word in ("-c", "=".join(one))), "-"], {}


def _codex_asks(path: str) -> str:
    # Without a login, Codex reconnects forever and never says why.
    if os.environ.get("CODEX_API_KEY") or _codex_configured().get("model_provider", "openai") != "openai":
        return ""
    words = [path, "login", "status"]
    with suppress(OSError, subprocess.TimeoutExpired):
        ended = subprocess.run(words, capture_output=True, check=False, text=True, timeout=_STATUS_SECONDS)  # noqa: S603
        return (ended.stderr + ended.stdout).strip().rpartition("\n")[2] if ended.returncode else ""
    return ""


def _codex_configured() -> dict[str, Any]:
    folder = Path(os.environ.get("CODEX_HOME") or home(os.environ) / ".codex")
    with suppress(OSError, ValueError):  # Codex itself reports a broken file
        return tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    return {}


def _read_codex(out: str, err: str) -> _Said:
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    used = next((event["usage"] for event in events if event["type"] == "turn.completed"), None)
    if used is None:  # errors before the usage are connection attempts that a later one made good
        failed = [event.get("error", event) for event in events if event["type"] in ("turn.failed", "error")]
        return _Said(error=str(failed[-1]["message"] if failed else err.strip() or "it printed nothing"))
    counts = (int(used["input_tokens"]), int(used["output_tokens"]))
    done = {item["type"] for item in items} - {"agent_message", "reasoning", "error"}
    if done:
        return _Said("", *counts, error=f"it did more than answer ({', '.join(sorted(done))})")
    return _Said("".join(str(item["text"]) for item in items if item["type"] == "agent_message"), *counts)


# The login files. Gemini gets nothing else of the user's folder, and what it writes is deleted after the call.
_GEMINI_LOGIN = ("oauth_creds.json", "google_accounts.json", "gemini-credentials.json", "installation_id", ".env")
_GEMINI_SETTINGS: Mapping[str, Any] = {
    "tools": {"core": ["none"]},
    "model": {"maxSessionTurns": 1},
    "skills": {"enabled": False},
    "hooksConfig": {"enabled": False},
    "experimental": {"enableAgents": False},
    "context": {"includeDirectoryTree": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False, "maxAttempts": 1},
    "privacy": {"usageStatisticsEnabled": False},
}


def _prepare_gemini(folder: Path, _: int) -> tuple[list[str], dict[str, str]]:
    theirs, ours = Path(os.environ.get("GEMINI_CLI_HOME") or home(os.environ)) / ".gemini", folder / ".gemini"
    ours.mkdir()
    for name in _GEMINI_LOGIN:
        if (theirs / name).exists():
            (ours / name).symlink_to(theirs / name)
    auth: dict[str, Any] = {}
    with suppress(OSError, ValueError, LookupError, TypeError):
        auth = json.loads((theirs / "settings.json").read_text(encoding="utf-8"))["security"]["auth"]
    settings = {**_GEMINI_SETTINGS, "security": {"auth": auth, "folderTrust": {"enabled": False}}}
    (ours / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    variables = {"GEMINI_CLI_HOME": str(folder), "GEMINI_SYSTEM_MD": str(folder / "system.md")}
    return ["--output-format", "json"], variables


def _read_gemini(out: str, err: str) -> _Said:
    if not out.strip():  # errors are on stderr: JSON among other lines, or plain text
        messages = re.findall(r'"message": (".*"),?$', err, re.MULTILINE)
        return _Said(error=json.loads(messages[-1]) if messages else err.strip().rpartition("\n")[2])
    said = json.loads(out)
    if said.get("error"):
        return _Said(error=str(said["error"]["message"]))
    used = [one["tokens"] for one in said["stats"]["models"].values()]
    tokens_in = sum(int(one["prompt"]) for one in used)
    return _Said(str(said["response"]), tokens_in, sum(int(one["total"]) for one in used) - tokens_in)


AGENTS: Mapping[str, _Program] = {
    "claude-code": _Program("claude", "Claude Code", 1_500, _prepare_claude, _read_claude),
    "codex": _Program("codex", "Codex", 6_000, _prepare_codex, _read_codex, _codex_asks),
    # Without a named model, Gemini first asks another model which one to use.
    "gemini": _Program("gemini", "Gemini CLI", 1_500, _prepare_gemini, _read_gemini, model="flash"),
}
"""The programs, by their name in `model.name`, which may add a model of theirs: claude-code/haiku."""
# To litellm, gemini/MODEL is Google's API.
_WITH_MODEL = {**{name: name for name in AGENTS if name != "gemini"}, "gemini-cli": "gemini"}


def agent_of(name: str) -> str:
    """Return the agent in `AGENTS` that `model.name` means; "" for a model of litellm's."""
    return name if name in AGENTS else _WITH_MODEL.get(name.partition("/")[0], "")


@dataclass(frozen=True, slots=True)
class Offer:
    """An installed agent: its name in `model.name`, the path of its program, and what a dream with it costs."""

    name: str
    program: str
    costs: str


def find_program(name: str) -> str | None:
    """Return the path of this agent's program; None if it is not installed."""
    more = (str(home(os.environ) / folder) for folder in _MORE_FOLDERS)
    command = AGENTS[agent_of(name)].command
    return shutil.which(command, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *more)))


def offers(limits: Limits) -> Iterator[Offer]:
    """Yield the agents that are installed here."""
    for name, agent in AGENTS.items():
        if program := find_program(name):
            most = f"at most {limits.calls_per_dream} calls and {limits.tokens_per_dream:,} tokens"
            yield Offer(name, program, f"{most} a dream, on your login of {agent.title}; its price is not known")


@dataclass(eq=False, kw_only=True)
class HeadlessModel:
    """An agent as a model. `name` is one of `AGENTS`, perhaps with a model of its maker: claude-code/haiku."""

    name: str = field(kw_only=False)
    timeout_seconds: float
    max_output_tokens: int
    context_window: int = field(default=200_000, init=False)  # tokens: the smallest of their default models

    def __post_init__(self) -> None:
        self._program = AGENTS[agent_of(self.name)]
        model = self.name.partition("/")[2] or self._program.model
        self._model = ["--model", model] if model else []

    def worst_case(self, request: Request) -> Spend:
        """Return the most that one try may cost, if the agent obeys the limit on the answer."""
        # In most scripts a token has three bytes or more. litellm could count tokens, but takes seconds to load.
        tokens_in = (
            len("".join(text for _, text in request.messages).encode("utf-8", "replace")) // 3
            + self._program.overhead
        )
        return Spend(calls=1, tokens=tokens_in + self.max_output_tokens)

    def ask(self, request: Request) -> Answer:
        """Return one answer, which is never empty.

        Raise UnattendedError if the program is not installed or would have to ask its user, StoppedError after
        `end_all`, and the errors of `LitellmModel.ask`.
        """
        path = find_program(self.name)
        if path is None:
            where = f"install {self._program.title}, or add its folder to the PATH of dreamd"
            raise UnattendedError(f"{self.name}: there is no program '{self._program.command}'", where)
        if question := self._program.asks(path):
            raise self._unattended(question)
        began = time.monotonic()
        try:
            status, out, err = self._run(path, request)
        except subprocess.TimeoutExpired as late:
            error = self._read(_text(late.stdout), _text(late.stderr), "").error
            if _USED_UP.search(error) or _ASKS.search(error):  # it goes on trying what cannot succeed
                raise self._failure(error, None) from None
            what = f"{self.name} did not answer within {self.timeout_seconds:g} s"
            most = self._worst_answer(request, began)
            raise TransientError(what, "raise model.timeout_seconds.", answer=most) from None
        if _ending.is_set():
            raise StoppedError("this process ends", "the dream is checkpointed, and the next one goes on with it")
        said = self._read(out, err, f"it ended with status {status}")
        counts, seconds = (said.tokens_in, said.tokens_out), time.monotonic() - began
        answer = Answer(said.text, self.name, *counts, 0.0, said.finish_reason, seconds, estimated=not said.tokens_in)
        if said.error:
            used_turn = "number of turns" in said.error or "session turns" in said.error  # it called a tool
            paid = answer if said.tokens_in else self._worst_answer(request, began) if used_turn else None
            raise self._failure(said.error, paid)
        if not said.text.strip():
            raise UnusableReplyError(f"{self.name} answered nothing", "raise model.max_output_tokens.", answer)
        return answer

    def _read(self, out: str, err: str, otherwise: str) -> _Said:
        try:
            return self._program.read(out, err)
        except (ValueError, LookupError, TypeError, AttributeError):
            return _Said(error=" ".join(f"{out} {err}".split()) or otherwise)

    def _run(self, path: str, request: Request) -> tuple[int, str, str]:
        with TemporaryDirectory(prefix="dreamd-") as name:
            folder = Path(name)
            rules = "\n".join(text for role, text in request.messages if role == "system")
            (folder / "system.md").write_text(rules, encoding="utf-8")
            (folder / "empty").mkdir()
            words, variables = self._program.prepare(folder, self.max_output_tokens)
            kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED_ON)}
            try:
                process = subprocess.Popen(  # noqa: S603 - a program that the configuration names
                    [path, *words, *self._model], cwd=folder / "empty", env={**kept, **variables},
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    text=True, encoding="utf-8", errors="replace",
                    start_new_session=True,  # so that `_kill` reaches its children too
                )  # fmt: skip
            except OSError as error:
                raise ModelError(f"{path} cannot be started ({error.strerror})", "run it by hand.") from None
            with _ended(process):
                out, err = process.communicate(_spoken(request), self.timeout_seconds)
        return process.returncode, out, err

    def _worst_answer(self, request: Request, began: float) -> Answer:
        return lost_answer(self.name, self.worst_case(request), self.max_output_tokens, time.monotonic() - began)

    def _failure(self, error: str, paid: Answer | None) -> ModelError:
        """Classify an error message, which may come from the program or from its provider."""
        short = " ".join(error.split())[:200]
        if _USED_UP.search(error):
            opens = _OPENS_AT.search(error)
            at = f"{datetime.fromtimestamp(int(opens[1]), UTC).astimezone():%Y-%m-%d %H:%M %Z}" if opens else ""
            advice = f"it opens again at {at}" if at else "wait until it opens again, or see its plan and billing"
            return ModelError(f"{self.name} has used up what its login allows: {short}", f"{advice}.")
        if _ASKS.search(error):
            return self._unattended(short)
        if _PASSES.search(error):
            return TransientError(f"{self.name} failed: {short}", "try later.", answer=paid)
        if paid is not None:
            return UnusableReplyError(f"{self.name} gave no answer: {short}", "try again.", paid)
        return ModelError(f"{self.name} failed: {short}", f"run '{self._program.command}' by hand, or update it.")

    def _unattended(self, question: str) -> UnattendedError:
        by_hand = f"run '{self._program.command}' by hand until it answers."
        return UnattendedError(f"{self.name} has to ask you something first: {question}", by_hand)


def end_all() -> None:
    """Kill all running programs, and let no later answer count: this process is about to end."""
    _ending.set()
    for process in tuple(_running):
        _kill(process)


_running: set["subprocess.Popen[str]"] = set()
_ending = threading.Event()


@contextmanager
def _ended(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Kill the program and its children afterwards, unless it has already ended."""
    _running.add(process)
    with process:
        try:
            yield
        finally:
            _kill(process)
            _running.discard(process)


def _kill(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _text(output: bytes | str | None) -> str:
    """Return what a program had printed by a deadline, which comes as bytes."""
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _spoken(request: Request) -> str:
    """Return the conversation without the system prompt as a single turn."""
    said = [
        f"Your answer was:\n\n{text}" if role == "assistant" else text
        for role, text in request.messages
        if role != "system"
    ]
    return "\n\n".join(said)
