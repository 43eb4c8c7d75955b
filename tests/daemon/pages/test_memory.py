"""The page Memory: lines with their age, as they were on a day, what a search finds, every memory, one, sessions."""

import re
from datetime import timedelta

import pytest

from daemon.api.operations import sessions
from daemon.api.operations.notes import working_memory_note
from daemon.api.operations.search import memory_search
from daemon.api.operations.table import OPERATIONS
from daemon.pages.memory import slider_of
from daemon.pages.templates import day
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import utc_now
from state.crystals.crystal import Crystal, Origin
from state.stores.database.moments import to_text
from tests.daemon.http.running import Running
from tests.daemon.pages.browser import Browser, text_of
from tests.daemon.pages.conftest import Asking
from tests.daemon.pages.lives import ASKING, HOSTILE, dreamt, live
from tests.daemon.pages.parsed import Parsed
from tests.support.revising import revises

# A line of each of these days ago; what was written twenty days ago is gone, and one of today waits to be read.
DAYS = {20: "The well is dry", 5: "The roof is red", 0: "The gate is shut"}
GONE, MINE, UNREAD = "The fence is blue", "Written by hand, and above everything", "The lamp is lit"
WAITS, ASKED = "The roof is green", "Who approves refunds?"
TODAY = utc_now().date()


@pytest.fixture(scope="module")
def full(served: Running, tmp_path_factory: pytest.TempPathFactory) -> Asking:
    """A workspace with a past, memories and a session."""
    workspace = init_workspace(tmp_path_factory.mktemp("memory") / "full")
    workspace.document.write_text(f"# Notes\n\n{MINE} {HOSTILE}\n", encoding="utf-8")
    for text in DAYS.values():
        dreamt(workspace, text, *([GONE] if text == DAYS[20] else []))
    written = workspace.document.read_text(encoding="utf-8")
    workspace.document.write_text(
        written.replace(f"- {GONE}\n", "").replace(DAYS[20], f"{DAYS[20]} 📌"), encoding="utf-8"
    )
    with revises({WAITS: DAYS[5]}):
        dreamt(workspace, WAITS, rules=ASKING)
    ask = Asking(served, served.house.register(workspace.root))
    with served.house.open(ask.name, lambda _: None) as access, access.write() as store:
        live(store, {ASKED: "miss"})
        again = Crystal(DAYS[5], Origin.SESSION, utc_now(), session="again", position=0, speaker="Bo")
        store.crystals.learn([again])
        for number, days in enumerate(DAYS, 1):
            at = to_text(utc_now() - timedelta(days=days))
            store.connection.execute("UPDATE versions SET at = ? WHERE number = ?", (at, number))
            store.connection.execute("UPDATE lines SET born_at = ? WHERE born_in = ?", (at, number))
        over = (TODAY - timedelta(days=1)).isoformat()
        store.connection.execute("UPDATE lines SET until = ? WHERE text = ?", (over, DAYS[0]))
    ask.write(ask.document.replace(f"- {DAYS[0]}\n", f"- {DAYS[0]}\n- {UNREAD}\n"))
    ask(OPERATIONS["session_open"], session_id="mind", policy="bounded", config={"max_items": 2})
    for content, importance in (("red", 0.6), ("friday", 0.9), ("lunch", 0.1)):
        ask(OPERATIONS["memory_memorize"], session_id="mind", content=content, importance=importance)
    return ask


def rows(browser: Browser, ask: Asking, query: str = "") -> dict[str, tuple[str, str]]:
    """The lines of the page by their text: their classes, and all that stands in their row."""
    html = browser.get(f"/w/{ask.name}/memory{query}").body.decode()
    found = re.findall(r'<li data-item="line" tabindex="0"(?: class="([^"]*)")?.*?>(.*?)</li>', html, re.DOTALL)
    texts = [(kind.strip(), " ".join(" ".join(Parsed(row).texts).split())) for kind, row in found]
    named = (*DAYS.values(), GONE, UNREAD, MINE)
    return {next(one for one in named if one in text): (kind, text) for kind, text in texts}


def test_the_edge_of_a_line_is_its_age_and_chips_are_for_the_unusual(browser: Browser, full: Asking) -> None:
    shown = rows(browser, full)
    assert {text: kind for text, (kind, _) in shown.items()} == {
        MINE: "", DAYS[20]: "", DAYS[5]: "week asks", DAYS[0]: "new over", UNREAD: "new",
    }  # fmt: skip
    assert {text: said.removeprefix(text) for text, (_, said) in shown.items() if text not in {MINE, UNREAD}} == {
        DAYS[20]: " 📌 pinned",
        DAYS[5]: f"of this week: {DAYS[5]} a change waits",
        DAYS[0]: f"new since yesterday: {DAYS[0]} over since today",
    }
    assert shown[UNREAD][1] == f"new since yesterday: {UNREAD}"
    assert "⟨202E⟩{{ 7 * 7 }}" in shown[MINE][1]


def test_what_changed_is_a_link_that_filters(browser: Browser, full: Asking) -> None:
    page = browser.get(f"/w/{full.name}/memory")
    assert "2 changed since yesterday" in text_of(page)
    yesterday = (TODAY - timedelta(days=1)).isoformat()
    assert f'href="/w/{full.name}/memory?changed={yesterday}"' in page.body.decode()
    assert set(rows(browser, full, f"?changed={yesterday}")) == {DAYS[0], UNREAD}
    assert set(rows(browser, full, f"?changed={TODAY - timedelta(days=6)}")) == {DAYS[0], DAYS[5], UNREAD}
    assert set(rows(browser, full, "?changed=9998-01-01")) == {UNREAD}  # nobody knows yet when it came


