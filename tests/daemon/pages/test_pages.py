"""Every page in an empty and in a full workspace: what it shows and says to do, its replies as JSON, its files."""

import re
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from daemon.api.operations.search import memory_bootstrap, memory_search
from daemon.api.operations.table import OPERATIONS
from daemon.pages.templates import environment
from daemon.pages.views import PAGES
from daemon.pages.window import MOST_WORKSPACES, Place, static_address, static_files
from daemon.workspace.adoption import open_workspace
from daemon.workspace.status import Problem
from state.codec import encode
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import Running
from tests.daemon.pages.browser import HTMX, Browser, text_of, windowed
from tests.daemon.pages.conftest import Asking
from tests.daemon.pages.lives import ASKING, CAT, COFFEE, NEW, OLD, TEA, changed_by_a_model, live
from tests.daemon.pages.parsed import Parsed

QUESTIONS = {"Who approves refunds?": "miss", "Why <script>alert(1)</script>?": "question"}
# What a page of an empty workspace says, with what fills it.
EMPTY = {
    "today": "Three steps, and it remembers.",
    "dreams": "No dream has run yet.",
    "dreams?kind=failed": "There is none of these.",
    "memory": "MEMORY.md is empty.",
    "memory?changed=2026-01-01": "No line has changed since",
    "memory?all=true": "There are no memories yet",
    "memory?query=heron": "The memory is empty",
    "memory?speaker=Bo": "Fewer filters",
    "memory?as_of=2026-01-01": "before the first dream",
    "memory?sessions=": "No session was ever opened.",
    "wrong": "Nothing was forgotten.",
    "settings": "No model dreams: each note becomes a line of MEMORY.md, word for word",
}
# What the pages of a full one say.
FULL = {
    "today": [
        "▲ 2 things want you",
        f"[old: {TEA} ]",
        f"[new: {COFFEE} ]",
        f"You are asked about every change. It was noted today : “{COFFEE}”",
        "Accept all 2",
        *QUESTIONS,
        "not important",
    ],
    "memory": ["yours: dreams leave it alone", "Everything that is remembered", "Add a line", "mind open"],
    "memory?all=true": ["Everything that is remembered", " memories", "over", CAT.text, "a note, your agent"],
    "memory?sort=importance&speaker=Ada": [CAT.text, "In all of it"],
    "memory?query=cache+holds": [NEW.text, "formerly", "superseded or answered", "the words stand in or about it"],
    "memory?query=cache+holds&all=true": [NEW.text, "holds now", "why here", "It stands in talk.md"],
    "memory?query=cache&as_of=2001-01-01": ["The filters leave too little"],
    f"crystal?id={CAT.id[:12]}": ["said by Ada", "talk.md:3@", "Ada likes animals.", "place 2 of talk"],
    f"crystal?id={OLD.id}": ["What holds now in its place", NEW.text, "No, this one holds now", "Both hold"],
    "session?session_id=mind": ["2 things of 2", "100 %", "★ 0.90", "to the archive: no more room", "What left"],
    "settings": ["The model that dreams", "Changes that need your yes", "Every key of config.yaml"],
}

# What cannot be shown, by its status.
REFUSED = {
    400: """
        dream dream?dream=x&version=1 today?%ff
        """,
    404: """
        dream?version=99 line?id=L99999 line?mark=00000000000000000000 nothing export ingest repair search sessions
        crystal?id=00000000000000000000000000000000 session?session_id=nobody
        """,
    422: """
        line?id=12 crystal session
        memory?start=-1 memory?changed=soon memory?as_of=9999-12-31 memory?since=yesterday
        memory?limit=51 memory?origin=moon memory?query=a&query=b memory?other=1
        wrong?line=Falconer wrong?line=L12%0A wrong?text=Falconer
        """,
}


@pytest.fixture(scope="module")
def full(served: Running, tmp_path_factory: pytest.TempPathFactory) -> Asking:
    """A workspace with something on every page."""
    root = changed_by_a_model(tmp_path_factory.mktemp("full") / "memory", ASKING)
    ask = Asking(served, served.house.register(root))
    with served.house.open(ask.name, lambda _: None) as access, access.write() as store:
        live(store, QUESTIONS)
    ask(OPERATIONS["session_open"], session_id="mind", policy="bounded", config={"max_items": 2})
    for content, importance in (("red", 0.6), ("friday", 0.9), ("lunch", 0.1)):
        ask(OPERATIONS["memory_memorize"], session_id="mind", content=content, importance=importance)
    return ask


@pytest.mark.parametrize(("path", "said"), EMPTY.items(), ids=EMPTY)
def test_an_empty_page_says_why_and_what_fills_it(browser: Browser, name: str, path: str, said: str) -> None:
    page = browser.get(f"/w/{name}/{path}")
    assert (page.status, said in text_of(page)) == (200, True), text_of(page)


@pytest.mark.parametrize(("path", "said"), FULL.items(), ids=FULL)
def test_a_page_shows_what_there_is(browser: Browser, full: Asking, path: str, said: list[str]) -> None:
    address = f"/w/{full.name}/{path}"
    page, part = browser.get(address), browser.get(address, HTMX)
    for one in said:
        assert one in text_of(page), (one, text_of(page))
        assert one in text_of(part)
    assert b"<html" not in part.body
    for hostile in (b"<img", b"<b>build", b"<i>cert", b"<script>alert"):
        assert hostile not in page.body
    assert "\u202e" not in page.body.decode()
    title = text_of(page).partition(" · ")[0]
    assert not re.search("[0-9a-f]{8}|[Cc]rystal", title), title


