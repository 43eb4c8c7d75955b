"""The settings in a real browser before a real daemon: the model, the budget, what asks."""

import json

import pytest
from playwright.sync_api import Page

from state.stores.disk.workspace import Workspace
from tests.journeys.test_window import went_to, window
from tests.support.browser import axe
from tests.support.scripted_model import Reply, ScriptedModel, in_turn
from tests.support.serving import Home


def in_force(home: Home, workspace: Workspace, key: str) -> object:
    """The value by which the daemon goes."""
    shown = home.dreamd("config", key, "-w", workspace.root, "--json")
    return json.loads(shown.json["entries"][0]["value"])


def said(page: Page, text: str) -> None:
    page.locator("#said", has_text=text).wait_for()


def saved(page: Page, label: str, line: str) -> None:
    page.get_by_role("button", name=f"Save {label}").click()
    said(page, f"“{line}”. It counts from now on.")


@pytest.mark.full
def test_the_model_the_budget_and_what_asks_are_changed_in_two_clicks_each(home: Home) -> None:
    workspace = home.workspace()
    home.with_port()
    with ScriptedModel(in_turn(Reply("I am scripted and ready.", usage=(58, 9)))) as model:
        home.asks(model)
        home.config.write_text(f"# of mine\n{home.config.read_text()}")
        with home.serving(), window(home, workspace) as seen:
            page = seen.page
            went_to(page, "Settings")  # the first click, and each of what follows is the second one
            assert axe(seen) == []
            page.get_by_label("Changes that need your yes", exact=True).select_option("all")
            saved(page, "Changes that need your yes", "ask: all")
            assert in_force(home, workspace, "dream.ask") == "all"
            page.get_by_label("Dollars a day, for this memory", exact=True).fill("2")
            saved(page, "Dollars a day, for this memory", "usd_per_day: 2")
            assert in_force(home, workspace, "limits.usd_per_day") == 2
            page.get_by_label("The model", exact=True).fill("openai/gpt-4o")
            page.get_by_role("button", name="Try it").click()
            page.get_by_text("“I am scripted and ready.”").wait_for()
            assert in_force(home, workspace, "model.name") == "openai/gpt-4o-mini"
            saved(page, "the model", "name: openai/gpt-4o")
            assert in_force(home, workspace, "model.name") == "openai/gpt-4o"
            assert "# of mine" in home.config.read_text()
            page.get_by_role("button", name="Undo").click()
            said(page, "is “name: openai/gpt-4o-mini”")
            assert in_force(home, workspace, "model.name") == "openai/gpt-4o-mini"
            assert model.count == 1
