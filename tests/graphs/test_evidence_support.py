"""What is cited has to bear out what becomes of a line: revisions, merges, and additions beside a line."""

import pytest

from graphs.evidence_support import (
    tells_change,
    unsupported_addition,
    unsupported_merge,
    unsupported_revision,
    values,
)
from graphs.guards import judge
from graphs.operation_checks import check_operations, runaway
from state.dream import Draft
from tests.graphs.world import BOND, CONTEXT, add, evict, memory, merge, revise, snapshot

NEWS = "The ferry to Oslo is cancelled until the storm has passed"
KEY = "Ada keeps the spare key of the boathouse under flowerpot 3"


@pytest.mark.parametrize(
    "lie",
    [
        "Grace keeps the spare key of the boathouse under flowerpot 3",
        "Mallory keeps the spare key of the boathouse under flowerpot 3",
        "Ada keeps the spare key of the bakery under flowerpot 3",
        "Ada never keeps the spare key of the boathouse under flowerpot 3",
        "Ada keeps the spare key of the boathouse under flowerpot walnuts",
        "Ada keeps the spare key of the boathouse",
        "Ada keeps the spare key of the",
        "Ada boathouse key walnuts rain snow hail storm",
    ],
)
def test_a_line_is_not_changed_by_a_note_about_something_else(lie: str) -> None:
    assert unsupported_revision(KEY, lie, [NEWS], [], [KEY], 1) is not None
    (refused,) = check_operations(snapshot(memory(bond=[KEY]), NEWS), [revise(BOND, "L1", lie, "N1")], by_code=False)[
        1
    ]
    assert refused.guard == "evidence"


@pytest.mark.parametrize(
    ("old", "said", "new"),
    [
        (KEY, "The spare key is under flowerpot 9 now", "Ada keeps the spare key of the boathouse under flowerpot 9"),
        (KEY, "Grace has the boathouse key now", "Grace keeps the spare key of the boathouse under flowerpot 3"),
        (KEY, "no more boathouse key for Ada", "Ada no longer keeps the spare key of the boathouse"),
        ("Anna works at Acme.", "Anna quit", "Anna no longer works at Acme."),
        ("Anna likes tea.", "Anna mag keinen Tee mehr.", "Anna does not like tea any more."),
        ("The timeout is ten seconds.", "timeout: 5 s", "The timeout is five seconds."),
        ("Tests run with `make test`.", "`make test` was renamed to `make check`.", "Tests run with `make check`."),
        ("Anna plays chess and go.", "Anna gave up chess", "Anna plays go."),
        ("CI takes 20 minutes.", "xdist cut CI from twenty to six min", "CI takes 6 minutes, as tests are parallel."),
        ("Never deploy on Fridays.", "It is no longer forbidden to deploy on Fridays.", "Deploy on Fridays."),
    ],
)
def test_a_line_is_changed_by_a_note_that_says_so_or_is_about_it(old: str, said: str, new: str) -> None:
    assert unsupported_revision(old, new, [said], [], [old], 1) is None


def test_a_name_that_the_note_does_not_say_is_an_invention_also_in_a_line_that_it_is_about() -> None:
    old, said = "Anna lives in Bonn.", "Anna asked about flats; Bonn is expensive."
    assert (
        unsupported_revision(old, "Anna lives in Paris.", [said], [], [old], 1) == "paris is in nothing that it cites"
    )
    assert unsupported_revision(old, "Anna lives in expensive Bonn.", [said], [], [old], 1) is None


def test_a_note_that_justifies_many_revisions_names_what_they_are_about() -> None:
    lines = [f"The crane nested by post {number}" for number in range(10)]
    said, new = "The crane is back", "The crane was back by post 4"
    assert unsupported_revision(lines[4], "The crane slept by post 4", [said], [], lines, 3) is None
    assert unsupported_revision(lines[4], "The crane slept by post 4", [said], [], lines, 4) is not None
    assert unsupported_revision(lines[4], new, ["The crane is back by post 4"], [], lines, 4) is None


