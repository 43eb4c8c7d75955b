"""Command model: gets one answer from a program that reads a prompt from stdin and prints the answer.

`model.name` is `command:` and the program with its arguments, such as `command:llm -m mistral`, or the name of a
preset: `claude-code`, `codex` and `gemini` are the user's own coding agents, with that user's login. They use no
tools, MCP servers, hooks or memory files, and leave no session file. No shell is run; the program runs in an empty
folder for one answer, and ends with it. Its price is not known, so calls and tokens are counted and dollars are 0. A
program that is missing, or would have to ask its user something, for example to log in, raises UnattendedError, and
the dream continues without a model.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from daemon.models.errors import TransientError, UnusableReplyError, lost_answer
from daemon.models.known import SECRET_NAME, without_keys
from daemon.models.litellm_model import UNKNOWN_WINDOW
from graphs.ports import Answer, Request
from state.agents import COMMAND
from state.budget import Limits, Spend
from state.errors import ModelError, StoppedError, UnattendedError
from state.stores.disk.user_folder import DAEMONS_OWN, home, program_folders

_STATUS_SECONDS = 20.0
_END_SECONDS = 2.0
_MOST_PRINTED = 8 * 1024**2  # bytes, on stdout and on stderr: the longest answers have thousands of tokens
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
class _Reply:
    """What a program's output says: the model's answer, its tokens (0: unknown), and the error if there was one."""

    text: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    error: str = ""
    finish_reason: str = "stop"


@dataclass(frozen=True, slots=True)
class Preset:
    """A program with its arguments, as one line of a shell, and how its output is read.

    In `line` and `variables`, {system} is a file with the prompt's rules, {folder} a folder that lasts as long as
    the call, {tokens} the most tokens of an answer. `secrets` are prefixes of the variables that it gets although
    their names look like secrets, `keys` returns those that its configuration names. `overhead` is how many tokens it
    adds to a request at most, `model` what it is told to use unless `model.name` says it, `small` what is proposed.
    `prepare` writes files into the folder and returns more arguments. `asks` returns what the program at a path would
    ask its user before it answers, "" if nothing is known. `read` parses stdout and stderr, and raises ValueError,
    LookupError or TypeError for an unknown format.
    """

    line: str
    title: str = ""
    read: Callable[[str, str], _Reply] = lambda out, _: _Reply(out)
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    overhead: int = 0
    model: str = ""
    small: str = ""
    keys: Callable[[], tuple[str, ...]] = tuple
    prepare: Callable[[Path], list[str]] = lambda _: []
    asks: Callable[[str], str] = lambda _: ""  # most say so in their answer

    @property
    def command(self) -> str:
        """Return the name or path of the program."""
        return os.path.expanduser(shlex.split(self.line)[0])  # noqa: PTH111 - a name is no path


def _read_claude(out: str, _: str) -> _Reply:
    said = json.loads(out)
    used = said.get("usage") or {}
    kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    counts = (sum(int(used.get(kind) or 0) for kind in kinds), int(used.get("output_tokens") or 0))
    if said["is_error"]:
        error = said.get("result") or "; ".join(map(str, said.get("errors", ()))) or said["subtype"]
        return _Reply("", *counts, error=str(error))
    return _Reply(str(said["result"]), *counts, "", "length" if said.get("stop_reason") == "max_tokens" else "stop")


# Each is a tool, or starts something other than the model.
_CODEX_FEATURES = (
    "shell_tool unified_exec view_image image_generation goals multi_agent tool_suggest skill_search hooks apps"
    " plugins remote_plugin shell_snapshot unbounded_connection_retries"
).replace(" ", " = false, ")
_CODEX_OFF = (
    "include_environment_context include_permissions_instructions include_apps_instructions"
    " skills.include_instructions skills.bundled.enabled analytics.enabled check_for_update_on_startup"
).replace(" ", "=false -c ")


def _prepare_codex(_: Path) -> list[str]:
    # Codex has no option to disable all MCP servers, so each is disabled by name.
    named = _codex_configured().get("mcp_servers")
    servers = ", ".join(f"{json.dumps(name)} = {{enabled = false}}" for name in (named or ()))
    return ["-c", f"mcp_servers={{{servers}}}", "-"]


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


def _codex_keys() -> tuple[str, ...]:
    providers = _codex_configured().get("model_providers")
    named = providers.values() if isinstance(providers, dict) else ()
    return tuple(str(one["env_key"]) for one in named if isinstance(one, dict) and "env_key" in one)


def _read_codex(out: str, err: str) -> _Reply:
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    used = next((event["usage"] for event in events if event["type"] == "turn.completed"), None)
    if used is None:  # errors before the usage are connection attempts that a later one made good
        failed = [event.get("error", event) for event in events if event["type"] in ("turn.failed", "error")]
        return _Reply(error=str(failed[-1]["message"] if failed else err.strip() or "it printed nothing"))
    counts = (int(used["input_tokens"]), int(used["output_tokens"]))
    done = {item["type"] for item in items} - {"agent_message", "reasoning", "error"}
    if done:
        return _Reply("", *counts, error=f"it did more than answer ({', '.join(sorted(done))})")
    return _Reply("".join(str(item["text"]) for item in items if item["type"] == "agent_message"), *counts)


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


def _prepare_gemini(folder: Path) -> list[str]:
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
    return []


def _read_gemini(out: str, err: str) -> _Reply:
    if not out.strip():  # errors are on stderr: JSON among other lines, or plain text
        messages = re.findall(r'"message": (".*"),?$', err, re.MULTILINE)
        return _Reply(error=json.loads(messages[-1]) if messages else err.strip().rpartition("\n")[2])
    said = json.loads(out)
    if said.get("error"):
        return _Reply(error=str(said["error"]["message"]))
    used = [one["tokens"] for one in said["stats"]["models"].values()]
    tokens_in = sum(int(one["prompt"]) for one in used)
    return _Reply(str(said["response"]), tokens_in, sum(int(one["total"]) for one in used) - tokens_in)


PRESETS: Mapping[str, Preset] = {
    "claude-code": Preset(
        "claude -p --output-format json --safe-mode --strict-mcp-config --no-session-persistence"
        " --disable-slash-commands --tools '' --max-turns 1 --system-prompt-file {system}",
        "Claude Code", _read_claude,
        {
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "{tokens}",
            # It would try ten times, for minutes, and say nothing meanwhile; `Metered` retries what passes.
            "CLAUDE_CODE_MAX_RETRIES": "0",
        },
        ("ANTHROPIC_", "CLAUDE_", "AWS_", "GOOGLE_"), 1_500, small="haiku",
    ),
    "codex": Preset(
        "codex exec --skip-git-repo-check --ephemeral --json --sandbox read-only"
        f" -c 'features={{{_CODEX_FEATURES} = false}}' -c {_CODEX_OFF}=false"
        """ -c 'web_search="disabled"' -c 'model_instructions_file="{system}"'""",
        "Codex", _read_codex, secrets=("CODEX_", "OPENAI_", "AZURE_"), overhead=6_000,
        keys=_codex_keys, prepare=_prepare_codex, asks=_codex_asks,
    ),
    "gemini": Preset(
        "gemini --output-format json", "Gemini CLI", _read_gemini,
        {"GEMINI_CLI_HOME": "{folder}", "GEMINI_SYSTEM_MD": "{system}"}, ("GEMINI_", "GOOGLE_"), 1_500,
        model="flash",  # without one, Gemini first asks another model which one to use
        prepare=_prepare_gemini,
    ),
}  # fmt: skip
"""The agents, by their name in `model.name`, which may add a model of theirs: claude-code/haiku."""
# To litellm, gemini/MODEL is Google's API.
_WITH_MODEL = {**{name: name for name in PRESETS if name != "gemini"}, "gemini-cli": "gemini"}


def preset_of(name: str) -> Preset | None:
    """Return the program that `model.name` means; None for a model of litellm's."""
    if name.startswith(COMMAND):
        return Preset(name.removeprefix(COMMAND))
    return PRESETS.get(name) or PRESETS.get(_WITH_MODEL.get(name.partition("/")[0], ""))