def test_the_file_of_a_day_says_what_is_gone_since_and_what_came_later(browser: Browser, full: Asking) -> None:
    def fates(days: int) -> dict[str, str]:
        found = rows(browser, full, f"?as_of={TODAY - timedelta(days=days)}")
        assert all(text.endswith("came later") is (kind == "later") for kind, text in found.values())
        return {text: kind or said.removeprefix(text).strip() for text, (kind, said) in found.items()}

    later = {DAYS[0]: "later", UNREAD: "later"}
    stood = {DAYS[20]: "", GONE: "gone since"}  # what was true then is not struck out
    for days, known in ((10, {**stood, DAYS[5]: "later"}), (5, {**stood, DAYS[5]: ""})):
        assert {text: one for text, one in fates(days).items() if text != MINE} == {**known, **later}
    assert {DAYS[20]: "later", DAYS[5]: "later", **later}.items() <= fates(21).items()
    page = browser.get(f"/w/{full.name}/memory?as_of={TODAY - timedelta(days=10)}")
    assert "Add a line" not in text_of(page)
    line = re.search(
        rf'<a class="line-text" href="/w/{full.name}/(line\?id=L\d+)"[^>]*><span dir="ltr">{GONE}',
        page.body.decode(),
    )
    assert line
    assert GONE in text_of(browser.get(f"/w/{full.name}/{line[1]}"))
    for then in (TODAY, TODAY + timedelta(days=9)):  # the file as it is
        assert rows(browser, full, f"?as_of={then}") == rows(browser, full)


def test_the_slider_has_a_tick_for_each_day_with_a_version(browser: Browser, full: Asking) -> None:
    html = browser.get(f"/w/{full.name}/memory").body.decode()
    assert re.findall(r'<path class="tick" d="M(\d+) 1V15"><title>([^<]*)<', html) == [
        ("0", f"{day(TODAY - timedelta(days=20), TODAY)}: 2 learnt"),
        ("750", f"{day(TODAY - timedelta(days=5), TODAY)}: 1 learnt"),
        ("1000", "today: 1 learnt"),
    ]
    assert f'max="20" value="20" data-first="{TODAY - timedelta(days=20)}"' in html
    assert f'name="as_of" value="{TODAY}"' in html  # without a script one writes the day
    then = browser.get(f"/w/{full.name}/memory?as_of={TODAY - timedelta(days=30)}").body.decode()
    assert f'max="30" value="0" data-first="{TODAY - timedelta(days=30)}"' in then


def test_a_memory_of_today_alone_has_no_slider() -> None:
    assert slider_of((), None, utc_now().tzinfo, TODAY) is None  # type: ignore[arg-type]


def test_a_search_shows_a_line_of_the_file_once_and_first(browser: Browser, full: Asking) -> None:
    page = browser.get(f"/w/{full.name}/memory?query=the+roof+is")
    text, html = text_of(page), page.body.decode()
    assert 'name="query" value="the roof is"' in html
    first, _, besides = text.partition("Remembered besides")
    assert "In MEMORY.md" in first
    assert DAYS[5] in first
    assert re.findall(r"line\?id=L\d+", html.partition("Remembered besides")[0])
    assert DAYS[5] not in besides
    assert WAITS in besides
    assert "cosine" not in text
    assert not re.search(r"\d\.\d\d\d", text)


def test_long_lists_are_shown_in_parts_each_row_once(browser: Browser, name: str, ask: Asking) -> None:
    lines = [f"Line {number:03} is long{' because of <its> words' * (number % 9)}" for number in range(450)]
    ask.write("# Notes\n" + "".join(f"\n## {n}\n\n" + "".join(f"- {one}\n" for one in lines[n::7]) for n in range(7)))
    ask(OPERATIONS["session_open"], session_id="s", policy="bounded", config={"max_items": 20})
    for number in range(40):
        ask(OPERATIONS["memory_memorize"], session_id="s", content=f"memory {number:02}", importance=0.5)
        ask(working_memory_note, f"The note number {number:03} of Ada")
        ask(OPERATIONS["session_open"], session_id=f"other {number:02}", policy="bounded")
    ask(memory_search, "note")
    with ask.served.house.open(name, lambda _: None) as access, access.write() as store:
        for number in range(90):
            store.ledger.skip(f"skipped-{number:02}", "interval", f"{number} new", utc_now())
    for path, row, count in (
        ("memory", r"Line \d{3} ", 450),
        ("memory?origin=scratch", r"number \d{3} of", 40),
        ("memory?start=400", r"other \d{2}<", 40),
        ("session?session_id=s", r"memory \d\d", 20),
        ("dreams", r"dream=skipped-\d\d", 90),
    ):
        shown, more = list[str](), f"/w/{name}/{path}"
        while more:
            html = browser.get(more).body.decode()
            assert len(html) < 150_000
            part = html.partition("<h2>Who leaves")[0] if "session?" in path else html
            shown += dict.fromkeys(re.findall(row, part))
            label = "Earlier sessions" if "other" in row else r"(?:More|\d+ more)"
            found = re.search(rf'class="more"><a href="([^"#]+)(?:#sessions)?">{label}<', part)
            more = found[1].replace("&amp;", "&") if found else ""
        assert len(shown) == len(set(shown)) == count, path


def test_what_left_a_session_is_found_if_it_is_wanted(browser: Browser, name: str, ask: Asking) -> None:
    for session in ("talk", "x" * 1_001):
        ask(OPERATIONS["working_memory_add"], session_id=session, content="it is kept", priority="low")
    assert "too long for an address" in text_of(browser.get(f"/w/{name}/memory"))
    ask(sessions.close, session_id="talk")
    assert "it is kept" in text_of(browser.get(f"/w/{name}/memory?query=kept&archived=true"))
    assert "it is kept" not in text_of(browser.get(f"/w/{name}/memory?query=kept"))
