"""A day is the owner's: a note's deadline, a search and what commands and pages show, in real processes."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from state.stores.database.opening import open_reading
from tests.support.serving import Home, over_tcp, until


def far_zone() -> tuple[str, datetime]:
    """A zone in which it is another day than in UTC now, and for the next hour; and the time there."""
    now = datetime.now(UTC)
    hours = 14 if now.hour >= 11 else -12
    return f"Etc/GMT{-hours:+}", now + timedelta(hours=hours)


def spoken(folder: Path, days: int) -> None:
    """A transcript with a turn of noon, UTC, on each of the last days."""
    (folder / "transcripts").mkdir(exist_ok=True)
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    rows = (
        {
            "type": "user",
            "uuid": str(ago),
            "sessionId": f"s{ago}",
            "timestamp": (noon - timedelta(days=ago)).isoformat(),
            "message": {"role": "user", "content": f"We mended the fence of meadow number {ago} together."},
        }
        for ago in range(1, days)
    )
    (folder / "transcripts" / "talk.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_a_command_reads_and_shows_the_days_of_its_zone(home: Home) -> None:
    (zone, here), workspace = far_zone(), home.workspace(kept=False)
    root, tz = workspace.root, {"TZ": zone}
    assert home.dreamd("note", f"Pay the florist by {here.day} {here:%B}.", "-w", root, **tz).status == 0
    assert home.dreamd("dream", root, **tz).status == 0
    connection = open_reading(workspace.database)
    assert [row["until"] for row in connection.execute("SELECT until FROM lines")] == [f"{here:%Y-%m-%d}"]
    connection.close()
    said = home.dreamd("history", "-w", root, **tz).out
    assert re.search(rf"when \([+-]\d\d\) .*\n1 +{here:%Y-%m-%d} \d\d:\d\d ", said), said
    said = home.dreamd("why", "florist", "-w", root, **tz).out
    assert re.search(rf"{here:%Y-%m-%d} \d\d:\d\d [+-]\d\d", said), said
    assert f"[{here:%Y-%m-%d}T" not in home.dreamd("bootstrap", root, **tz).out  # no note is pending
    home.dreamd("note", "The florist was paid.", "-w", root, **tz)
    assert re.search(rf"\[{here:%Y-%m-%d}T[\d:]+[+-]\d\d:00\]", home.dreamd("bootstrap", root, **tz).out)
    # Programs get UTC.
    (version,) = json.loads(home.dreamd("history", "--json", "-w", root, **tz).out)["versions"]
    assert version["at"].endswith("Z")
    assert datetime.fromisoformat(version["at"]).date() != here.date()


def test_a_day_in_a_search_is_the_configured_zones(home: Home) -> None:
    workspace = home.workspace(kept=False)
    root, tz = workspace.root, {"DREAMD_TIMEZONE": "Pacific/Auckland"}
    spoken(root, 5)
    home.dreamd("ingest", root / "transcripts" / "talk.jsonl", "-w", root, **tz)
    # Noon in UTC is the next day there.
    noon = datetime.now(UTC) - timedelta(days=3)
    day = f"{noon + timedelta(days=1):%Y-%m-%d}"
    said = home.dreamd("search", "fence meadow", "--all", "--since", day, "-w", root, **tz).out
    assert ("number 3 " in said, "number 4 " in said) == (True, False)
    said = home.dreamd("search", "fence meadow", "--all", "--until", day, "-w", root, **tz).out
    assert ("number 3 " in said, "number 4 " in said) == (False, True)
    assert f"{noon + timedelta(days=1):%B %Y}" in home.dreamd("search", "number 3", "--all", "-w", root, **tz).out


def test_the_window_and_http_show_the_daemons_zone_and_json_is_utc(home: Home) -> None:
    (zone, here), workspace, port = far_zone(), home.workspace(), home.with_port()
    config = yaml.safe_load(home.config.read_text())
    home.config.write_text(yaml.safe_dump({**config, "timezone": zone}))
    home.dreamd("note", "The kettle was mended.", "-w", workspace.root)
    with home.serving():
        assert home.dreamd("dream", workspace.root).status == 0
        link = home.dreamd("open", workspace.root, "--print").out.strip()
        _, _, headers = over_tcp(port, link.partition(str(port))[2], Accept="text/html")
        cookie = headers["Set-Cookie"].partition(";")[0]
        place = f"/w/{workspace.name}"
        _, page, _ = over_tcp(port, f"{place}/dream?version=1", Cookie=cookie, Accept="text/html")
        assert f'<p class="quiet">{here:%a} {here.day} {here:%b}, ' in page
        _, reply, _ = over_tcp(port, f"{place}/dreams.json", Cookie=cookie)
        (run,) = (one["run"] for one in json.loads(reply)["dreams"]["dreams"] if one["run"]["outcome"] == "committed")
        assert run["started_at"].endswith("Z")
        assert f"{here:%Y-%m-%d}" not in run["started_at"]
        said = home.dreamd("history", "-w", workspace.root, TZ="UTC").out  # as the daemon says it
        assert re.search(rf"when \([+-]\d\d\) .*\n1 +{here:%Y-%m-%d} \d\d:\d\d ", said), said


def test_a_configuration_that_is_not_there_is_refused_beside_a_daemon_as_without_one(home: Home) -> None:
    workspace = home.workspace()
    nowhere = home.folder / "nowhere.yaml"
    asked = (("search", "x"), ("why", "x"), ("history",), ("status",), ("review",), ("open", "--print"), ("secrets",))
    with home.serving(DREAMD_TRIED="1"):
        until(lambda: home.dreamd("search", "x", "-w", workspace.root).status == 0)
        for words in asked:
            named = [*words, "-w", workspace.root]
            for ended in (
                home.dreamd(*named, f"--config={nowhere}"),
                home.dreamd(*named, "--config", nowhere),
                home.dreamd(*named, DREAMD_CONFIG=str(nowhere)),
            ):
                assert (ended.status, f"{nowhere}: no such file" in ended.err) == (2, True), (words, ended)
