"""The page of settings: what is set is the line that it says, and nobody but a person at a page sets anything."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from daemon.config.settings import load
from daemon.mcp.tools import TOOLSETS
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import Answer
from tests.daemon.pages.browser import HTMX, Browser, text_of, windowed
from tests.daemon.pages.conftest import WAYS, Asking, undone
from tests.support.running import Caller
from tests.support.scripted_model import Reply, ScriptedModel, error, in_turn

KEY = "sk-ant-api03-abcdefghijklmnop"
HOSTILE = "<b>ready</b> {{ 7 * 7 }} \u202eanswer"
MINE = """\
# mine
model:
  name: openai/gpt-4o-mini
  api_base: https://ada:hunter2@models.test/v1
dream:
  ask: own  # so
"""


class SettingsHouse(OwnHouse):
    """A house that reads its configuration again, as a daemon does."""

    __slots__ = ()

    def reload(self) -> None:
        self.config = load(None)


@dataclass(frozen=True, slots=True)
class Owner:
    """A person at the settings of a workspace; `file` is the configuration."""

    browser: Browser
    name: str
    file: Path

    @property
    def page(self) -> Answer:
        return self.browser.get(f"/w/{self.name}/settings")

    def act(self, act: str, headers: dict[str, str] | None = None, **fields: str) -> Answer:
        """Send a form; without a script the browser is sent to the page."""
        done = self.browser.act(f"/w/{self.name}/settings/{act}", fields, headers or {})
        return self.browser.get(done.headers["Location"]) if done.status == 303 else done

    def undone(self, answer: Answer) -> Answer:
        return undone(self.browser, Asking(self.browser.server, self.name), answer)


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Owner]:
    """A person whose home is empty but for a configuration, with one agent that only needs files, and no program."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / ".cursor").mkdir()
    file = tmp_path / "config/dreamd/config.yaml"
    file.parent.mkdir(parents=True, mode=0o700)
    file.write_text(MINE)
    house = SettingsHouse(config=load(None))
    with windowed(tmp_path / "logins", house) as browser:
        monkeypatch.setenv("DREAMD_SOCKET", str(browser.server.path))
        yield Owner(browser, house.make(tmp_path / "memory"), file)


def shown(answer: Answer, key: str) -> str:
    """What the page has in the control of this key."""
    html = answer.body.decode()
    control = re.search(rf'<input id="{re.escape(key)}"[^>]*>|<select id="{re.escape(key)}".*?</select>', html)
    assert control is not None, text_of(answer)
    found = re.search(r'<option value="([^"]*)" selected|<input[^>]* value="([^"]*)"', control[0])
    return next((one for one in found.groups() if one is not None), "") if found else ""


@WAYS
@pytest.mark.parametrize(
    ("key", "value", "line", "words"),
    [
        ("dream.ask", "all", "ask: all", "line 6 is “ask: all”. It counts from now on"),
        ("limits.usd_per_day", "2.5", "usd_per_day: 2.5", "line 8 is “usd_per_day: 2.5”. It counts from now on"),
        ("timezone", "Asia/Kolkata", "timezone: Asia/Kolkata", "line 7 is “timezone: Asia/Kolkata”"),
        ("embeddings.model", "english", "model: english", "It counts from the daemon's next start on: '"),
    ],
)
def test_a_setting_is_the_line_that_is_said_and_undo_brings_the_file_back(
    owner: Owner, headers: dict[str, str], key: str, value: str, line: str, words: str
) -> None:
    done = owner.act("set", headers, key=key, value=value)
    assert words in text_of(done), text_of(done)
    rows = [row.strip().partition("  #")[0] for row in owner.file.read_text().splitlines()]
    assert line in rows
    assert shown(owner.page, key) == value
    assert Asking(owner.browser.server, owner.name).ledger[0] == ("settings: set", key, "done")
    back = owner.undone(done)
    assert "Saved in" in text_of(back), text_of(back)
    assert owner.file.read_text() == MINE


def test_an_empty_field_is_the_default_again_and_twice_is_no_error(owner: Owner) -> None:
    owner.act("set", key="limits.usd_per_day", value="2")
    assert "so the default counts" in text_of(owner.act("set", key="limits.usd_per_day", value=""))
    assert (owner.file.read_text(), shown(owner.page, "limits.usd_per_day")) == (MINE, "5")
    assert "is the default already" in text_of(owner.act("set", key="limits.usd_per_day", value=""))


def test_undo_takes_back_no_later_choice(owner: Owner) -> None:
    done = owner.act("set", key="dream.ask", value="all")
    owner.file.write_text(MINE)
    owner.act("set", key="dream.heard", value="ask")  # the daemon reads both
    refused = owner.undone(done)
    assert (refused.status, "was set anew since then" in text_of(refused)) == (409, True)


