"""The one place where a text becomes HTML: whatever the text, what a browser reads of it is the text."""

import re
import unicodedata
from datetime import UTC, datetime
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon.pages.templates import ago, environment, prose, short, visible, way
from state.text.words import counted
from tests.daemon.pages.parsed import Parsed
from tests.support.hostile_texts import ALL

_ANYTHING = st.text(st.characters(exclude_categories=()), max_size=60)
# What a text is most likely to break out with, more often than chance would have it.
_SIGNS = "</p> </title> <!-- --> ]]> <b&a=b> a < > \" ' & &lt; &#60; ` `` ** * {{ }} {%".split()
_PIECES = st.sampled_from(["\u0301" * 6, "\ud800", "one word", "\n", "\r\n", "\0", "\u202e", *_SIGNS])
_TEXTS = (
    _ANYTHING
    | st.lists(_PIECES | _ANYTHING, max_size=12).map("".join)
    | st.sampled_from(ALL).map(lambda one: one.text[:2_000])
)
_MOMENTS = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 30), timezones=st.just(UTC))
_SIGN = re.compile("⟨[0-9A-F]{4,6}⟩")


def printed(template: str, **values: object) -> Parsed:
    return Parsed(environment().from_string(template).render(values))


@given(_TEXTS)
@example("a\u0301\u0302\u0303\u0304\u0305\u0306b")
def test_a_text_that_is_printed_is_read_as_it_is(text: str) -> None:
    read = printed('<p title="{{ text }}">{{ text }}</p>', text=text)
    assert read.elements == [("p", {"title": visible(text)})]
    assert read.text == visible(text)
    assert read.others == []


@given(_TEXTS)
def test_what_a_person_edits_is_the_text_itself(text: str) -> None:
    read = printed('<input value="{{ text | exact }}"><textarea>-{{ text | exact }}</textarea>', text=text)
    sent = text.encode("utf-8", "replace").decode()
    assert read.elements == [("input", {"value": sent}), ("textarea", {})]
    assert read.typed == f"-{sent}"
    assert read.text == ""
    assert read.others == []


@given(_TEXTS)
def test_what_is_visible_steers_nothing_and_an_honest_text_stays_as_it_is(text: str) -> None:
    shown = visible(text)
    assert [one for one in shown if unicodedata.category(one) in {"Cc", "Cs", "Zl", "Zp"} and one not in "\n\t"] == []
    assert not set(shown) & set(
        "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c\u200b\ufeff"
    )
    assert visible(shown) == shown
    assert re.search("[\u0300-\u036f]{5}", shown) is None
    if all(one.isprintable() and not unicodedata.combining(one) for one in text):
        assert shown == text
    shown.encode("utf-8")


@given(_TEXTS, st.sampled_from([1, 10, 20_000]))
def test_prose_is_the_text_with_code_and_strong_words_and_says_what_it_left_out(text: str, most: int) -> None:
    read = Parsed(prose(text, most))
    left_out = f" … and {counted(len(text) - most, 'more character')}" if len(text) > most else ""
    assert set(read.names) <= {"code", "strong", "span"}
    assert [row for name, row in read.elements if row] == [{"class": "cut"}] * (left_out != "")
    assert unmarked(read.text) == unmarked(visible(text[:most])) + left_out
    assert read.others == []


def unmarked(text: str) -> str:
    return re.sub(r"[`*]", "", text)


@pytest.mark.parametrize(
    ("text", "names", "reads"),
    [
        ("use `a < b` and **now**", ["code", "strong"], "use a < b and now"),
        ("``a ` b``", ["code"], "a ` b"),
        ("`<img src=x>`", ["code"], "<img src=x>"),
        ("**a `b` c**", ["strong"], "a `b` c"),
        ("[x](javascript:a) ![x](//b) <c@d.e> https://f.g", [], "[x](javascript:a) ![x](//b) <c@d.e> https://f.g"),
        ("2 * 3 * 4 ` 5", [], "2 * 3 * 4 ` 5"),
    ],
)
def test_nothing_but_code_and_strong_words_is_markdown(text: str, names: list[str], reads: str) -> None:
    read = Parsed(prose(text))
    assert (read.names, read.text) == (names, reads)


@given(_TEXTS, st.integers(1, 50))
def test_a_short_text_is_the_beginning_on_one_line(text: str, most: int) -> None:
    shown = short(text, most)
    assert len(shown) <= most
    assert "\n" not in shown
    assert " ".join(text.split()).startswith(shown.removesuffix("…"))
    if len(text) <= most:
        assert shown == " ".join(text.split())


@given(_TEXTS, _TEXTS)
def test_a_text_in_an_address_comes_back_and_is_no_more_than_one_part(name: str, text: str) -> None:
    read = printed('<a href="/w/{{ name | path }}/x?{{ {"a": text, "b": ""} | query }}">x</a>', name=name, text=text)
    ((_, row),) = read.elements
    path, _, fields = (row["href"] or "").partition("?")
    assert path.count("/") == 3
    assert re.fullmatch(r"[\w.~%/-]*", path, re.ASCII)
    assert re.fullmatch(r"[\w.~%+=*-]*", fields, re.ASCII)
    sent = text.encode("utf-8", "replace").decode()
    assert unquote(path.split("/")[2]) == name.encode("utf-8", "replace").decode()
    assert parse_qsl(fields) == ([("a", sent)] if text else [])


@given(_MOMENTS, _MOMENTS)
def test_a_moment_is_told_in_words_with_the_moment_beside_them(at: datetime, now: datetime) -> None:
    read = Parsed(ago(at, now))
    ((name, row),) = read.elements
    assert name == "time"
    assert datetime.fromisoformat(row["datetime"] or "") == at
    assert row["title"] == f"{at.isoformat(' ', 'seconds').partition('+')[0]} UTC"
    assert re.fullmatch(r"\d+ (s|min|h|d|y) ago" if at <= now else r"in \d+ (s|min|h|d|y)", read.text)
    assert Parsed(ago(None, now)).text == "–"


def test_no_template_takes_a_text_for_html() -> None:
    made = environment()
    for name in made.list_templates(["html"]):
        assert made.loader
        source = made.loader.get_source(made, name)[0]
        assert re.findall(r"\|\s*safe|autoescape|Markup|<style|\sstyle=|\son\w+=|hx-on|javascript:", source) == [], (
            name
        )
        assert re.findall(r"<script(?! src=\"\{\{ static \}\}[\w.-]+\"></script>)", source) == [], name
        assert unquoted(source) == [], name


def unquoted(source: str) -> list[str]:
    """The expressions that stand in a tag and in no quoted attribute: there a space would begin an attribute."""
    found, inside, quote = list[str](), False, ""
    for _, kind, value in environment().lex(source):
        if kind != "data":
            if kind == "variable_begin" and inside and not quote:
                found.append(source.splitlines()[_ - 1][:200])
            continue
        for sign in value:
            if not inside:
                inside = sign == "<"
            elif quote:
                quote = "" if sign == quote else quote
            elif sign in "\"'":
                quote = sign
            else:
                inside = sign != ">"
    return found


@pytest.mark.parametrize(
    ("text", "direction"),
    [
        ("Ada prefers tea", "ltr"),
        ("يفضل Ada الشاي في الصباح", "rtl"),
        ("Ada تفضل الشاي في الصباح الباكر", "rtl"),
        ("شاي is what Ada drinks in the morning", "ltr"),
        ("12:30 – 14:00", "auto"),
        ("", "auto"),
    ],
)
def test_the_direction_of_a_text_is_that_of_most_of_its_letters(text: str, direction: str) -> None:
    assert way(text) == direction
