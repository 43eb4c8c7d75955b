"""Gaps, skills and hormones: the pages show what the operations say, and say why there is nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from state.signals.curiosity import Cause
from state.signals.hormones import Feeling
from state.stores.database.connection import transaction
from tests.daemon.http.running import Running
from tests.daemon.pages.browser import Browser, text_of

NOW = datetime.now(UTC)
HOSTILE = "Why <script>alert(1)</script> and {{ 7 * 7 }}?"


@pytest.fixture
def root(served: Running, name: str) -> str:
    """The address of a workspace that asks, learns and feels."""
    with served.house.open(name, lambda _: None) as access, access.write() as store:
        store.questions.raise_("Which holds: Fridays, or never?", Cause.EXPLICIT, NOW - timedelta(days=1))
        for _ in range(3):
            store.questions.raise_("Who approves refunds?", Cause.MISS, NOW - timedelta(hours=1))
        store.questions.raise_(HOSTILE, Cause.QUESTION, NOW - timedelta(days=2))
        store.feelings.feel([Feeling.ERROR], "the <b>build</b> broke", NOW - timedelta(hours=2))
        store.feelings.feel([Feeling.REWARD], "it was right", NOW - timedelta(hours=30))
        with transaction(store.crystals.connection) as connection:
            connection.execute("INSERT INTO skills VALUES (0, 'rotate the <i>certificates</i>', .55, 7, 3)")
            connection.execute("INSERT INTO meta VALUES ('skills_found_at', '1')")
    return f"/w/{name}"


def test_the_questions_are_shown_sorted_and_filtered(browser: Browser, root: str) -> None:
    answer = browser.get(f"{root}/gaps")
    said = text_of(answer)
    assert said.index("Who approves") < said.index("Which holds") < said.index("Why <script>")
    assert "3 open questions" in said
    assert "<script>alert" not in answer.body.decode()
    assert [one["question"] for one in browser.get(f"{root}/gaps.json").json["gaps"]["gaps"]][2] == HOSTILE
    oldest = text_of(browser.get(f"{root}/gaps?order=ascending"))
    assert oldest.index("Which holds") < oldest.index("Who approves")
    assert "Who approves" not in text_of(browser.get(f"{root}/gaps?cause=explicit"))
    more = browser.get(f"{root}/gaps?limit=1&sort=times").body.decode()
    address = next(part.partition('"')[0] for part in more.split('href="') if "cursor=" in part)
    assert "Who approves" not in text_of(browser.get(address.replace("&amp;", "&")))


def test_the_skills_are_shown(browser: Browser, root: str) -> None:
    answer = browser.get(f"{root}/skills")
    assert "rotate the <i>certificates</i> 55 % 7 3" in text_of(answer)
    assert browser.get(f"{root}/skills.json").json["skills"]["total"] == 1


def test_the_levels_are_drawn_with_what_raised_them(browser: Browser, root: str) -> None:
    answer = browser.get(f"{root}/hormones")
    said, html = text_of(answer), answer.body.decode()
    assert "the <b>build</b> broke" in said
    assert "it was right" not in said
    assert "it was right" in text_of(browser.get(f"{root}/hormones?hours=72"))
    told = browser.get(f"{root}/hormones.json").json["hormones"]
    for name in ("dopamine", "cortisol", "oxytocin"):
        first, last = told["curve"][0][name], told["curve"][-1][name]
        assert f'aria-label="{name}: from {first:.2f} to {last:.2f}"' in html
        assert f"baseline {told['baselines'][name]:.2f}" in said
    assert html.count("<polyline") == 3
    assert browser.get(f"{root}/hormones?hours=5").status == 422


def test_an_empty_workspace_says_why(browser: Browser, name: str) -> None:
    for page, expected in (
        ("gaps", "No question is open"),
        ("skills", "Nobody has looked for skills yet"),
        ("hormones", "Nothing was felt in these hours"),
    ):
        assert expected in text_of(browser.get(f"/w/{name}/{page}"))
