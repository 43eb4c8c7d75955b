"""The owner's time zone: the machine's unless the configuration names one, and a wrong name is refused in words."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.config import layers
from daemon.config.entries import entries
from daemon.config.settings import Config, load
from daemon.config.zone import system_zone, zone_named
from state.agents import TRIED
from state.errors import ConfigError
from state.zone import clock_time

HOME = {"HOME": "/nonexistent"}
AT = datetime(2026, 11, 28, 1, 36, tzinfo=UTC)


@pytest.mark.parametrize(
    ("variable", "shown"),
    [
        ("America/New_York", "2026-11-27 20:36 EST"),
        (":Pacific/Auckland", "2026-11-28 14:36 NZDT"),
        ("/usr/share/zoneinfo/Asia/Kolkata", "2026-11-28 07:06 IST"),
        ("", "2026-11-28 01:36 UTC"),
        ("no such zone", "2026-11-28 01:36 UTC"),
    ],
)
def test_the_machines_zone_is_that_of_tz(variable: str, shown: str) -> None:
    assert clock_time(AT, system_zone({"TZ": variable})) == shown


def test_a_file_that_is_a_copy_of_a_zone_is_read(tmp_path: Path) -> None:
    (tmp_path / "localtime").write_bytes(Path("/usr/share/zoneinfo/Asia/Kolkata").read_bytes())
    assert clock_time(AT, system_zone({"TZ": str(tmp_path / "localtime")})) == "2026-11-28 07:06 IST"


def test_the_machines_zone_is_looked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config()
    for name, shown in (("Asia/Kolkata", "07:06 IST"), ("America/New_York", "20:36 EST")):
        monkeypatch.setenv("TZ", name)
        assert clock_time(AT, config.zone).endswith(shown)


@pytest.mark.parametrize("content", ["timezone: Asia/Kolkata", "timezone:", "timezone: ''", "model: {}"])
def test_the_configured_zone_holds_and_none_is_the_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    file, environment = tmp_path / "config.yaml", {**HOME, "TZ": "America/New_York"}
    file.write_text(content)
    zone = "IST" if "Kolkata" in content else "EST"
    assert load(file, environment).zone.tzname(AT) == layers.zone(file, environment).tzname(AT) == zone
    environment["DREAMD_TIMEZONE"] = "Pacific/Auckland"
    config = load(file, environment)
    assert config.zone.tzname(AT) == layers.zone(file, environment).tzname(AT) == "NZDT"
    (shown,) = (one for one in entries(config) if one.key == "timezone")
    assert (shown.value, shown.origin, bool(shown.meaning)) == ('"Pacific/Auckland"', "DREAMD_TIMEZONE", True)
    assert layers.configured_here(environment)


@pytest.mark.parametrize("name", ["Berlin", "Europe", "../../etc/passwd", "/usr/share/zoneinfo/UTC", "UTC+2", "a\0b"])
def test_a_zone_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="this machine knows no such time zone; give an IANA name"):
        zone_named(name, HOME)
    for read in (load, layers.zone):
        with pytest.raises(ConfigError, match=r"^DREAMD_TIMEZONE: timezone is "):
            read(None, {**HOME, "DREAMD_TIMEZONE": name})
    (tmp_path / "config.yaml").write_text("timezone: {of: me}")
    with pytest.raises(ConfigError, match="timezone"):
        load(tmp_path / "config.yaml", HOME)


def test_the_variable_of_a_trial_is_no_key() -> None:
    assert load(None, {**HOME, TRIED: "1"}) == Config()
    assert not layers.configured_here({TRIED: "1"})