def test_a_note_that_says_the_old_and_the_new_name_renames_everything() -> None:
    lines = [f"Falcon has module{number}." for number in range(30)]
    operations = [revise(CONTEXT, f"L{at}", f"Kestrel has module{at - 1}.", "N1") for at in range(1, 31)]
    read = snapshot(memory(context=lines), "Falcon is called Kestrel now")
    assert check_operations(read, operations, by_code=False) == (tuple(operations), (), ())


@pytest.mark.parametrize(
    "lie",
    [
        "Mallory prefers oolong and cider before noon",
        "Ada prefers oolong to cocoa, Mallory cider to lemonade before noon",
        "Grace prefers oolong to cocoa before noon; Ada prefers cider to lemonade before noon",
        "Ada prefers walnuts to cocoa, Grace to lemonade, hazelnuts, almonds, cashews",
    ],
)
def test_a_merge_says_what_its_lines_say(lie: str) -> None:
    lines = ["Ada prefers oolong to cocoa before noon", "Grace prefers cider to lemonade before noon"]
    assert unsupported_merge(lines, lie, [], []) is not None
    good = "Ada prefers oolong to cocoa before noon, and Grace cider to lemonade"
    assert unsupported_merge(lines, good, [], []) is None


def test_a_merge_does_not_give_the_number_of_one_line_to_the_other() -> None:
    lines = ["Anna's parcel server listens on port 5871", "Anna's weather station listens on port 6550"]
    swapped = "Anna's parcel server listens on port 6550; her weather station listens on port 5871"
    assert unsupported_merge(lines, "Anna's parcel server uses port 6550.", [], []) is not None
    assert unsupported_merge(lines, swapped, [], []) is not None
    right = "Anna's parcel server listens on port 5871; her weather station listens on port 6550"
    assert unsupported_merge(lines, right, [], []) is None


def test_a_merge_may_settle_a_contradiction_of_its_lines() -> None:
    lines = ["The deadline of the report is March 20.", "The deadline of the report is March 25."]
    assert unsupported_merge(lines, "The deadline of the report is March 25.", [], []) is None
    assert unsupported_merge(lines, "The deadline of the report is in April.", [], []) is not None


def test_merges_leave_at_most_twenty_lines_fewer() -> None:
    def pairs(count: int) -> list[object]:
        return [merge(CONTEXT, [f"L{at}", f"L{at + 1}"], "x") for at in range(1, 2 * count, 2)]

    other = add(BOND, "Anna plays chess.", "N1")
    kept, refused = runaway([*pairs(20), other])  # type: ignore[list-item]
    assert (len(kept), refused) == (21, ())
    kept, refused = runaway([*pairs(21), evict(CONTEXT, "L99", "x"), other])  # type: ignore[list-item]
    assert kept == (*pairs(20), evict(CONTEXT, "L99", "x"), other)
    assert {one.figures for one in refused} == {"merges leave 21 lines fewer in one answer, at most 20"}


def test_a_merge_of_too_many_lines_does_not_take_the_others_along() -> None:
    all_in_one = merge(CONTEXT, [f"L{at}" for at in range(1, 23)], "x")
    small = merge(CONTEXT, ["L30", "L31"], "x")
    kept, refused = runaway([small, all_in_one, merge(CONTEXT, ["L40", "L41"], "y")])
    assert kept == (small, merge(CONTEXT, ["L40", "L41"], "y"))
    assert [one.operation for one in refused] == [all_in_one]
    assert len(runaway([small, small, all_in_one])[0]) == 2


def test_a_long_honest_consolidation_applies_in_part() -> None:
    lines = [f"Module{number} is green." for number in range(1, 61)]
    merges = [
        merge(CONTEXT, [f"L{at}", f"L{at + 1}"], f"Module{at} and module{at + 1} are green.")
        for at in range(1, 61, 2)
    ]
    verdict = judge(snapshot(memory(context=lines), "x"), Draft(tuple(merges), ("N1",)))
    assert verdict.refusal is None
    assert verdict.operations == tuple(merges[:20])
    assert {one.guard for one in verdict.refused} == {"eviction runaway"}


