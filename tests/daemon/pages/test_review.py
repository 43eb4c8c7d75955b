"""The page of what waits: shown side by side, decided one by one, by section or all, with other words, taken back."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from daemon.api.access import LocalAccess
from daemon.config.settings import ApproveSection, Config, DreamSection, load
from daemon.dream.run import Mode, dream_now
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.scratch import Note
from state.stores.vectors.embedder import Unavailable
from tests.daemon.http.running import Running
from tests.daemon.pages.browser import HTMX, Browser, fields_of, text_of
from tests.support.keeping import copied
from tests.support.revising import revises

TEA, COFFEE = "Ada prefers tea in the morning", "Ada prefers coffee in the morning"
SHORT, LONG = "Ada likes short answers of one line", "Ada likes short answers of three lines"
ASKING = DreamSection(approve=ApproveSection.model_validate({"sections": {"The Bond": "ask"}}))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which two changes of The Bond wait."""
    return changed_by_a_model(tmp_path_factory.mktemp("built") / "memory", ASKING)


@pytest.fixture(scope="module")
def built_applied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which two changes of The Bond have applied."""
    return changed_by_a_model(tmp_path_factory.mktemp("applied") / "memory", DreamSection())


def changed_by_a_model(folder: Path, rules: DreamSection) -> Path:
    """A workspace after two dreams; the second revises the lines of the first."""
    workspace = init_workspace(folder)
    embedding = Embedding.given(Unavailable("no model in this test"))
    with revises({COFFEE: TEA, LONG: SHORT}):
        config = load(None).model_copy(update={"dream": rules})
        for notes in ((TEA, SHORT), (COFFEE, LONG)):
            with LocalAccess(workspace, config, "a test", embedding=embedding) as access, access.write() as store:
                for note in notes:
                    store.notes.inbox.append(Note(note, utc_now(), 0.7))
                dream_now(store, Reason.MANUAL, Mode.AUTO)
    return workspace.root


@pytest.fixture
def waits(served: Running, built: Path, tmp_path: Path) -> Path:
    """A copy of it, which the server knows."""
    root = copied(built, tmp_path / "copy")
    served.house.register(root)
    return root


@pytest.fixture
def name(served: Running, waits: Path) -> str:
    """The copy's name."""
    return served.house.register(waits)


def bond(root: Path) -> set[str]:
    text = (root / "MEMORY.md").read_text(encoding="utf-8")
    return {one for one in (TEA, COFFEE, SHORT, LONG) if one in text}


def numbers(browser: Browser, name: str) -> list[int]:
    return [one["number"] for one in browser.get(f"/w/{name}/review.json").json["changes"]["changes"]]


def acts(browser: Browser, name: str) -> list[tuple[str, str, str]]:
    """What the ledger says of acts, the latest first."""
    access = LocalAccess(open_workspace(browser.server.house.roots[name]), Config(), "a test")
    with access, access.read() as store:
        return [(one.act, one.about, one.outcome) for one in store.acts.latest(20)]


def test_old_and_new_stand_side_by_side_with_who_said_it_and_why_it_waits(
    browser: Browser, name: str, waits: Path
) -> None:
    page = browser.get(f"/w/{name}/review")
    text = text_of(page)
    assert b"<del>" in page.body
    assert "[removed: tea ]" in text
    assert "[added: coffee ]" in text
    assert "agent" in text
    assert "why it is here: dream.approve.sections.The Bond: ask" in text
    assert "Approve all 2" in text
    assert bond(waits) == {TEA, SHORT}