@pytest.mark.parametrize(
    ("path", "status"), [(one, status) for status, every in REFUSED.items() for one in every.split()]
)
def test_what_cannot_be_shown_is_said(browser: Browser, full: Asking, path: str, status: int) -> None:
    page, bare = browser.get(f"/w/{full.name}/{path}"), path.partition("?")
    assert page.status == status
    assert b'role="alert"' in page.body
    assert b'aria-label="Pages"' in page.body  # the way to the others
    assert browser.get(f"/w/{full.name}/{bare[0]}.json{bare[1]}{bare[2]}").code


@pytest.mark.full
def test_every_link_leads_to_a_page(browser: Browser, full: Asking) -> None:
    left, seen = [f"/w/{full.name}/today"], Counter[str]()
    while left:
        address = left.pop()
        if seen[address.partition("?")[0]] < 2:
            seen[address.partition("?")[0]] += 1
            page = browser.get(address)
            assert page.status != 404, address
            left += [one.partition("#")[0] for one in Parsed(page.body.decode()).addresses]
    assert {f"/w/{full.name}/{one}" for one in ("dream", "line", "crystal", "session")} <= set(seen)


def test_looking_leaves_no_trace(browser: Browser, full: Asking) -> None:
    before = encode(full(OPERATIONS["crystals"])), encode(full(OPERATIONS["gaps"]))
    for path in (
        "memory?query=cache",
        "memory?query=who+owns+the+zeppelin",
    ):
        assert browser.get(f"/w/{full.name}/{path}").status == 200
    assert (encode(full(OPERATIONS["crystals"])), encode(full(OPERATIONS["gaps"]))) == before
    assert full(OPERATIONS["dream_status"]).last_bootstrap is None
    full(memory_search, "cache holds", agent="codex")
    assert encode(full(OPERATIONS["crystals"])) != before[0]
    full(memory_bootstrap, receipt="HTTP")
    assert "An agent read it" in text_of(browser.get(f"/w/{full.name}/today"))


@pytest.mark.parametrize("deed", ["dream", "restore 7", "forget", "doctor"])
def test_what_mends_a_problem_is_an_act_of_a_page(deed: str) -> None:
    template = environment().from_string("{{ ui.problem(place, problem) }}")
    made = template.render(place=Place("a", csrf="c"), problem=Problem("it is broken", "mend it", deed))
    page, name = made.partition('action="/w/a/')[2].partition('"')[0].split("/")
    act = PAGES[page].act(name)
    assert act is not None
    act.form.model_validate({"version": 7} if deed.startswith("restore") else {})
    assert ('name="version" value="7"' in made) is deed.startswith("restore")


def test_many_workspaces_are_shown_a_page_at_a_time_and_what_is_wrong_comes_first(tmp_path: Path) -> None:
    house = OwnHouse()
    with windowed(tmp_path, house) as browser:
        assert "dreamd init DIR" in text_of(browser.get("/"))
        for wrong in ("/?start=-1", "/?start=x", "/?more=1"):
            assert browser.get(wrong).status == 422
        names = [house.make(tmp_path / f"agent-{number:03}") for number in range(MOST_WORKSPACES + 5)]
        open_workspace(house.roots[names[-1]]).state.chmod(0o755)
        first, second = browser.get("/"), browser.get(f"/?start={MOST_WORKSPACES}")
        shown = [[name for name in names if f"/w/{name}/today" in page.body.decode()] for page in (first, second)]
        assert sorted(shown[0] + shown[1]) == sorted(names)
        assert (len(shown[1]), names[-1] in shown[0]) == (5, True)
        assert "is open to other users" in text_of(first)
        assert "agent-000 " in text_of(first)
        assert "● All is well. nothing none yet" in text_of(first)
        assert len(browser.get("/fleet.json").json["status"]["workspaces"]) == len(names)
        for path in ("/w/nobody-000000000000/today", "/w/nobody-000000000000/events"):
            assert browser.get(path).status == 404


# As published: htmx.org 4.0.1, dist/htmx.min.js and dist/ext/hx-sse.min.js.
PUBLISHED = {
    "htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "hx-sse.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
}


def test_files_of_others_are_as_published() -> None:
    assert {name: sha256(static_files()[name]).hexdigest() for name in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("name", sorted(static_files()))
def test_each_is_there_before_one_is_logged_in_and_kept_by_the_browser(served: Running, name: str) -> None:
    answer = Browser(served).get(static_address() + name)
    assert answer.body == static_files()[name]
    assert answer.headers["Content-Type"].startswith(("text/javascript", "text/css", "image/svg+xml"))
    assert "immutable" in answer.headers["Cache-Control"]


@pytest.mark.parametrize(
    "name", ["", "htmx.LICENSE", "..%2fwindow.py", "%2e%2e/window.py", "window.py", "style.css/x"]
)
def test_nothing_else_is(served: Running, name: str) -> None:
    assert Browser(served).get(static_address() + name).status in {401, 404}