@pytest.mark.parametrize(
    ("old", "said", "new"),
    [
        ("Never deploy on Fridays.", "We talked about deploys on Fridays.", "Deploy on Fridays."),
        ("Never deploy on Fridays.", "We talked about deploys on Fridays.", "Always deploy on Fridays."),
        ("Never deploy on Fridays.", "Bo asked whether we deploy on Fridays now.", "Deploy on Fridays."),
        ("Never deploy on Fridays.", "Can we deploy on Fridays now?", "Deploy on Fridays."),
        ("Never deploy on Fridays.", "No, never deploy on Fridays!", "Deploy on Fridays."),
        ("Never deploy on Fridays.", "Never deploy on Fridays again!", "Deploy on Fridays."),
        ("Never push on Fridays. Never merge alone.", "Bo was merging alone.", "Never push on Fridays. Merge alone."),
        ("Agents have no access to production.", "Agents asked for access.", "Agents have access to production."),
        ("Bo is allergic to nuts.", "Bo asked about nuts.", "Bo loves nuts."),
        ("Bo is allergic to nuts.", "Bo asked about nuts.", "Bo is not allergic to nuts."),
        ("Bo is allergic to nuts.", "Bo brought nuts.", "Bo loves nuts."),
        ("Bo is allergic to nuts.", "Bo brought new nuts.", "Bo is not allergic to nuts."),
        (
            "The production database is read-only for agents.",
            "Agents asked about the production database.",
            "The production database is writable for agents.",
        ),
        ("Ada is the CEO of Globex.", "Ada from Globex called.", "Ada was fired from Globex."),
        ("Ada is the CEO of Globex.", "Ada from Globex called.", "Ada was fired from Globex for fraud."),
        ("Ada's doctor is Dr Lee.", "Ada's doctor called.", "Ada's doctor is dr quack."),
        ("The ferry leaves at seven.", "The ferry was nice.", "The ferry leaves at nine."),
        ("The ferry leaves at seven.", "The ferry was nice.", "The nice ferry leaves at eight."),
        ("Douglas has two kids: Tom and Lea.", "Douglas called.", "Douglas has three kids: Tom and Lea."),
        ("Douglas has two kids: Tom and Lea.", "Noah was with Douglas.", "Douglas has five kids: Tom, Lea and Noah."),
        ("Anna lives in Bonn.", "Anna moved to Mainz.", "Anna lives in Munich."),
    ],
)
def test_a_note_about_the_subject_alone_is_no_reason_to_say_something_else_of_it(
    old: str, said: str, new: str
) -> None:
    assert unsupported_revision(old, new, [said], [], [old], 1) is not None
    (refused,) = check_operations(snapshot(memory(bond=[old]), said), [revise(BOND, "L1", new, "N1")], by_code=False)[
        1
    ]
    assert refused.guard == "evidence"


_PORTS = ("Server A listens on 8080.", "Server B listens on 9090.")


@pytest.mark.parametrize(
    ("lines", "lie"),
    [
        (_PORTS, "Servers A and B listen on 9090 and 8080."),
        (_PORTS, "Server A listens on 9090, server B on 8080."),
        (_PORTS, "Ports: A 9090, B 8080."),
        (_PORTS, "Mallory: A 8080, B 9090."),
        (("Backup server listens on 9090.", "Server listens on 8080."), "Backup server listens on 8080."),
        (("Weekly sync on Tuesday.", "Retro on Friday."), "Weekly sync is on Friday, retro on Tuesday."),
        (("Weekly sync on Tuesday.", "Retro on Friday."), "Meetings: weekly sync on Friday, retro on Tuesday."),
        (("Anna lives in Bonn.", "Ben lives in Ulm."), "Anna and Ben live in Ulm and Bonn."),
        (("Anna lives in Bonn.", "Ben lives in Ulm."), "Ben and Anna live in Bonn and Ulm."),
        (("Ada leaves at seven.", "Grace leaves at nine."), "Ada and Grace leave at 9 and 7."),
        (("Ada keeps the key.", "Ada prefers tea."), "Mallory's habits: keeps the key and prefers tea."),
        (("Grace's cat is Miso.", "Grace's dog is Bento."), "Grace has three pets: Miso the cat and Bento the dog."),
        (
            ("Rent is 900 euros.", "Power is 60 euros.", "Internet is 30 euros."),
            "Monthly costs: rent 900, power 30, internet 60 euros.",
        ),
    ],
)
def test_a_heading_or_a_list_says_of_each_what_its_line_says(lines: tuple[str, ...], lie: str) -> None:
    assert unsupported_merge(lines, lie, [], []) is not None