@WAYS
@pytest.mark.parametrize(
    ("key", "value", "status", "words"),
    [
        ("dream.ask", "perhaps", 400, "'own' or 'all'; "),
        ("model.name", "command:id", 403, "at a terminal"),
        ("dream.ask", "own\nsecrets: {redact: false}", 403, "at a terminal"),
        ("dream.ask", HOSTILE, 400, "dream.ask is"),
        ("dream.ask", "a" * 101, 422, ""),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    owner: Owner, headers: dict[str, str], key: str, value: str, status: int, words: str
) -> None:
    refused = owner.act("set", headers, key=key, value=value)
    assert (refused.status, words in text_of(refused)) == (status, True), text_of(refused)
    assert b"<b>ready" not in refused.body
    assert owner.file.read_text() == MINE


def test_no_operation_that_sets_is_for_programs_or_agents(owner: Owner) -> None:
    for operation in ("set_setting", "try_model", "connect_agent", "check_agent", "connections", "model_choices"):
        path = f"/v1/workspaces/{owner.name}/{operation}"
        fields = {"key": "dream.ask", "value": "all"} if operation == "set_setting" else {}
        assert owner.browser.server.ask("POST", path, fields).status == 403
        assert operation not in {tool.name for tools in TOOLSETS.values() for tool in tools}


def test_what_is_set_elsewhere_is_shown_with_who_sets_it(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_DREAM__ASK", "all")
    owner.file.write_text(MINE.replace("openai/gpt-4o-mini", f"command:ask {KEY} <b>ready</b> {{{{ 7 * 7 }}}}"))
    owner.browser.server.house.reload()
    said = text_of(owner.page)
    assert "DREAMD_DREAM__ASK in the daemon's environment sets it, and comes before the file" in said
    assert "a program, a folder or an address is set at a terminal alone" in said
    assert b'id="dream.ask"' not in owner.page.body
    assert b'id="model.name"' not in owner.page.body
    assert "<b>ready</b> {{ 7 * 7 }}" in said
    assert [one for one in ("hunter2", KEY, "<b>ready") if one in owner.page.body.decode()] == []
    assert owner.act("set", key="dream.ask", value="own").status == 403
    assert owner.act("set", key="model.name", value="codex").status == 403


def test_the_terminal_and_the_page_set_the_same_file(owner: Owner, dreamd: Caller) -> None:
    set_ = dreamd("config", "set", "embeddings.model", "english")
    assert "a running daemon takes it up at its next start" in set_.err
    assert shown(owner.page, "embeddings.model") == "english"
    assert "takes it up" not in dreamd("config", "set", "dream.heard", "ask").err
    owner.act("set", key="dream.heard", value=" leave ")
    assert dreamd("config", "dream.heard", "-w", owner.browser.server.house.roots[owner.name]).out.startswith(
        'dream.heard                    "leave"\n'
    )


def test_where_the_file_cannot_be_written_the_command_is_said(owner: Owner) -> None:
    owner.file.unlink()
    owner.file.parent.rmdir()
    owner.file.parent.write_text("a file")
    owner.browser.server.house.reload()
    refused = owner.act("set", key="dream.ask", value="all")
    assert "run: dreamd config set dream.ask all" in text_of(refused), text_of(refused)


@pytest.mark.full
def test_a_model_is_tried_before_it_is_chosen(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-abcDEF0123456789")
    with ScriptedModel(in_turn(Reply(HOSTILE, usage=(4_000, 80)), error(401))) as server:
        owner.file.write_text(MINE.replace("https://ada:hunter2@models.test/v1", server.url))
        owner.browser.server.house.reload()
        before = owner.file.read_text()
        good, bad = (owner.act("model", HTMX, value="openai/gpt-4o", deed="try") for _ in range(2))
        assert server.count == 2
    assert "openai/gpt-4o answered." in text_of(good)
    assert re.search(
        r"“<b>ready</b> \{\{ 7 \* 7 \}\} .{1,12}answer” openai/gpt-4o, [\d.]+ m?s, 4,080 tokens, \$0\.0",
        text_of(good),
    )
    assert "its key is there" in text_of(good)
    assert b"<b>ready" not in good.body
    assert shown(good, "model.name") == shown(bad, "model.name") == "openai/gpt-4o"  # it is still to be saved
    assert "does not accept the key (401)" in text_of(bad)
    assert "check the provider's key in dreamd's environment" in text_of(bad)
    assert owner.file.read_text() == before
    saved = owner.act("model", HTMX, value="openai/gpt-4o", deed="save")
    assert "line 3 is “name: openai/gpt-4o”" in text_of(saved)
    assert shown(owner.page, "model.name") == "openai/gpt-4o"
    owner.undone(saved)
    assert owner.file.read_text() == before


def test_an_agent_is_connected_as_the_page_said_and_taken_out_again(owner: Owner, tmp_path: Path) -> None:
    settings = tmp_path / ".cursor/mcp.json"
    settings.write_text('{"mcpServers": {"mine": {"command": "x"}}}')
    hooks = f'{{"hooks": {{"sessionStart": [{{"command": "greet {KEY}"}}]}}}}'
    (tmp_path / ".cursor/hooks.json").write_text(hooks)
    before, page = settings.read_bytes(), text_of(owner.page)
    assert "greet [redacted" in page
    assert KEY not in page
    assert f"{settings}: mcpServers.dreamd" in page
    assert "Not found here: Claude Code, Codex, Gemini CLI" in page
    done = owner.act("connect", HTMX, name="cursor")
    assert "Cursor is connected: its next session begins with what is remembered." in text_of(done)
    assert "enable the server once in its settings, under MCP" in text_of(done)
    assert b'"dreamd"' in settings.read_bytes()
    assert "Cursor is not connected any more" in text_of(owner.undone(done))
    assert (settings.read_bytes(), (tmp_path / ".cursor/hooks.json").read_text()) == (before, hooks)
    assert owner.act("connect", HTMX, name="no-such").status == 400


def test_everything_is_examined_at_a_press_which_leaves_no_row(owner: Owner) -> None:
    answer = owner.act("doctor", HTMX)
    found = text_of(answer)
    assert (answer.status, b"<!doctype" in answer.body) == (200, False)
    assert re.search(r"Nothing is wrong\.|\d+ things? to look at\.", found)
    assert "ok config: " in found
    assert re.search("(warning|problem) embeddings: ", found)
    assert Asking(owner.browser.server, owner.name).ledger == []
