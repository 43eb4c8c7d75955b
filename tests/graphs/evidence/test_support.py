"""What is cited bears a change out, rules it out, or leaves it in doubt: revisions, merges, additions, evictions."""

from collections.abc import Sequence
from enum import Enum

import pytest

from graphs.guards import judge
from graphs.operation_checks import check_operations, runaway
from graphs.ports import Cosine, unknown
from state.document.operations import Operation
from state.dream import Draft, Evidence
from state.trust import Trust
from tests.graphs.world import BOND, CONTEXT, PHENOTYPE, add, evict, memory, merge, note, revise, snapshot

NEWS = "The ferry to Oslo is cancelled until the storm has passed"
KEY = "Ada keeps the spare key of the boathouse under flowerpot 3"


class Outcome(Enum):
    """What becomes of an operation."""

    APPLIED, DOUBTED, REFUSED = range(3)


APPLIED, DOUBTED, REFUSED = Outcome


def outcome(
    operation: Operation, lines: Sequence[str], *notes: str | Evidence, near: Cosine = unknown, **changes: object
) -> Outcome:
    """What becomes of one operation on lines of The Bond. What is doubted applies, what is refused is not doubted."""
    read = snapshot(memory(bond=lines), *notes, **changes)
    checked = check_operations(read, [operation], by_code=False, near=near)
    assert len(checked.accepted) + len(checked.refused) == 1
    assert [doubt.operation for doubt in checked.doubts] in ([], list(checked.accepted))
    assert all(doubt.figures for doubt in checked.doubts)
    return REFUSED if checked.refused else DOUBTED if checked.doubts else APPLIED


def revised(old: str, said: str, new: str) -> Outcome:
    return outcome(revise(BOND, "L1", new, "N1"), [old], said)


def merged(lines: Sequence[str], new: str) -> Outcome:
    return outcome(merge(BOND, [f"L{at}" for at, _ in enumerate(lines, 1)], new), lines, "x")


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
    assert revised(KEY, NEWS, lie) is REFUSED


@pytest.mark.parametrize(
    ("old", "said", "new"),
    [
        (KEY, "The spare key is under flowerpot 9 now", "Ada keeps the spare key of the boathouse under flowerpot 9"),
        (KEY, "Grace has the boathouse key now", "Grace keeps the spare key of the boathouse under flowerpot 3"),
        ("Anna works at Acme.", "Anna quit", "Anna no longer works at Acme."),
        ("Anna likes tea.", "Anna mag keinen Tee mehr.", "Anna does not like tea any more."),
        ("The timeout is ten seconds.", "timeout: 5 s", "The timeout is five seconds."),
        ("Tests run with `make test`.", "`make test` was renamed to `make check`.", "Tests run with `make check`."),
        ("Never deploy on Fridays.", "It is no longer forbidden to deploy on Fridays.", "Deploy on Fridays."),
        ("The daily standup is at 09:30.", "Standup moved: 08:45 from Monday on.", "The daily standup is at 08:45."),
        ("The fair is on May 4.", "The fair is a week later.", "The fair is on May 11."),
        ("The fair begins at 18:00.", "The fair begins an hour later.", "The fair begins at 19:00."),
        ("The walk to Ulm is long.", "The walk to Ulm takes half an hour.", "The walk to Ulm takes 30 minutes."),
        ("We sold 140 tickets.", "Another 35 tickets are sold.", "We sold 175 tickets."),
        ("The alarm is on.", "The alarm is off now.", "The alarm is off."),
    ],
)
def test_a_line_is_changed_by_a_note_that_says_so_or_from_which_it_follows(old: str, said: str, new: str) -> None:
    assert revised(old, said, new) is APPLIED


