"""Zone: the owner's time zone: the one that the configuration names, else the machine's."""

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from state.errors import ConfigError

_LOCALTIME = "/etc/localtime"
_WANTED = (
    "this machine knows no such time zone; give an IANA name such as Europe/Berlin ('timedatectl list-timezones' "
    "lists them; if it lists none, install the package tzdata), or leave it empty for the machine's own"
)


def zone_named(name: str, environment: Mapping[str, str]) -> tzinfo:
    """Return the zone with this name; the machine's for "". Raise ConfigError for an unknown name."""
    if not name:
        return system_zone(environment)
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; no name but a path; a folder of zones
        raise ConfigError(f"timezone is {name!r}", _WANTED) from None


def system_zone(environment: Mapping[str, str]) -> tzinfo:
    """Return the machine's zone as it is now: $TZ, else /etc/localtime."""
    from zoneinfo import ZoneInfo

    named = environment.get("TZ", _LOCALTIME).removeprefix(":")
    path = os.path.realpath(named) if named.startswith("/") else ""
    name = path.partition("/zoneinfo/")[2] if path else named
    with suppress(KeyError, ValueError, OSError):
        return ZoneInfo(name)
    with suppress(ValueError, OSError), Path(path or "/").open("rb") as file:
        return ZoneInfo.from_file(file)
    # A rule such as EST5EDT,M3.2.0,M11.1.0, which only the C library reads: its offset of today.
    return datetime.now(UTC).astimezone().tzinfo or UTC
