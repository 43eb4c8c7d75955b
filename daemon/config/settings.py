"""Settings: the configuration as one frozen model, read from defaults, the user's file and the environment.

`config.yaml` at the top of the repository lists every key with its default; a test keeps the two in step. The user's
file overrides the defaults, `DREAMD_SECTION__KEY` variables override the file. litellm reads providers' API keys from
the environment; they are never in the file.
"""

import os
import re
import reprlib
import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from daemon.config.layers import layers, user_file
from daemon.config.paths import allow_path, allowed
from daemon.config.zone import zone_named
from state.agents import COMMAND
from state.budget import DayLimits, Limits
from state.codec import problems_of
from state.document.asking import Ask, Heard
from state.errors import ConfigError
from state.secrets.policy import Redaction

# A list in YAML becomes a tuple.
Texts = Annotated[tuple[str, ...], Field(strict=False)]
# An empty variable is read as null, and means the empty text.
Text = Annotated[str, BeforeValidator(lambda given: "" if given is None else given)]


def _known_zone(name: str) -> str:
    try:
        zone_named(name, {})
    except ConfigError as error:
        raise PydanticCustomError("timezone", "{wanted}", {"wanted": error.advice}) from None
    return name


# A section without keys, which a value of its own is, counts as {}.
Zone = Annotated[
    str, BeforeValidator(lambda given: "" if given in (None, {}) else given), AfterValidator(_known_zone)
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


# An agent's program takes the name of a model as one word of its command line, which is no option.
_OF_AGENT = re.compile(r"(?:claude-code|codex|gemini-cli)(?P<model>/.*)?", re.DOTALL)
_ONE_WORD = re.compile(r"/[A-Za-z0-9][\w.:@/\[\]-]{0,99}", re.ASCII)


def _known_model(name: str) -> str:
    wanted, model = "", match["model"] if (match := _OF_AGENT.fullmatch(name)) else None
    if model is not None and not _ONE_WORD.fullmatch(model):
        wanted = "the model of an agent is one word, such as claude-code/haiku"
    if name.startswith(COMMAND) and not _is_command(name.removeprefix(COMMAND)):
        wanted = "a command is one line, a program's name or whole path and its arguments, quoted as in a shell"
    if wanted:
        raise PydanticCustomError("model", "{wanted}", {"wanted": wanted})
    return name


def _is_command(line: str) -> bool:
    try:
        program = next(iter(shlex.split(line)), "")
    except ValueError:  # a quotation mark is not closed
        return False
    return line.isprintable() and bool(program) and ("/" not in program or program.startswith(("/", "~/")))


class ModelSection(_Section):
    """The model that dreams use, and variables with secrets that a command as the model gets."""

    name: Annotated[str, AfterValidator(_known_model)] | None = None
    api_base: str | None = None
    timeout_seconds: float = Field(default=120, gt=0)
    max_output_tokens: int = Field(default=4000, ge=256)
    on_failure: Literal["keep", "extractive"] = "keep"
    variables: Texts = ()


# The form in which processes compare addresses and reach each other, by plain HTTP.
_ADDRESS = re.compile(r"http://(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::[0-9]{1,5})?", re.ASCII)


def _known_address(address: str) -> str:
    if address and not _ADDRESS.fullmatch(address):
        wanted = "an address is http://HOST:PORT and no more, such as http://10.0.0.7:7350"
        raise PydanticCustomError("address", "{wanted}", {"wanted": wanted})
    return address


class DreamSection(_Section):
    """When a dream runs, the context window of its readers, and what it asks its owner about, for how many days."""

    interval_minutes: float = Field(default=120, gt=0)
    min_chunks: int = Field(default=5, ge=1)
    context_window: int = Field(default=200_000, ge=1_000)
    ask: Annotated[Ask, Field(strict=False)] = Ask.OWN
    ask_days: int = Field(default=14, ge=1, le=3_650)
    heard: Annotated[Heard, Field(strict=False)] = Heard.MARK
    idle_minutes: float = Field(default=20, gt=0)


class LimitsSection(_Section):
    """Ceilings; a dream that reaches one ends cleanly."""

    calls_per_dream: int = Field(default=5, ge=0)
    tokens_per_dream: int = Field(default=60_000, ge=0)
    usd_per_dream: float = Field(default=0.50, ge=0)
    usd_per_day: float = Field(default=5.00, ge=0)
    tokens_per_day: int = Field(default=1_000_000, ge=0)
    wall_seconds_per_dream: float = Field(default=900, gt=0)

    @property
    def ceilings(self) -> Limits:
        """Return the ceilings per dream, and per day of a workspace."""
        return Limits(**self.model_dump())


class HormonesSection(_Section):
    """The levels to which hormones decay."""

    dopamine_baseline: float = Field(default=0.15, ge=0, le=1)
    cortisol_baseline: float = Field(default=0.02, ge=0, le=1)
    oxytocin_baseline: float = Field(default=0.20, ge=0, le=1)


class RetentionSection(_Section):
    """How long to keep ended runs and answers, how many open questions, and how often to copy state.db."""

    ledger_days: int = Field(default=180, ge=2, le=36_500)
    answers_days: int = Field(default=14, ge=0, le=36_500)
    gaps: int = Field(default=500, ge=10)
    copies_hours: int = Field(default=6, ge=0, le=24)


class SourcesSection(_Section):
    """Transcripts that every dream reads, as globs inside the workspace."""

    transcripts: Texts = ("transcripts/**/*",)


class EmbeddingsSection(_Section):
    """The embedding model, and after how many idle minutes it is unloaded (0: never)."""

    model: Annotated[Path | None, Field(strict=False)] = None
    idle_minutes: int = Field(default=10, ge=0, le=100_000)


class SecretsSection(_Section):
    """Redaction of secrets; `allow` lists texts that only look like secrets."""

    redact: bool = True
    allow: Texts = ()


class DaemonSection(_Section):
    """`dreamd serve`: concurrent dreams, minutes between passes, daily ceilings of all workspaces."""

    concurrent_dreams: int = Field(default=4, ge=1, le=64)
    pass_minutes: int = Field(default=5, ge=1, le=10_080)
    usd_per_day: float = Field(default=20.00, ge=0)
    tokens_per_day: int = Field(default=5_000_000, ge=0)

    @property
    def limits(self) -> DayLimits:
        """Return the daily ceilings of all workspaces together."""
        return DayLimits(self.usd_per_day, self.tokens_per_day)


class HttpSection(_Section):
    """The TCP port for programs that cannot use the Unix socket. 0: none."""

    host: str = "127.0.0.1"
    port: int = Field(default=7349, ge=0, le=65_535)
    allowed_hosts: Texts = ()


Toolset = Literal["memory", "sessions"]


class McpSection(_Section):
    """The toolsets that an agent sees."""

    toolsets: Annotated[tuple[Toolset, ...], Field(strict=False)] = ("memory",)


class ConnectSection(_Section):
    """Whether a repository in which an agent works gets a memory by itself, when there is something to remember."""

    new: Literal["auto", "ask", "never"] = "auto"


class FleetSection(_Section):
    """A fleet of machines: their shared PostgreSQL and object store, and the settings of this machine."""

    database: Text = ""
    objects: Text = ""
    folder: Annotated[Path | None, Field(strict=False)] = None
    host: Text = ""
    port: int = Field(default=7350, ge=0, le=65_535)
    address: Annotated[Text, AfterValidator(_known_address)] = ""
    dreams_at_once: int = Field(default=4, ge=1, le=64)
    idle_seconds: float = Field(default=300, ge=1, le=86_400)
    drain_seconds: float = Field(default=3, ge=0, le=300)
    usd_per_day: float = Field(default=0, ge=0)
    tokens_per_day: int = Field(default=0, ge=0)


class LogSection(_Section):
    """The log on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    form: Literal["auto", "json", "console"] = "auto"


class Config(_Section):
    """The whole configuration."""

    timezone: Zone = ""
    model: ModelSection = ModelSection()
    dream: DreamSection = DreamSection()
    limits: LimitsSection = LimitsSection()
    hormones: HormonesSection = HormonesSection()
    retention: RetentionSection = RetentionSection()
    sources: SourcesSection = SourcesSection()
    embeddings: EmbeddingsSection = EmbeddingsSection()
    secrets: SecretsSection = SecretsSection()
    daemon: DaemonSection = DaemonSection()
    http: HttpSection = HttpSection()
    mcp: McpSection = McpSection()
    connect: ConnectSection = ConnectSection()
    fleet: FleetSection = FleetSection()
    log: LogSection = LogSection()
    # Where it was read from; not part of its value.
    _file: Path | None = PrivateAttr(default=None)
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def zone(self) -> tzinfo:
        """Return the owner's time zone; the machine's as it is now, unless one is configured."""
        return zone_named(self.timezone, os.environ)

    @property
    def redaction(self) -> Redaction:
        """Return the redaction policy for secrets."""
        return Redaction(self.secrets.redact, self.secrets.allow)

    @property
    def baselines(self) -> tuple[float, float, float]:
        """Return the levels to which hormones decay, in the order of `Hormone`."""
        levels = self.hormones
        return levels.dopamine_baseline, levels.cortisol_baseline, levels.oxytocin_baseline

    @property
    def file(self) -> Path | None:
        """Return the user's file, if one was read."""
        return self._file

    @property
    def origins(self) -> Mapping[str, str]:
        """Return the file or variable that set each key ("dream.ask"); defaults are absent."""
        return self._origins


def load(path: Path | None, environment: Mapping[str, str] | None = None) -> Config:
    """Read the configuration: defaults, then the user's file, then the environment.

    `path` is the file named on the command line; without it, DREAMD_CONFIG names one, or ~/.config/dreamd/config.yaml
    is read if it exists. Raise ConfigError naming the invalid key and what it may be.
    """
    environment = os.environ if environment is None else environment
    merged, origins = layers(path, environment)
    config = checked(merged, origins)
    by_key = dict(_keys_set(merged, origins))
    by_command = allowed(environment)  # texts given to 'dreamd secrets allow'
    if by_command:
        given = by_key.get("secrets.allow")
        by_key["secrets.allow"] = " and ".join(filter(None, (given, str(allow_path(environment)))))
    allow = (*config.secrets.allow, *by_command)
    config = config.model_copy(update={"secrets": config.secrets.model_copy(update={"allow": allow})})
    config._file, config._origins = user_file(path, environment), by_key  # noqa: SLF001 - nobody else sets them
    return config


def checked(merged: Mapping[str, Any], origins: Mapping[str, str]) -> Config:
    """Return a configuration of these keys. Raise ConfigError naming the invalid key and what it may be."""
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_explained(error, origins)) from error


