"""MEMORY.md line by line: what is known of each, where it comes from, and each act of the owner's on one of them."""

import re
from pathlib import Path

import pytest

from daemon.api.access import LocalAccess
from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.pages.templates import mark
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.scratch import Note
from state.stores.vectors.embedder import Unavailable
from tests.daemon.http.running import Answer, Running
from tests.daemon.pages.browser import HTMX, Browser, fields_of, text_of
from tests.daemon.pages.test_review import acts
from tests.support.keeping import copied

TEA, PORT = "Ada prefers tea in the morning", "The staging server listens on port 8080"
PREFACE = "Written by hand, and above everything"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace that has dreamt once, over a file of its owner's."""
    workspace = init_workspace(tmp_path_factory.mktemp("built") / "memory")
    workspace.document.write_text(f"# Notes\n\n{PREFACE}\n", encoding="utf-8")
    access = LocalAccess(workspace, Config(), "a test", embedding=Embedding.given(Unavailable("none here")))
    with access, access.write() as store:
        for note in (TEA, PORT):
            store.notes.inbox.append(Note(note, utc_now(), 0.7))
        dream_now(store, Reason.MANUAL, Mode.AUTO)
    return workspace.root


@pytest.fixture
def root(served: Running, built: Path, tmp_path: Path) -> Path:
    """A copy of it, which the server knows."""
    return copied(built, tmp_path / "copy")


@pytest.fixture
def name(served: Running, root: Path) -> str:
    """The copy's name."""
    return served.house.register(root)


def line_of(browser: Browser, name: str, text: str) -> str:
    """The id of the line that says this."""
    sections = browser.get(f"/w/{name}/memory.json").json["lines"]["sections"]
    return str(next(one["id"] for section in sections for one in section["lines"] if one["text"] == text))


def document(root: Path) -> str:
    return (root / "MEMORY.md").read_text(encoding="utf-8")


def change(browser: Browser, name: str, action: str, line: str, **more: object) -> Answer:
    fields = {"action": action, "line": line_of(browser, name, line), "expected": line, **more}
    return browser.act(f"/w/{name}/memory/change", fields, HTMX)


def test_every_line_is_there_with_what_is_known_of_it(browser: Browser, name: str) -> None:
    page = browser.get(f"/w/{name}/memory")
    text = text_of(page)
    for part in (TEA, PORT, PREFACE, "The Bond", "extractive", "yours: dreams leave it alone", "version 1"):
        assert part in text
    assert f'hx-get="/w/{name}/line?id={line_of(browser, name, TEA)}"' in page.body.decode()
    assert f"mark={mark(PREFACE)}" not in page.body.decode()  # what no dream touches is edited in the file


def test_a_line_says_where_it_comes_from_beside_the_page_and_alone(browser: Browser, name: str) -> None:
    path = f"/w/{name}/line?id={line_of(browser, name, TEA)}"
    alone, beside = browser.get(path), browser.get(path, {**HTMX, "HX-Target": "div#beside"})
    for page in (alone, beside):
        assert "What it rests on" in text_of(page)
        assert text_of(page).count(TEA) >= 2
    assert b"<html" in alone.body
    assert b"<html" not in beside.body
    assert b'id="said"' not in beside.body


def test_a_line_that_was_written_since_the_last_dream_can_be_looked_at(
    browser: Browser, root: Path, name: str
) -> None:
    new = "Ada has a cat"
    text = document(root)
    (root / "MEMORY.md").write_text(text.replace(f"- {TEA}", f"- {TEA}\n- {new}"), encoding="utf-8")
    assert new in text_of(browser.get(f"/w/{name}/line?mark={mark(new)}"))
    gone = browser.get(f"/w/{name}/line?mark={'0' * 20}")
    assert (gone.status, "does not stand in MEMORY.md any more" in text_of(gone)) == (404, True)


def test_a_line_with_signs_that_steer_is_known_by_what_the_form_sends(
    browser: Browser, root: Path, name: str
) -> None:
    new = "Ada has\u200b a \u202ecat"
    text = document(root)
    (root / "MEMORY.md").write_text(text.replace(f"- {TEA}", f"- {TEA}\n- {new}"), encoding="utf-8")
    page = browser.get(f"/w/{name}/line?mark={mark(new)}")
    (delete,) = [one for one in fields_of(page, f"/w/{name}/memory/change") if one.get("action") == "delete"]
    assert delete["expected"] == new
    assert browser.act(f"/w/{name}/memory/change", delete, HTMX).status == 200
    assert "cat" not in document(root)