def test_what_applied_is_shown_apart_and_undone_or_accepted(
    browser: Browser, served: Running, built_applied: Path, tmp_path: Path
) -> None:
    root = copied(built_applied, tmp_path / "applied")
    name = served.house.register(root)
    first, second = numbers(browser, name)
    page = browser.get(f"/w/{name}/review")
    text = text_of(page)
    assert "[removed: tea ]" in text
    assert "Undo all 2" in text
    assert "Approve" not in text
    assert "Applied" in text
    assert "doubt" not in text
    forms = fields_of(page, f"/w/{name}/review/decide")
    assert {form["verdict"] for form in forms} == {"undo", "accept"}
    browser.act(f"/w/{name}/review/decide", {"verdict": "undo", "number": first}, HTMX)
    assert len(bond(root) & {TEA, SHORT}) == len(bond(root) & {COFFEE, LONG}) == 1
    browser.act(f"/w/{name}/review/decide", {"verdict": "accept", "number": second}, HTMX)
    assert numbers(browser, name) == []
    assert len(bond(root) & {COFFEE, LONG}) == 1


def test_an_empty_page_says_why_it_is_empty(browser: Browser, served: Running, tmp_path: Path) -> None:
    name = served.house.make(tmp_path / "empty")
    assert "Nothing waits for you." in text_of(browser.get(f"/w/{name}/review"))


def test_so_many_are_shown_as_fit_and_all_means_these(browser: Browser, name: str, waits: Path) -> None:
    with closing(sqlite3.connect(open_workspace(waits).state / "state.db")) as connection, connection:
        connection.executemany(
            "INSERT INTO changes (dream, place, at, record, decision)"
            " SELECT dream, ?, at, record, decision FROM changes ORDER BY number LIMIT 1",
            [(place,) for place in range(100, 150)],
        )
    first = browser.get(f"/w/{name}/review")
    assert len(first.body) < 60_000
    shown = first.body.count(b"<article")
    assert shown > 5
    assert f"{52 - shown} more" in text_of(first)
    (every,) = re.findall(r"Reject all (\d+)", text_of(first))
    assert int(every) == shown


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_a_change_is_approved_and_taken_back(
    browser: Browser, name: str, waits: Path, headers: dict[str, str]
) -> None:
    first, second = numbers(browser, name)
    fields = {"verdict": "approve", "number": first}
    assert fields in [
        {key: int(value) if key == "number" else value for key, value in form.items() if key != "csrf"}
        for form in fields_of(browser.get(f"/w/{name}/review"), f"/w/{name}/review/decide")
    ]
    done = browser.act(f"/w/{name}/review/decide", fields, headers)
    assert done.status == (200 if headers else 303)
    assert len(bond(waits) & {COFFEE, LONG}) == 1
    assert numbers(browser, name) == [second]
    assert acts(browser, name)[0] == ("review: decide", f"approve {first}", "done")
    # Without a script the browser is sent to the page, which says it once.
    page = done if headers else browser.get(f"/w/{name}/review")
    assert "approved. MEMORY.md is at version 3." in text_of(page)
    assert "approved. MEMORY.md" not in text_of(browser.get(f"/w/{name}/review"))
    [undo] = fields_of(page, f"/w/{name}/review/undo")
    browser.act(f"/w/{name}/review/undo", {**undo, "csrf": browser.csrf()}, headers)
    assert bond(waits) == {TEA, SHORT}
    assert len(numbers(browser, name)) == 2


def test_a_rejection_is_taken_back_too(browser: Browser, name: str, waits: Path) -> None:
    first, second = numbers(browser, name)
    done = browser.act(f"/w/{name}/review/decide", {"verdict": "decline", "number": [first, second]}, HTMX)
    assert numbers(browser, name) == []
    undo = [form for form in fields_of(done, f"/w/{name}/review/reopen") if form]
    assert undo
    browser.act(f"/w/{name}/review/reopen", {"number": [first, second]}, HTMX)
    assert numbers(browser, name) == [first, second]
    assert bond(waits) == {TEA, SHORT}


def test_the_owner_s_own_words_take_the_place_of_what_was_proposed(browser: Browser, name: str, waits: Path) -> None:
    first, _ = numbers(browser, name)
    words = "Ada drinks what there is in the morning"
    browser.act(f"/w/{name}/review/decide", {"verdict": "approve", "number": first, "text": words}, HTMX)
    assert words in (waits / "MEMORY.md").read_text(encoding="utf-8")
    assert all(words not in about for _, about, _ in acts(browser, name))


