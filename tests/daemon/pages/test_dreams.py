"""The pages of dreams: one picture, a sentence a dream, and one of them with its changes in order of weight."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.operations.dreams import dream_status
from daemon.api.operations.memory import ChangeOfLine, change_lines
from daemon.api.operations.notes import working_memory_note
from daemon.ingest.notes import absorb_notes
from daemon.journal.life import Life, headline
from daemon.pages.picture import HEIGHT, picture_of
from daemon.workspace.stores import utc_now
from graphs.review import LineAction
from state.document.operations import Action, Operation, Refusal
from state.document.sections import SectionName
from state.scratch import Note
from state.stores.history.ledger import Finished, Span
from tests.daemon.http.running import Answer, Running
from tests.daemon.pages.browser import Browser, fields_of, text_of
from tests.daemon.pages.conftest import Asking, act, at, undone
from tests.daemon.pages.lives import ASKING, HOSTILE, NOW, TEA, changed_by_a_model
from tests.support.long_life import grown
from tests.support.working import working

SHORT = "Ada likes short answers of one line"
DAYS = 60
# Words of the program, which no person has to know.
OURS = re.compile(
    r"\b(?:committed|rejected|guard\w*|capacity_exceeded|cosine|crystal id|[0-9a-f]{12,}|\d{8}T\d{6}\w*)\b"
)


@pytest.fixture(scope="module")
def lived(served: Running, tmp_path_factory: pytest.TempPathFactory) -> Asking:
    """A memory that has lived for two months."""
    root = tmp_path_factory.mktemp("lived") / "memory"
    with working(root) as store:
        grown(store, utc_now(), DAYS)
    return Asking(served, served.house.register(root))


def page(browser: Browser, ask: Asking, path: str) -> Answer:
    answer = browser.get(f"/w/{ask.name}/{path}")
    assert answer.status == 200, text_of(answer)
    return answer


def main_of(answer: Answer) -> str:
    """What stands on the page itself, without what is folded."""
    html = answer.body.decode().partition('<main id="main"')[2].partition("</main>")[0].partition(">")[2]
    html = html.partition('<details class="how"')[0]
    return re.sub(r"<details.*?</details>", "", html, flags=re.DOTALL)


# ------------------------------------------------------------------------------------------------ the picture


def test_the_picture_has_what_the_figures_have_and_each_day_leads_somewhere(browser: Browser, lived: Asking) -> None:
    answer = page(browser, lived, "dreams?days=30")
    life = page(browser, lived, "dreams.json?days=30").json["life"]
    html = answer.body.decode()
    (plot,) = re.findall(r'<svg class="plot".*?</svg></div>', html, re.DOTALL)
    drawn = ET.fromstring(plot.removesuffix("</div>"))  # noqa: S314 - it is ours
    for kind, names in {"learnt": ["learnt"], "changed": ["changed"], "left": ["put_away", "closed"]}.items():
        bars = [one for one in drawn.iter("rect") if one.get("class") == kind]
        assert len(bars) == sum(any(span[name] for name in names) for span in life["spans"])
    links = [(one.get("href", ""), one.get("aria-label", "")) for one in drawn.iter("a")]
    assert len(links) == len(life["spans"]) > 10
    for address, said in links[-8:]:
        assert re.search(r": .+; \d+ lines?$", said)
        leads = browser.get(address)
        assert leads.status == 200
        assert "<h1" in leads.body.decode()
    for address, _ in links:  # the table has each too
        assert html.count(f'href="{address.replace("&", "&amp;")}"') >= 2
    assert 'role="img"' in plot
    assert text_of(answer).count("30 days: from ") >= 1


COUNTS = st.integers(0, 40)
SPANS = st.builds(
    Span,
    at=st.just(NOW),
    lines=st.dictionaries(st.sampled_from([one.value for one in SectionName]), st.integers(0, 3_000), max_size=7),
    learnt=COUNTS,
    changed=COUNTS,
    put_away=COUNTS,
    closed=COUNTS,
    usd=st.floats(0, 60),
    failed=COUNTS,
    yours=COUNTS,
    runs=st.integers(1, 9),
    dream=st.sampled_from(["", "d"]),
)


@st.composite
def lives(draw: st.DrawFn) -> Life:
    hours, count = draw(st.sampled_from((1, 24, 168))), draw(st.integers(1, 160))
    start = datetime(2026, 3, 1, tzinfo=UTC)
    places = sorted(draw(st.sets(st.integers(0, count - 1), max_size=12)))
    spans = [draw(SPANS) for _ in places]
    step = timedelta(hours=hours)
    moved = tuple(replace(one, at=start + step * at) for one, at in zip(spans, places, strict=True))
    before = draw(st.dictionaries(st.sampled_from([one.value for one in SectionName]), COUNTS, max_size=7))
    stop = start + step * count - timedelta(hours=draw(st.integers(0, max(0, hours - 24))))  # a week may not be over
    return Life(count, hours, start, stop, before, moved, 9, 0, 0.5, 5.0)


@given(lives())
def test_whatever_happened_is_drawn_within_the_picture(life: Life) -> None:
    drawn = picture_of(life, NOW)
    tops = {0: 0}
    for band in drawn.bands:
        numbers = [int(one) for one in re.findall(r"-?\d+", band.path)]
        across = [int(one) for one in re.findall(r"[HM](-?\d+)", band.path)]
        up = [-int(one) for one in re.findall(r"[V,](-?\d+)", band.path)]
        assert len(numbers) == len(across) + len(up)
        assert 0 <= min(across) <= max(across) <= drawn.spans
        assert 0 <= min(up) <= max(up) <= drawn.most
        tops[0] = max(up)
    assert tops[0] == max(sum(life.before.values()), *(one.total for one in life.spans), 0)
    for bar in (one for one in drawn.shapes if one.height):
        assert 0 <= bar.y <= bar.y + bar.height <= HEIGHT
        assert 0 <= float(bar.x.rstrip("%")) <= 100 - float(bar.width.rstrip("%")) + 0.01
    assert len(drawn.rows) == len(life.spans)
    assert drawn.ticks[0].kind == "0"
    assert 2 <= len(drawn.ticks) <= 6
    assert 1 <= len(drawn.days) <= 6
    assert headline(life)


# ------------------------------------------------------------------------------------------------ the list


def test_each_dream_is_a_sentence_in_words_of_people(browser: Browser, lived: Asking) -> None:
    answer = page(browser, lived, "dreams")
    shown = re.sub(r"<[^>]+>", " ", main_of(answer))
    assert not OURS.findall(shown)
    for said in (
        "Learnt ",
        "changed ",
        "Failed: the model's server answered 500 four times.",
        "You:",
        " notes · $0.",
    ):
        assert said in text_of(answer)
    now = datetime.now(UTC)
    assert f"{now:%a} {now.day} {now:%b}, " in text_of(answer)


@pytest.mark.parametrize(
    ("kind", "said", "not_said"),
    [
        ("dream", "Learnt", "Failed:"),
        ("failed", "Failed:", "Learnt"),
        ("owner", "You:", "Learnt"),
        ("nothing", "", "You:"),
    ],
)
def test_what_is_listed_can_be_chosen_in_words(
    browser: Browser, lived: Asking, kind: str, said: str, not_said: str
) -> None:
    text = text_of(page(browser, lived, f"dreams?kind={kind}"))
    assert said in text
    assert not_said not in text


def test_a_day_lists_what_happened_on_it_alone(browser: Browser, lived: Asking) -> None:
    (saved, *_) = page(browser, lived, "dreams.json?kind=owner").json["dreams"]["dreams"]
    day = saved["run"]["started_at"][:10]
    found = page(browser, lived, f"dreams.json?day={day}").json["dreams"]["dreams"]
    assert {one["run"]["started_at"][:10] for one in found} == {day}
    assert "from " in text_of(page(browser, lived, f"dreams?day={day}&last={day}"))


def test_looks_that_led_to_no_dream_and_acts_of_a_day_are_folded(browser: Browser, name: str, ask: Asking) -> None:
    ask(working_memory_note, TEA)
    act(browser, ask, "dreams/dream")
    (line,) = (one["id"] for section in lines_of(browser, ask) for one in section["lines"] if one["text"] == TEA)
    for text in (f"{TEA} and milk", f"{TEA} and honey"):
        expected = TEA if text.endswith("milk") else f"{TEA} and milk"
        ask(change_lines, changes=(ChangeOfLine(action=LineAction.EDIT, line=line, expected=expected, text=text),))
        line = f"L{int(line[1:]) + 1}"
    with ask.served.house.open(name, lambda _: None) as access, access.write() as store:
        for number in range(5):
            store.ledger.skip(f"skipped-{number}", "interval", f"{number} new, 9 wanted", utc_now())
    answer = page(browser, ask, "dreams")
    assert "You: edited 2" in text_of(answer)
    assert "Looked 5 times: too little was new." in text_of(answer)
    assert main_of(answer).count('data-item="dream"') == 3
    assert "Today: from no lines to " in text_of(answer)


def lines_of(browser: Browser, ask: Asking) -> list[dict[str, list[dict[str, str]]]]:
    sections: list[dict[str, list[dict[str, str]]]] = browser.get(f"/w/{ask.name}/memory.json").json["lines"][
        "sections"
    ]
    return sections


# ------------------------------------------------------------------------------------------------ one dream


@pytest.fixture(scope="module")
def changed(served: Running, tmp_path_factory: pytest.TempPathFactory) -> Asking:
    """A workspace after two dreams, the second of which asks about two lines of the first."""
    root = changed_by_a_model(tmp_path_factory.mktemp("full") / "memory", ASKING)
    return Asking(served, served.house.register(root))


def test_a_dream_begins_with_what_it_did_and_folds_how_it_went(browser: Browser, changed: Asking) -> None:
    answer = page(browser, changed, "dream?version=1")
    html = answer.body.decode()
    assert re.search(r'<h1 class="dream"[^>]*>Learnt 2\.', html)
    order = [html.index(one) for one in ("<h1", TEA, SHORT, '<details class="how"', "gathered", f"+- {TEA}")]
    assert order == sorted(order)
    assert not OURS.findall(re.sub(r"<[^>]+>", " ", main_of(answer)))
    for leads in ("why", "wrong", "undo"):
        assert leads in text_of(answer)
    assert f'href="/w/{changed.name}/wrong?line=L1"' in html
    asked = text_of(page(browser, changed, "dream?version=2"))
    assert "It asks you about 2." in asked
    assert "2 changes wait for you" in asked


def test_changes_stand_in_order_of_weight(browser: Browser, lived: Asking) -> None:
    runs = page(browser, lived, "dreams.json?kind=dream").json["dreams"]["dreams"]
    most = next(one["version"] for one in runs if one["version"]["evicted"] and one["version"]["revised"])
    html = page(browser, lived, f"dream?version={most['number']}").body.decode()
    kinds = re.findall(r'<li class="change (\w+)"', html)
    assert kinds == sorted(kinds, key=["left", "changed", "added", "same"].index)
    assert {"left", "changed", "added"} <= set(kinds)
    assert "put away; a search for “words L" in html
    assert re.search(r"<del><span class=\"sr\">\[removed: </span>\d+:\d\d", html)  # a time is one word


@pytest.mark.parametrize(
    ("outcome", "said", "empty"),
    [
        ("failed", "Failed: the model could not be asked. Its 3 notes wait.", "Nothing: MEMORY.md is as it was."),
        ("rejected", "Failed: the model's answer could not be read. Its 3 notes wait.", "Nothing: MEMORY.md is"),
        ("running", "It is dreaming, or was interrupted", "Nothing yet."),
        ("skipped", "1 of 5 that a dream wants.", "It ended before its first step."),
    ],
)
def test_a_dream_that_made_nothing_shows_why(
    browser: Browser, name: str, ask: Asking, outcome: str, said: str, empty: str
) -> None:
    hostile = "<b>the reason</b>"
    detail = {"failed": "MODEL_ERROR: m ", "rejected": "schema: "}.get(outcome, "") + hostile
    with ask.served.house.open(name, lambda _: None) as access, access.write() as store:
        if outcome == "skipped":
            store.ledger.skip("d-1", "interval", f"1 new, 5 wanted {hostile}", NOW)
        else:
            store.ledger.begin("d-1", "interval", NOW)
            store.ledger.add_steps("d-1", [Finished("gather", NOW, 1.5, "3 notes")])
        if outcome in {"failed", "rejected"}:
            store.notes.inbox.append(Note("It waits", NOW - timedelta(minutes=1), 0.5))
            absorb_notes(store, NOW)
            store.ledger.end("d-1", outcome, detail, NOW)
    answer = page(browser, ask, "dream?dream=d-1")
    for one in (said, empty):
        assert one in text_of(answer)
    assert hostile not in re.sub(r"<details.*</details>", "", answer.body.decode(), flags=re.DOTALL)
    assert b"<b>the reason" not in answer.body
    assert (hostile in text_of(answer)) is (outcome != "running")  # in the fold, as it stands
    assert ("gathered 3 notes 1.5 s" in text_of(answer)) is (outcome != "skipped")


def test_what_was_refused_is_said_in_words_with_the_text_as_it_stands(
    browser: Browser, name: str, ask: Asking
) -> None:
    wanted = Operation(Action.ADD, SectionName.BOND, HOSTILE)
    with ask.served.house.open(name, lambda _: None) as access, access.write() as store:
        store.ledger.begin("d-1", "interval", NOW)
        refusals = [Refusal("pinned", "operation", "L1 is pinned by the owner; leave it as it is", wanted)]
        store.ledger.reject("d-1", refusals, NOW)
        store.ledger.end("d-1", "rejected", "schema: no answer", NOW)
    answer = page(browser, ask, "dream?dream=d-1")
    text = text_of(answer)
    assert "What was refused" in text
    assert "you pinned the line" in text
    assert "\u202e" not in answer.body.decode()
    assert b"<img" not in answer.body


# ------------------------------------------------------------------------------------------------ acts


def test_a_version_is_restored_and_that_undone_as_if_nothing_had_been(browser: Browser, ask: Asking) -> None:
    for note in (TEA, SHORT):
        ask(working_memory_note, note)
        act(browser, ask, "dreams/dream")
    before, document, counts = lines_of(browser, ask), ask.document, counts_of(browser, ask)
    path = f"/w/{ask.name}/dreams/restore"
    for seen in ("dreams", "dream?version=1"):
        assert [one["version"] for one in fields_of(page(browser, ask, seen), path)] == ["1"]  # not the latest one
    done = act(browser, ask, "dreams/restore", at(browser, ask, "dreams"), version=1)
    assert "Restored: MEMORY.md is as it was on " in text_of(done)
    assert SHORT not in ask.document
    assert ask(dream_status).pending.notes == 1  # its input waits again
    assert "You: restored version 1" in text_of(page(browser, ask, "dreams"))
    back = undone(browser, ask, done)
    assert "Undone: all is as it was before." in text_of(back)
    assert ask.document == document
    assert ask(dream_status).pending.notes == 0
    assert without_ids(lines_of(browser, ask)) == without_ids(before)
    assert (counts_of(browser, ask), counts["learnt"]) == ({**counts, "yours": 2}, 2)  # neither is a new change


def counts_of(browser: Browser, ask: Asking) -> dict[str, int]:
    """What the picture counts in all."""
    spans = page(browser, ask, "dreams.json").json["life"]["spans"]
    names = ("learnt", "changed", "put_away", "closed", "yours")
    return {name: sum(span[name] for span in spans) for name in names}


def without_ids(sections: list[dict[str, list[dict[str, str]]]]) -> list[dict[str, object]]:
    return [{**one, "id": ""} for section in sections for one in section["lines"]]


def test_what_a_dream_changed_is_taken_back_whatever_came_later(browser: Browser, ask: Asking) -> None:
    for note in (TEA, SHORT):
        ask(working_memory_note, note)
        act(browser, ask, "dreams/dream")
    (fields,) = fields_of(page(browser, ask, "dream?version=1"), f"/w/{ask.name}/dream/undo")
    done = act(browser, ask, "dream/undo", at(browser, ask, "dream?version=1"), **fields)
    assert (TEA in ask.document, SHORT in ask.document) == (False, True)
    undone(browser, ask, done)
    assert (TEA in ask.document, SHORT in ask.document) == (True, True)
    assert [(one, outcome) for one, _, outcome in ask.ledger][:2] == [
        ("dream: undo", "done"),
        ("dream: undo", "done"),
    ]