def find_program(preset: Preset) -> str | None:
    """Return the path of a program; None if it is not installed."""
    return shutil.which(preset.command, path=program_folders(os.environ))


def installed_agents() -> Iterator[tuple[str, Preset]]:
    """Yield the agents that are installed here, by the name to propose for `model.name`."""
    for name, preset in PRESETS.items():
        if find_program(preset):
            yield f"{name}/{preset.small}" if preset.small else name, preset


def costs_of(preset: Preset, limits: Limits) -> str:
    """Return what a dream with this program costs at most, in words."""
    most = f"at most {limits.calls_per_dream} calls and {limits.tokens_per_dream:,} tokens a dream"
    login = f", on your login of {preset.title}" if preset.secrets else ""
    return f"{most}{login}; its price is not known"


@dataclass(frozen=True, slots=True)
class _End:
    """What a program printed, cut if it was too much; and its exit status, None if it took too long."""

    out: str
    err: str
    status: int | None
    is_cut: bool


@dataclass(eq=False)
class CommandModel:
    """The program that `model.name` means, as a model, which is told about as `name`.

    `variables` are the names of those that it gets although they look like secrets.
    """

    program: str
    name: str
    timeout_seconds: float
    max_output_tokens: int
    variables: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        preset = preset_of(self.program)
        assert preset is not None
        self._preset = preset
        self._is_agent = not self.program.startswith(COMMAND)
        model = self.program.partition("/")[2] or preset.model if self._is_agent else ""
        self._model = ["--model", model] if model else []
        # In tokens: the smallest of the agents' default models.
        self.context_window = 200_000 if self._is_agent else UNKNOWN_WINDOW

    def worst_case(self, request: Request) -> Spend:
        """Return the most that one try may cost, if the program obeys the limit on the answer."""
        tokens_in = _tokens("".join(text for _, text in request.messages)) + self._preset.overhead
        return Spend(calls=1, tokens=tokens_in + self.max_output_tokens)

    def ask(self, request: Request) -> Answer:
        """Return one answer, which is never empty.

        Raise UnattendedError if the program is not installed or would have to ask its user, StoppedError after
        `end_all`, and the errors of `LitellmModel.ask`.
        """
        path = find_program(self._preset)
        if path is None:
            where = f"install {self._preset.title or 'it'}, or add its folder to the PATH of dreamd."
            raise UnattendedError(f"{self.name}: there is no program '{self._preset.command}'", where)
        if question := self._preset.asks(path):
            raise self._unattended(question)
        began = time.monotonic()
        end = self._run(path, request)
        if _ending.is_set():
            raise StoppedError("this process ends", "the dream is checkpointed, and the next one goes on with it")
        reply, seconds = self._read(end), time.monotonic() - began
        most = lost_answer(self.name, self.worst_case(request), self.max_output_tokens, seconds)
        if end.status is None and not (_USED_UP.search(reply.error) or _ASKS.search(reply.error)):
            what = f"{self.name} did not answer within {self.timeout_seconds:g} s"
            raise TransientError(what, "raise model.timeout_seconds.", answer=most)
        if end.is_cut:
            what = f"{self.name} printed more than {_MOST_PRINTED // 1024**2} MiB, and was ended"
            raise UnusableReplyError(what, "see what it prints when you run it by hand.", most)
        counts = reply.tokens_in, reply.tokens_out
        if not reply.tokens_in:
            counts = most.tokens_in, _tokens(reply.text)
        answer = Answer(
            reply.text, self.name, *counts, 0.0, reply.finish_reason, seconds, estimated=not reply.tokens_in
        )
        if reply.error:
            used_turn = "number of turns" in reply.error or "session turns" in reply.error  # it called a tool
            raise self._failure(reply.error, answer if reply.tokens_in else most if used_turn else None)
        if not reply.text.strip():
            raise UnusableReplyError(f"{self.name} answered nothing", "raise model.max_output_tokens.", answer)
        return answer

    def _read(self, end: _End) -> _Reply:
        ended = f"it ended with status {end.status}"
        try:
            reply = self._preset.read(end.out, end.err)
        except (ValueError, LookupError, TypeError, AttributeError):
            reply = _Reply(error=" ".join(f"{end.out} {end.err}".split()) or ended)
        if end.status and not reply.error:
            last = (end.err.strip() or end.out.strip()).rpartition("\n")[2]
            reply = replace(reply, error=f"{ended}: {last}" if last else ended)
        return reply

    def _run(self, path: str, request: Request) -> _End:
        with TemporaryDirectory(prefix="dreamd-") as name:
            folder, preset = Path(name), self._preset
            system, tokens = folder / "system.md", str(self.max_output_tokens)

            def fill(word: str) -> str:
                return word.replace("{system}", str(system)).replace("{folder}", name).replace("{tokens}", tokens)

            rules = "\n".join(text for role, text in request.messages if role == "system")
            words, variables = shlex.split(preset.line)[1:], {}
            if self._is_agent:
                system.write_text(rules, encoding="utf-8")
                words = [*map(fill, words), *preset.prepare(folder), *self._model]
                variables = {name: fill(value) for name, value in preset.variables.items()}
            (folder / "empty").mkdir()
            try:
                process = subprocess.Popen(  # noqa: S603 - a program that the configuration names
                    [path, *words], cwd=folder / "empty", env={**self._environment(), **variables},
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    start_new_session=True,  # so that `_kill` reaches its children too
                )  # fmt: skip
            except OSError as error:
                raise ModelError(f"{path} cannot be started ({error.strerror})", "run it by hand.") from None
            conversation = _conversation(request)
            return _converse(
                process, conversation if self._is_agent else f"{rules}\n\n{conversation}", self.timeout_seconds
            )

    def _environment(self) -> dict[str, str]:
        """Return the variables that it gets: of those that look like secrets only its own and the named ones."""
        secrets, named = self._preset.secrets, {*self.variables, *self._preset.keys()}
        return {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_NOT_PASSED_ON)
            and (not SECRET_NAME.search(name) or name in named or (secrets and name.startswith(secrets)))
        }

    def _failure(self, error: str, paid: Answer | None) -> ModelError:
        """Classify an error message, which may come from the program or from its provider."""
        short = _shortened(error)
        if _USED_UP.search(error):
            opens = _OPENS_AT.search(error)
            at = f"{datetime.fromtimestamp(int(opens[1]), UTC).astimezone():%Y-%m-%d %H:%M %Z}" if opens else ""
            advice = f"it opens again at {at}" if at else "wait until it opens again, or see its plan and billing"
            return ModelError(f"{self.name} has used up what its login allows: {short}", f"{advice}.")
        if _ASKS.search(error):
            return self._unattended(error)
        if _PASSES.search(error):
            return TransientError(f"{self.name} failed: {short}", "try later.", answer=paid)
        if paid is not None:
            return UnusableReplyError(f"{self.name} gave no answer: {short}", "try again.", paid)
        return ModelError(f"{self.name} failed: {short}", f"run '{self._preset.command}' by hand, or update it.")

    def _unattended(self, question: str) -> UnattendedError:
        by_hand = f"run '{self._preset.command}' by hand until it answers; model.variables names keys that it needs."
        return UnattendedError(f"{self.name} has to ask you something first: {_shortened(question)}", by_hand)


