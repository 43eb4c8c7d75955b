"""The crystals as a table, and all that is known of one: what the operations say, and whose word counts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal, Kind, Origin, Source
from state.crystals.supersession import Cause, Supersession
from state.document.document import SectionName
from state.dream import Dream
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import transaction
from state.stores.history.acts import Acts
from state.trust import Trust
from tests.daemon.http.running import Answer, Running
from tests.daemon.pages.browser import HTMX, Browser, fields_of, text_of
from tests.support.versions import added, line, pointer

NOW = datetime.now(UTC)
HOSTILE = '<img src="https://a.test/x"> \u202e{{ 7 * 7 }}'
TURNS = [
    Crystal(
        text, Origin.SESSION, NOW - timedelta(days=9 - at), session="talk", position=at, speaker="Ada",
        trust=Trust.OWNER, source=Source("talk.md", at + 1, at + 1, "ab" * 20),
    )
    for at, text in enumerate(("The cache holds an hour.", "The cache holds a day.", "Ada has a cat.", HOSTILE))
]  # fmt: skip
OLD, NEW, CAT, BAD = TURNS
DERIVED = Crystal("Ada likes animals.", Origin.DREAM, NOW, parents=(CAT.id,), kind=Kind.INSIGHT, importance=0.9)


@pytest.fixture
def root(served: Running, name: str) -> str:
    """The address of a workspace with crystals: the old value is superseded by the new one."""
    with writing(served, name) as store:
        store.crystals.upsert([*TURNS, DERIVED])
        superseded(store, OLD, NEW)
    return f"/w/{name}"


@contextmanager
def writing(served: Running, name: str) -> Iterator[Store]:
    with served.house.open(name, lambda _: None) as access, access.write() as store:
        yield store


def superseded(store: Store, older: Crystal, newer: Crystal) -> None:
    keys = store.crystals.keys([older.id, newer.id])
    with transaction(store.crystals.connection):
        Supersessions(store.crystals).record(
            [Supersession(keys[older.id], keys[newer.id], NOW, Trust.AGENT, Cause.DREAM)]
        )


def crystal(browser: Browser, root: str, one: Crystal) -> dict[str, Any]:
    told: dict[str, Any] = browser.get(f"{root}/crystal.json?id={one.id}").json["crystal"]
    return told


def acts_of(served: Running, name: str) -> list[tuple[str, str, str]]:
    with writing(served, name) as store:
        return [(one.act, one.about, one.outcome) for one in Acts(store.crystals.connection).latest(9)]


def rows(answer: Answer) -> list[str]:
    """The rows of the page's table by the texts of their crystals, in their order."""
    said = text_of(answer)
    shown = [one.text for one in (OLD, NEW, CAT, DERIVED) if one.text in said]
    return sorted(shown, key=said.index)


def test_the_table_shows_filters_and_sorts_what_the_operation_says(browser: Browser, root: str) -> None:
    answer = browser.get(f"{root}/crystals")
    assert rows(answer) == [DERIVED.text, CAT.text, NEW.text, OLD.text]
    assert browser.get(f"{root}/crystals.json").json.keys() == {"crystals"}
    assert text_of(answer).count("superseded") == 2  # the row, and the filter's label
    assert 'aria-sort="descending"' in answer.body.decode()
    for query, expected in (
        ("superseded=yes", [OLD.text]),
        ("text=cache", [NEW.text, OLD.text]),
        ("origin=dream&kind=&trust=", [DERIVED.text]),
        (f"until={(NOW - timedelta(days=7)).date()}&session=talk", [NEW.text, OLD.text]),
        ("sort=importance", [DERIVED.text, OLD.text, NEW.text, CAT.text]),
    ):
        page = browser.get(f"{root}/crystals?{query}")
        listed = browser.get(f"{root}/crystals.json?{query}").json["crystals"]["crystals"]
        assert rows(page) == [one["text"] for one in listed if one["text"] != HOSTILE], query
        assert set(rows(page)) == set(expected), query
    assert "fewer filters" in text_of(browser.get(f"{root}/crystals?speaker=Bo"))
    assert browser.get(f"{root}/crystals?since=yesterday").status == 422