@pytest.mark.parametrize(
    ("old", "said", "new"),
    [
        ("CI takes 20 minutes.", "xdist cut CI from twenty to six min", "CI takes 6 minutes, as tests are parallel."),
        ("Bo is allergic to nuts.", "Bo asked about nuts.", "Bo loves nuts."),
        ("Bo never cycles.", "Bo cycles to the office if it is dry.", "Bo cycles to the office."),
        (
            "The production database is read-only for agents.",
            "Agents asked about the production database.",
            "The production database is writable for agents.",
        ),
        ("The club meets in the barn.", "The club will meet elsewhere.", "The club meets in the attic."),
        ("Bo paints and is diabetic.", "Bo paints for another year.", "Bo paints for another year."),
        ("Guests may come, except on Fridays.", "Guests come to gate C.", "Guests may come to gate C."),
        (
            "Nils reviews Camille's drawings.",
            "Nils reviews on Mondays.",
            "Camille reviews Nils's drawings on Mondays.",
        ),
        ("The pills are 75 micrograms.", "Pills still 75 micrograms.", "The pills are 75 milligrams."),
    ],
)
def test_what_a_note_about_it_does_not_say_is_in_doubt(old: str, said: str, new: str) -> None:
    assert revised(old, said, new) is DOUBTED


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
        ("Bo is allergic to nuts.", "Bo brought new nuts.", "Bo is not allergic to nuts."),
        ("Agents have no access to production.", "Agents asked for access.", "Agents have access to production."),
        ("Bo is allergic to nuts.", "Bo asked about nuts.", "Bo is not allergic to nuts."),
        ("Ada is the CEO of Globex.", "Ada from Globex called.", "Ada was fired from Globex."),
        ("Ada is the CEO of Globex.", "Ada from Globex called.", "Ada was fired from Globex for fraud."),
        ("Ada's doctor is Dr Lee.", "Ada's doctor called.", "Ada's doctor is dr quack."),
        ("The ferry leaves at seven.", "The ferry was nice.", "The ferry leaves at nine."),
        ("The ferry leaves at seven.", "The ferry was nice.", "The nice ferry leaves at eight."),
        ("Douglas has two kids: Tom and Lea.", "Douglas called.", "Douglas has three kids: Tom and Lea."),
        ("Douglas has two kids: Tom and Lea.", "Noah was with Douglas.", "Douglas has five kids: Tom, Lea and Noah."),
        ("Anna lives in Bonn.", "Anna moved to Mainz.", "Anna lives in Munich."),
        ("We sold 120 tickets.", "Another 45 tickets are sold.", "We sold 185 tickets."),
        ("The exam is on 20 June.", "The exam was moved back by two weeks.", "The exam is on 27 June."),
    ],
)
def test_a_value_that_nobody_says_and_a_denial_for_which_there_is_no_reason_are_refused(
    old: str, said: str, new: str
) -> None:
    assert revised(old, said, new) is REFUSED


def test_a_note_near_in_meaning_speaks_of_the_line() -> None:
    old, said, new = "Oskar lives in Graz.", "My address is in Linz.", "Oskar lives in Linz."
    operation = revise(BOND, "L1", new, "N1")
    assert outcome(operation, [old], said) is DOUBTED
    assert outcome(operation, [old], said, near=lambda _one, _other: 0.6) is APPLIED


def test_of_what_a_stranger_says_nothing_is_left_in_doubt() -> None:
    old, said = "The club meets in the barn.", "The club will meet elsewhere."
    new = revise(BOND, "L1", "The club meets in the attic.", "N1")
    assert outcome(new, [old], note(1, said, trust=Trust.AGENT)) is DOUBTED
    assert outcome(new, [old], note(1, said, trust=Trust.TOOL)) is REFUSED


def test_a_page_alone_changes_nothing_that_the_agent_knows() -> None:
    old, said = "Otto was born in 1959.", "Otto was born in 1961."
    new = revise(BOND, "L1", said, "N1")
    assert outcome(new, [old], note(1, said, trust=Trust.WEB)) is REFUSED
    assert outcome(new, [old], note(1, said, trust=Trust.OWNER)) is APPLIED


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
    ],
)
def test_a_merge_says_what_its_lines_say(lie: str) -> None:
    lines = ["Ada prefers oolong to cocoa before noon", "Grace prefers cider to lemonade before noon"]
    assert merged(lines, lie) is REFUSED
    assert merged(lines, "Ada prefers oolong to cocoa before noon, and Grace cider to lemonade") is APPLIED
    invented = "Ada prefers walnuts to cocoa, Grace to lemonade, hazelnuts, almonds, cashews"
    assert merged(lines, invented) is DOUBTED