def end_all() -> None:
    """Kill all running programs, and let no later answer count: this process is about to end."""
    _ending.set()
    for process in tuple(_running):
        _kill(process)


_running: set["subprocess.Popen[bytes]"] = set()
_ending = threading.Event()


def _converse(process: "subprocess.Popen[bytes]", prompt: str, seconds: float) -> _End:
    """Give the program its prompt; return what it printed until it ended, or was ended with all that it started."""
    out, err = bytearray(), bytearray()

    def write(stdin: IO[bytes]) -> None:
        with suppress(OSError), stdin:  # it may end without reading all
            stdin.write(prompt.encode("utf-8", "replace"))

    def read(stream: IO[bytes], printed: bytearray) -> None:
        with stream:
            while len(printed) <= _MOST_PRINTED and (part := os.read(stream.fileno(), 65_536)):
                printed += part
        if len(printed) > _MOST_PRINTED:
            _kill(process)

    work = (write, process.stdin), (read, process.stdout, out), (read, process.stderr, err)
    threads = [threading.Thread(target=act, args=given, daemon=True) for act, *given in work]
    _running.add(process)
    try:
        for one in threads:
            one.start()
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        status = process.poll()
    finally:
        _kill(process)
        _running.discard(process)
    with suppress(subprocess.TimeoutExpired):  # a hanging disk may keep it
        process.wait(_END_SECONDS)
    for one in threads:  # what it started in a session of its own may keep its output open
        one.join(_END_SECONDS)
    is_cut = max(len(out), len(err)) > _MOST_PRINTED
    return _End(out.decode(errors="replace"), err.decode(errors="replace"), status, is_cut)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the program and its children, also those that it has left behind."""
    with suppress(ProcessLookupError, PermissionError):  # macOS permits nobody to kill a dead group
        os.killpg(process.pid, signal.SIGKILL)


def _shortened(message: str) -> str:
    return without_keys(" ".join(message.split()))[:200]


def _tokens(text: str) -> int:
    """Estimate: in most scripts a token has three bytes or more. litellm could count, but takes seconds to load."""
    return len(text.encode("utf-8", "replace")) // 3


def _conversation(request: Request) -> str:
    """Return the conversation without the system prompt as a single turn."""
    said = [
        f"Your answer was:\n\n{text}" if role == "assistant" else text
        for role, text in request.messages
        if role != "system"
    ]
    return "\n\n".join(said)