def test_the_parts_of_the_table_follow_each_other(served: Running, browser: Browser, name: str, root: str) -> None:
    with writing(served, name) as store:
        store.crystals.upsert([Crystal(f"number {at}", Origin.SCRATCH, NOW) for at in range(60)])
    first = browser.get(f"{root}/crystals?origin=scratch&order=ascending")
    more = [part.partition('"')[0] for part in first.body.decode().split('href="')[1:] if "cursor=" in part]
    (address,) = more
    second = browser.get(address.replace("&amp;", "&"))
    shown = [{at for at in range(60) if f" number {at} " in text_of(page)} for page in (first, second)]
    assert shown == [set(range(40)), set(range(40, 60))]
    assert len(first.body) < 60_000


def test_a_crystal_shows_all_that_is_known_of_it(served: Running, browser: Browser, name: str, root: str) -> None:
    cat = added(line("L1", SectionName.BOND, "A cat is there", Trust.OWNER), evidence=(CAT.id,))
    dream = Dream(
        number=1, id="d1", at=NOW, cause="dream", reason="manual", mood="calm", before="", after="",
        changes=cat + added(pointer("L2", "pets", "ada cat", CAT.id)),
    )  # fmt: skip
    with writing(served, name) as store:
        store.lineage.record(dream)
        store.crystals.upsert([replace(CAT, session="later", position=1, source=None, created_at=NOW)])
    answer = browser.get(f"{root}/crystal?id={CAT.id[:12]}")
    said, html = text_of(answer), answer.body.decode()
    for expected in (
        CAT.text, "said by Ada", "talk.md:3@", "in no file", "place 1 of later", "A cat is there", "it rests on this",
        "pets", "ada cat", DERIVED.text, NEW.text, "its meaning is not embedded yet", "fades",
    ):  # fmt: skip
        assert expected in said, expected
    assert f"{root}/line?id=L1" in html
    assert f"{root}/forget?text={CAT.id}" in html
    assert browser.get(f"{root}/crystal.json?id={CAT.id}").json["crystal"]["id"] == CAT.id
    assert browser.get(f"{root}/crystal?id={'0' * 32}").status == 404
    assert browser.get(f"{root}/crystal").status == 422
    beside = browser.get(f"{root}/crystal?id={CAT.id}", HTMX)
    assert "<html" not in beside.body.decode()


def test_a_text_of_the_memory_is_text(browser: Browser, root: str) -> None:
    for path in ("crystals", f"crystal?id={BAD.id}"):
        html = browser.get(f"{root}/{path}").body.decode()
        assert "<img" not in html
        assert "\u202e" not in html
        assert "{{ 7 * 7 }}" in html


@pytest.mark.parametrize("headers", [HTMX, {}], ids=["htmx", "no script"])
def test_the_owner_says_which_holds_and_takes_it_back(
    served: Running, browser: Browser, name: str, root: str, headers: dict[str, str]
) -> None:
    page = browser.get(f"{root}/crystal?id={OLD.id}")
    (turned,) = (form for form in fields_of(page, f"{root}/crystals/supersede") if form.get("newer") == OLD.id)
    answer = browser.act(f"{root}/crystals/supersede", turned, headers)
    assert answer.status == (200 if headers else 303)
    assert [crystal(browser, root, one)["superseded"] for one in (OLD, NEW)] == [False, True]
    assert "Both hold, as you said" not in text_of(browser.get(f"{root}/crystal?id={OLD.id}"))
    if headers:
        assert f"{OLD.id[:12]} holds now" in text_of(answer)
        (undo,) = [form for form in fields_of(answer, f"{root}/crystals/supersede") if "older" in form][:1]
        assert "Both hold" not in text_of(browser.act(f"{root}/crystals/supersede", undo, headers))
        assert [crystal(browser, root, one)["superseded"] for one in (OLD, NEW)] == [True, False]
    both = {"older": OLD.id, "newer": NEW.id, "undo": "true"}
    assert browser.act(f"{root}/crystals/supersede", both, headers).status == (200 if headers else 303)
    assert not any(crystal(browser, root, one)["superseded"] for one in (OLD, NEW))
    assert "Both hold, as you said" in text_of(browser.get(f"{root}/crystal?id={OLD.id}"))
    assert browser.act(f"{root}/crystals/supersede", both, headers).status == 409
    names = f"{OLD.id[:12]} and {NEW.id[:12]}"
    assert acts_of(served, name)[:2] == [
        ("crystals: supersede", "", "NOTHING_TO_DO"),
        ("crystals: supersede", f"both hold: {names}", "done"),
    ]


def test_without_crystals_it_says_what_makes_them(browser: Browser, name: str) -> None:
    assert "There are no crystals yet" in text_of(browser.get(f"/w/{name}/crystals"))