def _keys_set(merged: Mapping[str, Any], origins: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each key that is set, with its origin; a key's table comes from one layer as a whole."""
    for section, keys in merged.items():
        if not isinstance(keys, dict):
            yield section, origins[section]
            continue
        for key, value in keys.items():
            origin = origins.get(f"{section}.{key}") or origins[section]
            yield f"{section}.{key}", origin
            if isinstance(value, dict):
                yield from ((f"{section}.{key}.{name}", origin) for name in value)


def _explained(error: ValidationError, origins: Mapping[str, str]) -> str:
    first = error.errors()[0]
    key, problem = problems_of(error)[0]
    origin = origins.get(key) or origins.get(key.partition(".")[0]) or "the configuration"
    if first["type"] == "extra_forbidden":
        from difflib import get_close_matches

        *above, name = map(str, first["loc"])
        known = sorted(_fields(first["loc"][:-1]))
        near = [".".join((*above, one)) for one in get_close_matches(name, known, 1)]
        meant = f", is '{near[0]}' meant?" if near else ";"
        return f"{origin}: there is no key '{key}'{meant} here these are known: {', '.join(known)}"
    given = "wrong:" if key.startswith("secrets.") else f"{reprlib.repr(first['input'])}, but"
    return f"{origin}: {key} is {given} {problem}"


def _fields(path: tuple[int | str, ...]) -> tuple[str, ...]:
    section: Any = Config
    for step in path:
        # Each value of a dict is a model of its own.
        section = get_args(section)[1] if get_origin(section) is dict else section.model_fields[str(step)].annotation
    return tuple(section.model_fields)


def day_start(now: datetime) -> datetime:
    """Return midnight UTC, when the day of the daily ceilings began."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)