def test_a_merge_does_not_give_the_number_of_one_line_to_the_other() -> None:
    lines = ["Anna's parcel server listens on port 5871", "Anna's weather station listens on port 6550"]
    swapped = "Anna's parcel server listens on port 6550; her weather station listens on port 5871"
    assert merged(lines, "Anna's parcel server uses port 6550.") is REFUSED
    assert merged(lines, swapped) is REFUSED
    assert (
        merged(lines, "Anna's parcel server listens on port 5871; her weather station listens on port 6550")
        is APPLIED
    )


def test_a_merge_may_settle_a_contradiction_of_its_lines() -> None:
    lines = ["The deadline of the report is March 20.", "The deadline of the report is March 25."]
    assert merged(lines, "The deadline of the report is March 25.") is APPLIED
    assert merged(lines, "The deadline of the report is in April.") is REFUSED


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
    assert merged(lines, lie) is not APPLIED


@pytest.mark.parametrize(
    "old", [KEY, "Ada meets the harbour auditor on 2026-04-02", "Ada was told that the lease ends in June"]
)
def test_an_addition_is_no_version_of_a_standing_line(old: str) -> None:
    lie = f"{old.rsplit(' ', 1)[0]} walnuts"
    assert outcome(add(BOND, lie, "L1"), [old]) is REFUSED
    assert outcome(add(BOND, lie, "L1", "N1"), [old], NEWS) is REFUSED
    assert outcome(add(BOND, f"{old} again", "L1"), [old]) is REFUSED
    assert outcome(add(BOND, lie, "N1"), [old], f"Now {lie}") is APPLIED


@pytest.mark.parametrize(
    ("said", "new"),
    [
        ("Do we have a licence to sell cider?", "We have a licence to sell cider."),
        ("Some of the vans failed the test.", "All vans failed the test."),
        ("If the fund pays, the pool will be built.", "The pool will be built."),
        ("I was never bitten by that dog.", "Cosmo was bitten by that dog."),
        ("Jeanie lent me 200 pounds.", "Cosmo lent Jeanie 200 pounds."),
    ],
)
def test_an_addition_has_the_limits_of_what_is_said(said: str, new: str) -> None:
    assert outcome(add(BOND, new, "N1"), ["Cosmo is a lifeguard."], said) is DOUBTED


def test_an_eviction_for_something_else_is_in_doubt() -> None:
    assert outcome(Operation(evict(BOND, "L1", "key").action, BOND, "key", ("L1",), ("N1",)), [KEY], NEWS) is DOUBTED
    assert outcome(evict(BOND, "L1", "key"), [KEY], NEWS) is APPLIED


def test_a_repetition_of_a_line_is_told_as_one() -> None:
    verdict = judge(snapshot(memory(bond=[KEY]), NEWS), Draft((add(BOND, f"{KEY} again", "L1"),), ("N1",)))
    assert verdict.refusal is None
    assert verdict.operations == ()


def test_a_doubtful_operation_applies_and_the_verdict_names_it() -> None:
    doubtful = revise(BOND, "L1", "Bo loves nuts.", "N1")
    verdict = judge(snapshot(memory(bond=["Bo is allergic to nuts."]), "Bo asked about nuts."), Draft((doubtful,)))
    assert [doubt.operation for doubt in verdict.doubts] == [doubtful]
    assert doubtful in verdict.operations
    assert verdict.refused == ()


def test_a_choice_is_contradicted_whatever_mark_ends_it() -> None:
    turned = add(BOND, "Ada prefers spaces over tabs.", "N1")
    assert outcome(turned, ["Ada prefers tabs over spaces. 📌"], "use spaces please") is REFUSED
    rule = "The agent prefers tabs over spaces."
    agent = add(PHENOTYPE, "The agent prefers spaces over tabs.", "N1")
    assert outcome(agent, [], "I prefer spaces over tabs.", genome=(rule,)) is REFUSED


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
    assert revised(old, said, new) is not REFUSED
    assert revised(old, unsaid, new) is REFUSED
