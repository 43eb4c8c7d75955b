"""`dreamd open`: a link that logs in once, at the workspace that is meant; without a daemon it says what to do."""

import json
from urllib.parse import urlsplit

from tests.support.serving import Home, over_tcp, until

NO_SCREEN = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}


def visited(url: str) -> tuple[int, str, str]:
    """Status, where it leads, and the cookie."""
    parts = urlsplit(url)
    status, _, headers = over_tcp(int(parts.port or 0), parts.path, Accept="text/html")
    return status, headers.get("Location", ""), headers.get("Set-Cookie", "")


def shown(url: str, path: str, cookie: str) -> str:
    port = int(urlsplit(url).port or 0)
    status, page, _ = over_tcp(port, path, Cookie=cookie.partition(";")[0], Accept="text/html")
    assert status == 200
    return page


def test_it_opens_the_workspace_that_is_meant_and_the_daemon_keeps_it_from_then_on(home: Home) -> None:
    known, new, port = home.workspace(), home.workspace("new", kept=False), home.with_port()
    with home.serving() as daemon:
        for workspace in (known, new):
            ended = home.dreamd("open", workspace.root, "--print", **NO_SCREEN)
            assert (ended.status, ended.err) == (0, "it works once, and for a minute\n")
            url = ended.out.strip()
            assert url.startswith(f"http://127.0.0.1:{port}/login/")
            status, where, cookie = visited(url)
            assert (status, where) == (303, f"/w/{workspace.name}/today")
            assert visited(url)[0] == 410
            assert str(workspace.root) in shown(url, where, cookie)
        assert daemon.kept(new)["problem"] is None
        again = json.loads(home.dreamd("open", "--json", **NO_SCREEN).out)["url"]  # outside of any workspace
        assert visited(again)[1] == "/"
        assert url.rpartition("/")[2] not in daemon.log


def test_the_browser_of_the_person_is_started_with_the_link(home: Home) -> None:
    workspace, seen = home.workspace(), home.folder / "seen"
    browser = home.folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    browser.chmod(0o700)
    home.with_port()
    with home.serving():
        ended = home.dreamd("open", workspace.root, BROWSER=f"{browser} %s")
        assert ended.err == "opened in your browser\n"
        assert ended.out == ""  # the link stands nowhere but in the browser
        until(seen.exists)
        assert visited(seen.read_text().strip())[0] == 303


def test_without_a_daemon_or_a_port_it_says_what_to_do(home: Home) -> None:
    workspace = home.workspace()
    ended = home.dreamd("open", workspace.root)
    assert ended.status == 5
    for word in ("no daemon runs", "install-service", "dreamd serve"):
        assert word in ended.err
    home.configure(http={"port": 0})
    with home.serving():
        ended = home.dreamd("open", workspace.root)
        assert (ended.status, "http.port" in ended.err) == (1, True)