def test_an_addition_is_no_version_of_a_standing_line() -> None:
    known = [("L1", KEY)]
    lie = "Ada keeps the spare key of the boathouse under flowerpot walnuts"
    assert unsupported_addition(lie, [], known) == "it says L1 with walnut, which is in no input that it cites"
    assert unsupported_addition(lie, [NEWS], known) is not None
    assert unsupported_addition(f"{KEY} again", [], known) == "L1 says so already"
    assert unsupported_addition(lie, ["The spare key is in the walnuts"], known) is None


def test_a_repetition_of_a_line_is_told_as_one() -> None:
    verdict = judge(snapshot(memory(bond=[KEY]), NEWS), Draft((add(BOND, f"{KEY} again", "L1"),), ("N1",)))
    assert verdict.refusal is None
    assert verdict.operations == ()


@pytest.mark.parametrize(
    ("text", "old", "found"),
    [
        ("Anna met Ben in Bonn.", "Anna met Carla.", {"ben", "bonn"}),
        ("Mallory met Ben.", "Anna met Ben.", {"mallory", "ben"}),
        ("Deployments are frozen. Fridays too.", "Anna froze them.", {"deployment"}),
        ("Deployments of Anna are frozen.", "Anna froze deployments.", {"anna"}),
        ("There are seven of them, one more than six", "", {"seven", "six"}),
        ("v2 of it", "", {"v2"}),
    ],
)
def test_names_and_numbers_are_values(text: str, old: str, found: set[str]) -> None:
    assert values(text, [old]) == found


# By language: a line, its denial, an input that says so, an input that says something else.
NO_LONGER = {
    "en": ("Anna drinks coffee", "Anna does not drink coffee", "Anna no longer drinks coffee", "Anna drinks coffee"),
    "de": ("Anna trinkt Kaffee", "Anna trinkt keinen Kaffee", "Anna trinkt keinen Kaffee mehr", "Anna trinkt Kaffee"),
    "fr": ("Anna boit du café", "Anna ne boit pas de café", "Anna ne boit plus de café", "Anna boit du café"),
    "es": ("Anna bebe café", "Anna no bebe café", "Anna ya no bebe café", "Anna bebe café"),
    "pt": ("Anna bebe café", "Anna não bebe café", "Anna já não bebe café", "Anna bebe café"),
    "it": ("Anna beve caffè", "Anna non beve caffè", "Anna non beve più caffè", "Anna beve caffè"),
    "ru": ("Анна пьёт кофе", "Анна не пьёт кофе", "Анна больше не пьёт кофе", "Анна пьёт кофе"),
}


@pytest.mark.parametrize("language", NO_LONGER)
def test_a_line_is_turned_around_by_who_says_so(language: str) -> None:
    old, new, said, unsaid = NO_LONGER[language]
    assert unsupported_revision(old, new, [said], [], [old], 1) is None
    assert unsupported_revision(old, new, [unsaid], [], [old], 1) is not None


@pytest.mark.parametrize(
    "said", ["我不再喝咖啡", "我已经搬家了", "もうコーヒーは飲みません", "Я больше не пью кофе", "Bebo té ahora"]
)
def test_a_change_is_told_in_other_languages(said: str) -> None:
    assert tells_change(said)