def test_all_of_them_are_one_version(browser: Browser, name: str, waits: Path) -> None:
    done = browser.act(f"/w/{name}/review/decide", {"verdict": "approve", "number": numbers(browser, name)}, HTMX)
    assert "MEMORY.md is at version 3." in text_of(done)
    assert bond(waits) == {COFFEE, LONG}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"verdict": "approve", "number": 99}, "NOT_FOUND"),
        ({"verdict": "undo", "number": 1}, "VALIDATION_ERROR"),
        ({"verdict": "eat", "number": 1}, "VALIDATION_ERROR"),
        ({"verdict": "approve"}, "VALIDATION_ERROR"),
        ({"verdict": "approve", "number": "<b>"}, "VALIDATION_ERROR"),
        ({"verdict": "approve", "number": 1, "more": "x"}, "VALIDATION_ERROR"),
    ],
)
def test_what_cannot_be_decided_is_told_and_changes_nothing(
    browser: Browser, name: str, waits: Path, fields: dict[str, object], code: str
) -> None:
    before = (waits / "MEMORY.md").read_bytes()
    for headers in ({}, HTMX):
        answer = browser.act(f"/w/{name}/review/decide", fields, headers)
        assert answer.status in {400, 404, 409, 422}
        assert code in text_of(answer)
        if headers:
            assert answer.headers["HX-Retarget"] == "#said"
    assert (waits / "MEMORY.md").read_bytes() == before
    assert len(numbers(browser, name)) == 2


def test_a_whole_dream_is_shown_as_a_difference_and_decided(
    browser: Browser, served: Running, tmp_path: Path
) -> None:
    name = served.house.make(tmp_path / "proposing")
    root = served.house.roots[name]
    config = Config(dream=DreamSection(mode="propose"))
    access = LocalAccess(open_workspace(root), config, "a test", embedding=served.house.embedding)
    with access, access.write() as store:
        store.notes.inbox.append(Note(TEA, utc_now(), 0.7))
        dream_now(store, Reason.MANUAL, Mode.PROPOSE)
    page = browser.get(f"/w/{name}/review")
    assert f"+- {TEA}" in text_of(page)
    [approve, decline] = fields_of(page, f"/w/{name}/review/proposal")
    assert (approve["verdict"], decline["verdict"]) == ("approve", "decline")
    browser.act(f"/w/{name}/review/proposal", {**approve, "csrf": browser.csrf()}, HTMX)
    assert TEA in (root / "MEMORY.md").read_text(encoding="utf-8")


def test_a_change_can_be_gone_to_past_those_before_it(browser: Browser, name: str) -> None:
    first, second = numbers(browser, name)
    page = browser.get(f"/w/{name}/review?number={second}")
    assert f'id="change-{second}"' in page.body.decode()
    assert f'id="change-{first}"' not in page.body.decode()
    assert "1 earlier" in text_of(page)
    browser.act(f"/w/{name}/review/decide", {"verdict": "decline", "number": second}, HTMX)
    assert f'id="change-{first}"' in browser.get(f"/w/{name}/review?number={second}").body.decode()


def test_what_was_written_by_hand_is_a_version_that_comes_before_the_decision(
    served: Running, browser: Browser, waits: Path, name: str
) -> None:
    hand, first = "Ada keeps bees", numbers(browser, name)[0]
    text = (waits / "MEMORY.md").read_text(encoding="utf-8")
    (waits / "MEMORY.md").write_text(text.replace(f"- {TEA}\n", f"- {TEA}\n- {hand}\n"), encoding="utf-8")
    browser.act(f"/w/{name}/review/decide", {"verdict": "approve", "number": first}, HTMX)
    assert hand in (waits / "MEMORY.md").read_text(encoding="utf-8")
    latest = served.ask("GET", f"/v1/workspaces/{name}/versions").json["versions"][:2]
    assert [(one["number"], one["cause"], one["reason"]) for one in latest] == [
        (4, "review", f"change {first}"),
        (3, "human", ""),
    ]
