"""The pages of what is set up: what is in force and who set it, the doctor, recipes; what an agent is given."""

import shutil
from pathlib import Path

import pytest

from daemon.config.settings import load
from daemon.pages.templates import environment
from daemon.pages.views.table import PAGES
from daemon.workspace.adoption import open_workspace
from daemon.workspace.status import Problem
from tests.daemon.http.running import Running
from tests.daemon.pages.browser import HTMX, Browser, text_of

MODEL = "http://me:hunter2hunter2@model.example/v1"


@pytest.fixture
def configured(served: Running, tmp_path: Path) -> Running:
    """The server, with a file and a variable that set something."""
    file = tmp_path / "<b>mine.yaml"
    file.write_text(f"model: {{api_base: '{MODEL}'}}\n")
    served.house.config = load(file, {"HOME": "/nonexistent", "DREAMD_DREAM__MODE": "propose"})
    return served


def test_settings_say_what_is_in_force_and_who_set_it_and_no_secret(
    configured: Running, browser: Browser, name: str
) -> None:
    page, replies = browser.get(f"/w/{name}/settings"), browser.get(f"/w/{name}/settings.json")
    for reply in ("configuration", "recipes"):
        assert replies.json[reply] == configured.ask("GET", f"/v1/workspaces/{name}/{reply}").json
    text = text_of(page)
    yours = text[text.index("What you have set") : text.index("Everything")]
    assert 'dream.mode "propose" "auto" DREAMD_DREAM__MODE auto: write; propose' in yours
    assert "<b>mine.yaml" in yours
    assert "limits.usd_per_day" not in yours
    assert "limits.usd_per_day 5.0 the same default" in text
    assert b"hunter2" not in page.body + replies.body
    for recipe in replies.json["recipes"]["recipes"]:
        assert recipe["what"] in text
        assert " ".join(recipe["text"].split()) in text


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_the_doctor_examines_and_leaves_no_row(
    served: Running, browser: Browser, name: str, headers: dict[str, str]
) -> None:
    assert "what was found" not in text_of(browser.get(f"/w/{name}/settings"))
    shutil.rmtree(open_workspace(served.house.roots[name]).checkpoints, ignore_errors=True)
    answer = browser.act(f"/w/{name}/settings/doctor", {}, headers)
    text = text_of(answer)
    assert answer.status == 200
    assert answer.body.startswith(b"<!doctype") is not bool(headers)
    assert "problem embeddings" in text or "warning embeddings" in text
    assert "ok config valid" in text
    assert text.index("warning") < text.index("ok config")
    assert "Examine again" in text
    assert served.ask("GET", f"/v1/workspaces/{name}/acts").json["acts"] == []


@pytest.mark.parametrize("deed", ["dream", "restore 7", "doctor"])
def test_what_mends_a_problem_is_an_act_of_a_page(deed: str) -> None:
    template = environment().from_string("{{ ui.problem({'root': '/w/a/', 'csrf': 'c'}, problem) }}")
    made = template.render(problem=Problem("it is broken", "mend it", deed))
    page, action = made.partition('action="/w/a/')[2].partition('"')[0].split("/")
    (found,) = (one for one in PAGES[page].actions if one.name == action)
    fields = {"version": 7} if deed.startswith("restore") else {}
    assert found.form.model_validate(fields).given == fields
    for field, value in fields.items():
        assert f'name="{field}" value="{value}"' in made


def test_what_an_agent_was_given_and_would_be_given_now(served: Running, browser: Browser, name: str) -> None:
    assert "Nothing was given yet." in text_of(browser.get(f"/w/{name}/now"))
    text = text_of(browser.get(f"/w/{name}/given"))
    assert "No agent was given anything yet." in text
    (served.house.roots[name] / "MEMORY.md").write_text("# Mine\n\n- <b>Ada</b> prefers tea\n")
    assert "- <b>Ada</b> prefers tea" in text_of(browser.get(f"/w/{name}/given"))
    assert browser.get(f"/w/{name}/given.json").json["bootstraps"]["receipts"] == []  # to look is no giving
    assert served.ask("GET", f"/v1/workspaces/{name}/bootstrap").status == 200
    (receipt,) = browser.get(f"/w/{name}/given.json").json["bootstraps"]["receipts"]
    for page in ("now", "given"):
        text = text_of(browser.get(f"/w/{name}/{page}"))
        assert "HTTP" in text
        assert f"{receipt['characters']}" in text
