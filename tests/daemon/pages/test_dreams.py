"""The pages of dreams: every run, all of one, its version restored and that undone; and what people did."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from daemon.dream.run import Mode, dream_now
from daemon.workspace.adoption import open_workspace
from daemon.workspace.stores import Store, utc_now
from graphs.ports import Answer
from state.codec import encode
from state.document.operations import Refusal
from state.dream import Reason
from state.scratch import Note
from state.stores.history.ledger import Call
from state.stores.history.steps import Finished
from tests.daemon.http.running import Running
from tests.daemon.pages.browser import HTMX, Browser, fields_of, text_of
from tests.support.forgettable import quick

NOTES = ("The staging server listens on port 8080", "Ada prefers tea over coffee", "We use SQLite for the ledger")
# No page is larger, whatever its dream was given and said.
MOST_BYTES = 60_000


@contextmanager
def opened(served: Running, name: str) -> Iterator[Store]:
    with quick(open_workspace(served.house.roots[name])) as store:
        yield store


def dreamt(served: Running, name: str, *notes: str) -> None:
    with opened(served, name) as store:
        for note in notes:
            store.notes.inbox.append(Note(note, utc_now(), 0.8))
        dream_now(store, Reason.MANUAL, Mode.AUTO)


def at(browser: Browser, name: str, page: str) -> dict[str, str]:
    """The headers that htmx sends from this page."""
    return {**HTMX, "HX-Current-URL": f"{browser.origin}/w/{name}/{page}"}


def document(served: Running, name: str) -> str:
    return (served.house.roots[name] / "MEMORY.md").read_text(encoding="utf-8")


def test_without_a_dream_the_page_says_why_and_what_makes_one(browser: Browser, name: str) -> None:
    text = text_of(browser.get(f"/w/{name}/dreams"))
    assert "No dream has run yet." in text
    assert "'dreamd note'" in text
    assert "A row for each thing that you do here" in text
    assert "No dream ended so: failed." in text_of(browser.get(f"/w/{name}/dreams?outcome=failed"))
    assert browser.get(f"/w/{name}/dream?version=1").status == 404
    assert browser.get(f"/w/{name}/dream").status == 400


def test_the_page_says_what_the_operations_say(served: Running, browser: Browser, name: str) -> None:
    dreamt(served, name, *NOTES)
    page, replies = browser.get(f"/w/{name}/dreams"), browser.get(f"/w/{name}/dreams.json").json
    assert replies["dreams"] == served.ask("GET", f"/v1/workspaces/{name}/dreams?limit=40").json
    assert replies["acts"] == served.ask("GET", f"/v1/workspaces/{name}/acts?limit=15").json
    (run,) = replies["dreams"]["dreams"]
    for said in ("committed version 1", f"{run['added']} added", "manual", "extractive"):
        assert said in text_of(page)
    one = browser.get(f"/w/{name}/dream.json?dream={run['id']}").json
    assert one["dream_details"] == served.ask("GET", f"/v1/workspaces/{name}/dreams/one?version=1").json
    shown = text_of(browser.get(f"/w/{name}/dream?version=1"))
    for step in one["dream_details"]["steps"]:
        assert f"{step['node']} {step['figures']}" in shown
    for operation in one["dream_details"]["operations"]:
        assert operation["new"] in shown
    assert "agent" in shown
    assert "+- The staging server" in shown
    assert "No model was asked." in shown


def test_every_run_stands_on_one_of_the_pages_and_a_filter_shows_its_outcome(
    served: Running, browser: Browser, name: str
) -> None:
    now = utc_now()
    with opened(served, name) as store:
        for number in range(90):
            store.ledger.skip(
                f"skipped-{number:02}", "interval", f"{number} new", now - timedelta(minutes=number + 1)
            )
        store.ledger.begin("failed-01", "interval", now)
        store.ledger.end("failed-01", "failed", "the model did not answer", now)
    found, address = list[str](), f"/w/{name}/dreams"
    while address:
        page = browser.get(address)
        assert len(page.body) < MOST_BYTES
        found += re.findall(r'dream\?dream=([a-z]+-\d\d)"', page.body.decode())
        more = re.search(r'href="([^"]*cursor=[^"]*)"', page.body.decode())
        address = more[1].replace("&amp;", "&") if more else ""
    assert found == ["failed-01", *(f"skipped-{number:02}" for number in range(90))]
    text = text_of(browser.get(f"/w/{name}/dreams?outcome=failed"))
    assert "the model did not answer" in text
    assert "new" not in text.partition("What was done")[0].partition("took")[2]


def test_a_dream_is_asked_for_and_leaves_its_row(served: Running, browser: Browser, name: str) -> None:
    for number, headers in enumerate(({}, HTMX), 1):
        with opened(served, name) as store:
            store.notes.inbox.append(Note(NOTES[number], utc_now(), 0.8))
        answer = browser.act(f"/w/{name}/dreams/dream", {}, headers)
        assert answer.status == (200 if headers else 303)
        assert NOTES[number] in document(served, name)
    assert "It dreamt: MEMORY.md is at version 2." in text_of(answer)
    acts = browser.get(f"/w/{name}/dreams.json").json["acts"]["acts"]
    assert [(one["act"], one["outcome"], one["version"]) for one in acts] == [
        ("dreams: dream", "done", 2),
        ("dreams: dream", "done", 1),
    ]
    refused = browser.act(f"/w/{name}/dreams/dream", {}, HTMX)
    assert "there is nothing new since the last dream" in text_of(refused)
    assert "NOTHING_TO_DO" in text_of(browser.get(f"/w/{name}/dreams"))


def test_a_version_is_restored_where_one_is_and_that_is_undone(served: Running, browser: Browser, name: str) -> None:
    dreamt(served, name, NOTES[0])
    dreamt(served, name, NOTES[1])
    path = f"/w/{name}/dreams/restore"
    page = browser.get(f"/w/{name}/dream?version=2")
    # The version that stands is not restored.
    assert [one["version"] for one in fields_of(page, path)] == ["1"]
    answer = browser.act(path, {"version": 1}, at(browser, name, "dream?version=2"))
    assert "<h1>Dream of" in answer.body.decode()
    assert "as it was in version 1, and that is version 3 now" in text_of(answer)
    assert NOTES[1] not in document(served, name)
    assert [one["version"] for one in fields_of(answer, path)] == ["1", "2"]
    [undo] = fields_of(answer, f"/w/{name}/dreams/undo")
    undone = browser.act(f"/w/{name}/dreams/undo", undo, HTMX)
    assert "<h1>Dreams</h1>" in undone.body.decode()
    assert NOTES[1] in document(served, name)
    runs = browser.get(f"/w/{name}/dreams.json").json
    assert [one["version"] for one in runs["dreams"]["dreams"]] == [4, 3, 2, 1]
    assert [(one["about"], one["version"]) for one in runs["acts"]["acts"]] == [("version 2", 4), ("version 1", 3)]
    restored = text_of(browser.get(f"/w/{name}/dream?version=3"))
    assert "restore of version 1" in restored
    assert "No operation is known of it." in restored
    assert browser.act(path, {"version": 99}, HTMX).status == 404


@pytest.mark.parametrize(
    "seen", ["dream?version=99", "dream?version=x", "nothing", "../x", "dream?dream=%ff", "review", "", "//[::1", "ä"]
)
def test_an_act_shows_a_page_wherever_the_browser_says_that_it_is(
    served: Running, browser: Browser, name: str, seen: str
) -> None:
    dreamt(served, name, NOTES[0])
    headers = {**at(browser, name, seen), **({"HX-Current-URL": seen} if seen.startswith("//") else {})}
    sent = {key: value.encode().decode("latin-1") for key, value in headers.items()}
    answer = browser.act(f"/w/{name}/dreams/restore", {"version": 1}, sent)
    assert answer.status == 200
    assert ("<h1>Review</h1>" if seen == "review" else "<h1>Dreams</h1>") in answer.body.decode()


@pytest.mark.full
def test_a_dream_with_long_texts_is_a_short_page_and_all_of_it_can_be_seen(
    served: Running, browser: Browser, name: str
) -> None:
    dreamt(served, name, *(f"House {number} has the colour {'xyz ' * 40}{number}" for number in range(40)))
    prompt = 'A <long> & "quoted" prompt. ' * 4_000
    with opened(served, name) as store:
        (run,) = store.ledger.runs(1)
        for number in range(8):
            answer = Answer(prompt, "openai/scripted", 1, 1, 0.0, "stop", 1.0, estimated=False)
            sent = [{"role": role, "content": prompt} for role in ("system", "user")]
            call = Call(f"{number}", "openai/scripted", encode(answer), True, 70, 0.01, json.dumps(sent))  # noqa: FBT003
            store.ledger.record_call(run.id, call, utc_now())
        steps = [Finished("synthesize", utc_now(), 1.0, f"step {number}. {'long ' * 200}") for number in range(60)]
        store.steps.add(run.id, steps)
        refusals = [Refusal("evidence", "operation", f"refusal {number}. {'long ' * 200}") for number in range(60)]
        store.ledger.reject(run.id, refusals, utc_now())
    page = browser.get(f"/w/{name}/dream?version=1")
    assert len(page.body) < MOST_BYTES
    assert "more characters" in text_of(page)
    assert page.body.count(b"<details") == 5
    whole = browser.get(f"/w/{name}/dream?whole=true&version=1")
    assert whole.body.count(b"<details") == 8
    assert "step 59." in text_of(whole)
    replies = browser.get(f"/w/{name}/dream.json?version=1").json
    assert replies["dream_details"]["calls"][7]["request"][1]["content"] == prompt


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("failed", "Nothing: MEMORY.md stands as it was."),
        ("rejected", "Nothing: MEMORY.md stands as it was."),
        ("running", "Nothing yet."),
        ("skipped", "It was skipped before its first step."),
    ],
)
def test_a_dream_that_made_nothing_shows_what_there_is_and_why(
    served: Running, browser: Browser, name: str, outcome: str, said: str
) -> None:
    with opened(served, name) as store:
        if outcome == "skipped":
            store.ledger.skip("d-1", "interval", "<b>the reason</b>", utc_now())
        else:
            store.ledger.begin("d-1", "interval", utc_now())
            store.steps.add("d-1", [Finished("gather", utc_now(), 1.5, "3 notes")])
            store.ledger.reject("d-1", [Refusal("loss", "dream", "30 of 40 lines")], utc_now())
        if outcome in {"failed", "rejected"}:
            store.ledger.end("d-1", outcome, "<b>the reason</b>", utc_now())
    page = browser.get(f"/w/{name}/dream?dream=d-1")
    text = text_of(page)
    assert said in text
    assert ("<b>the reason</b>" in text) is (outcome != "running")
    assert ("gather 3 notes 1.5 s" in text) is (outcome != "skipped")
    assert ("30 of 40 lines" in text) is (outcome != "skipped")
    assert f"/w/{name}/dreams/restore" not in page.body.decode()


def test_a_problem_has_the_button_that_mends_it(served: Running, browser: Browser, name: str) -> None:
    dreamt(served, name, NOTES[0])
    root = served.house.roots[name]
    before = document(served, name)
    (root / "MEMORY.md").unlink()
    (mending,) = fields_of(browser.get(f"/w/{name}/now"), f"/w/{name}/dreams/restore")
    answer = browser.act(f"/w/{name}/dreams/restore", mending, at(browser, name, "now"))
    assert "<h1>Now</h1>" in answer.body.decode()
    assert document(served, name) == before