def test_an_edit_is_a_version_and_can_be_taken_back(browser: Browser, root: Path, name: str) -> None:
    words = "Ada prefers cocoa"
    done = change(browser, name, "edit", TEA, text=words)
    assert (words in document(root), TEA in document(root)) == (True, False)
    assert acts(browser, name)[0][0] == "memory: change"
    assert words not in acts(browser, name)[0][1]
    [undo] = fields_of(done, f"/w/{name}/memory/undo")
    browser.act(f"/w/{name}/memory/undo", undo, HTMX)
    assert (words in document(root), TEA in document(root)) == (False, True)


def test_what_was_written_by_hand_is_not_taken_back_with_an_act(browser: Browser, root: Path, name: str) -> None:
    by_hand, later = "Ada writes with a pencil", "Ada writes with a pen"
    (root / "MEMORY.md").write_text(document(root).replace(f"- {TEA}", f"- {TEA}\n- {by_hand}"))
    done = change(browser, name, "delete", TEA)
    [undo] = fields_of(done, f"/w/{name}/memory/undo")
    browser.act(f"/w/{name}/memory/undo", undo, HTMX)
    assert (TEA in document(root), by_hand in document(root)) == (True, True)
    # What has changed since is not taken back by an undo of before: neither a version nor the file.
    again = browser.act(f"/w/{name}/memory/undo", undo, HTMX)
    assert (again.status, "nothing was undone" in text_of(again)) == (409, True)
    [undo] = fields_of(change(browser, name, "delete", TEA), f"/w/{name}/memory/undo")
    (root / "MEMORY.md").write_text(document(root).replace(by_hand, later))
    assert browser.act(f"/w/{name}/memory/undo", undo, HTMX).status == 409
    assert (TEA in document(root), later in document(root)) == (False, True)


def test_a_line_is_pinned_unpinned_and_deleted(browser: Browser, root: Path, name: str) -> None:
    change(browser, name, "pin", TEA)
    assert f"{TEA} 📌" in document(root)
    change(browser, name, "unpin", TEA)
    change(browser, name, "delete", TEA)
    assert TEA not in document(root)
    assert PORT in document(root)


def test_what_is_wrong_gives_way_to_what_is_right(browser: Browser, root: Path, name: str) -> None:
    right = "The staging server listens on port 9090"
    change(browser, name, "wrong", PORT, text=right)
    assert (right in document(root), PORT in document(root)) == (True, False)


def test_a_line_is_added_and_the_page_shows_it_without_a_script_too(browser: Browser, root: Path, name: str) -> None:
    fields = {"action": "add", "section": "The Bond", "text": "Ada lives in Lisbon"}
    done = browser.act(f"/w/{name}/memory/change", fields)
    assert (done.status, done.headers["Location"]) == (303, f"/w/{name}/memory")
    assert "Ada lives in Lisbon" in document(root)


def test_a_line_that_has_changed_meanwhile_is_not_overwritten(browser: Browser, root: Path, name: str) -> None:
    line = line_of(browser, name, TEA)
    before = document(root)
    fields = {"action": "edit", "line": line, "expected": "Ada prefers beer", "text": "x y"}
    answer = browser.act(f"/w/{name}/memory/change", fields, HTMX)
    assert answer.status in {404, 409}
    assert answer.headers["HX-Retarget"] == "#said"
    assert document(root) == before
    assert acts(browser, name)[0][2] != "done"


def test_a_long_file_is_shown_in_parts_each_line_once(browser: Browser, root: Path, name: str) -> None:
    lines = [f"Line {number:03} is long{' because of <its> words' * (number % 9)}" for number in range(250)]
    sections = "".join(f"\n## {n}\n\n" + "".join(f"- {one}\n" for one in lines[n::7]) for n in range(7))
    (root / "MEMORY.md").write_text(f"# Notes\n{sections}", encoding="utf-8")
    shown, path = list[str](), f"/w/{name}/memory"
    while path:
        answer = browser.get(path)
        assert len(answer.body) < 60_000
        shown += re.findall(r"Line \d{3} ", text_of(answer))
        more = re.search(r'class="more"><a href="([^"]+)">(\d+) more', answer.body.decode())
        path = more[1] if more else ""
    assert len(shown) == len(set(shown)) == len(lines)


def test_an_empty_memory_says_what_fills_it(browser: Browser, served: Running, tmp_path: Path) -> None:
    name = served.house.make(tmp_path / "empty")
    assert "MEMORY.md is empty." in text_of(browser.get(f"/w/{name}/memory"))
