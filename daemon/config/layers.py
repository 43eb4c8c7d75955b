"""Configuration layers: merges the user's file and the environment into plain data, which `settings` validates.

A separate module because `dreamd bootstrap` needs single values and has no time to import pydantic.
"""

from collections.abc import Mapping
from datetime import tzinfo
from pathlib import Path
from typing import Any

from daemon.config.paths import allowed
from daemon.config.zone import zone_named
from state.errors import ConfigError
from state.secrets.policy import Redaction

PREFIX = "DREAMD_"
NEW_MEMORIES = ("auto", "ask", "never")
"""What `connect.new` may say of a repository in which an agent works and that has no memory yet."""
# Variables that set no key of the configuration.
NOT_KEYS = frozenset(
    f"DREAMD_{name}"
    for name in ("CONFIG", "WORKSPACE", "LOCOMO", "DEBUG", "LONG", "SEED", "SOCKET", "TOKEN", "TRIED")
)


def configured_here(environment: Mapping[str, str]) -> bool:
    """Return whether environment variables set keys of the configuration."""
    return any(map(_sets_key, environment))


def _sets_key(variable: str) -> bool:
    return variable.startswith(PREFIX) and variable not in NOT_KEYS


def variable_of(key: str, environment: Mapping[str, str]) -> str:
    """Return the variable that sets this key, alone or with its whole section; "" if none does."""
    names = {key.replace(".", "__"), key.partition(".")[0]}
    setting = (one for one in sorted(environment) if _sets_key(one))
    return next((one for one in setting if one[len(PREFIX) :].lower() in names), "")


def layers(path: Path | None, environment: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the merged keys, and the file or variable that last set each section and key (`dream`, `dream.ask`)."""
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    file = user_file(path, environment)
    if file is not None:
        for section, keys in sections_in(_text_of(file), file).items():
            origins[section] = str(file)
            merged[section] = dict(keys) if isinstance(keys, dict) else keys
            if isinstance(keys, dict):
                origins |= {f"{section}.{key}": str(file) for key in keys}
    _add_variables(merged, origins, environment)
    return merged, origins


def of_variables(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return only the keys that environment variables set."""
    merged: dict[str, Any] = {}
    _add_variables(merged, {}, environment)
    return merged


def _add_variables(merged: dict[str, Any], origins: dict[str, str], environment: Mapping[str, str]) -> None:
    for variable, value in sorted(environment.items()):
        if not _sets_key(variable):
            continue
        section, _, key = variable[len(PREFIX) :].lower().partition("__")
        if not key or not isinstance(merged.setdefault(section, {}), dict):
            merged[section] = value_of(value)
            for name in [name for name in origins if name.startswith(f"{section}.")]:
                del origins[name]
            origins[f"{section}.{key}" if key else section] = variable
            continue
        origins[f"{section}.{key}"] = variable
        merged[section][key] = value_of(value)


def user_file(path: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the named file, else the default one if it exists. Raise ConfigError if the named one does not exist."""
    file = file_place(path, environment)
    if file.is_file():
        return file
    if path or environment.get("DREAMD_CONFIG"):
        raise ConfigError(f"{file}: no such file", "name the configuration with --config or DREAMD_CONFIG")
    return None


def file_place(path: Path | None, environment: Mapping[str, str]) -> Path:
    """Return where the user's file is, or would be: the named one, else ~/.config/dreamd/config.yaml."""
    named = path or environment.get("DREAMD_CONFIG")
    home = environment.get("XDG_CONFIG_HOME") or f"{environment.get('HOME', '~')}/.config"
    return Path(named) if named else Path(home).expanduser() / "dreamd" / "config.yaml"


def context_window(path: Path | None, environment: Mapping[str, str], default: int) -> int:
    """Return only `dream.context_window`, in tokens. Raise ConfigError if it is not an integer."""
    value, origin = _one(layers(path, environment), "dream", "context_window", default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{origin}: dream.context_window is {value!r}, but it is a number of tokens")
    return value


def redaction(path: Path | None, environment: Mapping[str, str]) -> Redaction:
    """Return only the policy for secrets. Raise ConfigError if `daemon.config.settings` would refuse the section."""
    read = layers(path, environment)
    on, origin = _one(read, "secrets", "redact", default=True)
    if not isinstance(on, bool):
        raise ConfigError(f"{origin}: secrets.redact is {on!r}, but it is true or false")
    allow, origin = _one(read, "secrets", "allow", ())
    if not isinstance(allow, list | tuple) or not all(isinstance(text, str) for text in allow):
        raise ConfigError(f"{origin}: secrets.allow is {allow!r}, but it is a list of texts")
    return Redaction(on, (*allow, *allowed(environment)))


def zone(path: Path | None, environment: Mapping[str, str]) -> tzinfo:
    """Return only the owner's time zone. Raise ConfigError if `daemon.config.settings` would refuse it."""
    merged, origins = layers(path, environment)
    name = merged.get("timezone") or ""
    try:
        return zone_named(str(name), environment)
    except ConfigError as error:
        raise ConfigError(f"{origins['timezone']}: {error.what}", error.advice) from None


def new_memories(path: Path | None, environment: Mapping[str, str]) -> str:
    """Return only `connect.new`. Raise ConfigError if `daemon.config.settings` would refuse it."""
    value, origin = _one(layers(path, environment), "connect", "new", "auto")
    if value not in NEW_MEMORIES:
        raise ConfigError(f"{origin}: connect.new is {value!r}, but it is one of {', '.join(NEW_MEMORIES)}")
    return str(value)


def transcripts(path: Path | None, environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return only `sources.transcripts`; None if unset or not a list of texts, which the next dream reports."""
    globs, _ = _one(layers(path, environment), "sources", "transcripts", None)
    is_list = isinstance(globs, list) and all(isinstance(glob, str) for glob in globs)
    return tuple(globs) if is_list else None


def _one(
    read: tuple[Mapping[str, Any], Mapping[str, str]], section: str, key: str, default: object
) -> tuple[Any, str]:
    """Return one value and its origin; a section that is not a table is returned itself, as the invalid value."""
    merged, origins = read
    keys = merged.get(section, {})
    origin = origins.get(f"{section}.{key}") or origins.get(section, "the configuration")
    return keys.get(key, default) if isinstance(keys, dict) else keys, origin


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}", "make it a readable text file") from error


def sections_in(text: str, file: Path) -> dict[str, Any]:
    """Return the sections of a file with this text. Raise ConfigError naming the file and the line."""
    import yaml

    try:
        content = yaml.safe_load(text)
    except RecursionError:
        raise ConfigError(f"{file}: its lists and sections are nested too deep", "mend it") from None
    except ValueError as error:  # an impossible date or number
        raise ConfigError(f"{file}: {error}", "mend it") from error
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        line = f" line {place.line + 1}" if place else ""
        raise ConfigError(
            f"{file}{line}: not YAML ({getattr(error, 'problem', None) or error})", "mend it"
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: holds {type(content).__name__}, not sections of keys", "see config.yaml")
    return {str(key): value if value is not None else {} for key, value in content.items()}


def value_of(text: str) -> Any:  # noqa: ANN401 - checked by the model of the configuration
    """Return what a variable or argument means: a number, boolean, null, list or {table} as in YAML, else a text."""
    import yaml

    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
    is_table = isinstance(value, dict) and text.lstrip().startswith("{")  # "a: b" is meant as text
    return value if isinstance(value, (bool, int, float, list)) or value is None or is_table else text
