"""Honest updates of memories of other shapes: hardly begun, just migrated, full of code, very long, much at once."""

from datetime import timedelta

from state.dream import Evidence, Kind
from state.trust import Trust
from tests.graphs.honest import Honest
from tests.graphs.world import (
    BOND,
    CONTEXT,
    GAPS,
    NOW,
    PHENOTYPE,
    add,
    evict,
    merge,
    revise,
)


def _old(number: int, text: str) -> Evidence:
    """Text from before the first dream."""
    return Evidence(f"T{number}", Kind.OLD_TEXT, text, 0.75, Trust.OWNER, NOW - timedelta(days=200), f"old{number}")


def _crystal(number: int, text: str, trust: Trust = Trust.AGENT) -> Evidence:
    return Evidence(f"C{number}", Kind.CRYSTAL, text, 0.6, trust, NOW - timedelta(days=2), f"crystal{number}")


YOUNG = (
    Honest(["hi"], [add(CONTEXT, "The user said hi.", "N1")]),
    Honest(["I am Tom"], [add(BOND, "The user is Tom.", "N1")]),
    Honest(["Tom, 34, Leeds"], [add(BOND, "The user is Tom, 34, from Leeds.", "N1")]),
    Honest(["he likes it terse"], [revise(BOND, "L1", "Tom likes it terse.", "N1")], {"bond": ["Tom is new."]}),
    Honest(["Tom left"], [revise(BOND, "L1", "Tom left.", "N1")], {"bond": ["Tom is here."]}),
    Honest(["ok"], [], {"bond": ["Tom is here."]}),
)

MIGRATED = (
    Honest(
        [
            _old(1, "Sarah is a nurse. She works nights at St. Mary's and studies for the CCRN exam in October."),
            _old(2, "## Preferences\n- metric units\n- no emojis\n- dates as DD.MM.YYYY"),
            _old(3, "Her sister Lily visits on the first weekend of each month."),
        ],
        [
            add(BOND, "Sarah is a nurse who works nights at St. Mary's.", "T1"),
            add(CONTEXT, "Sarah studies for the CCRN exam in October.", "T1"),
            add(BOND, "Sarah prefers metric units, no emojis, and dates as DD.MM.YYYY.", "T2"),
            add(BOND, "Sarah's sister Lily visits on the first weekend of each month.", "T3", "T1"),
        ],
    ),
    Honest(
        [_old(1, "project zeta: c++20, cmake ≥ 3.28, clang-tidy on, warnings are errors, tests in catch2")],
        [
            add(CONTEXT, "Project Zeta uses C++20, CMake 3.28 or newer and Catch2.", "T1"),
            add(CONTEXT, "In project Zeta warnings are errors and clang-tidy is on.", "T1"),
        ],
    ),
    Honest([_crystal(1, "user: I moved to Lisbon"), _crystal(2, "user: the flat is in Alfama")], [
        add(BOND, "The user moved to Lisbon; the flat is in Alfama.", "C1", "C2")
    ]),
)  # fmt: skip

CODE = (
    Honest(["`git rebase -i HEAD~3` is what Anna means by 'clean up'"], [
        add(BOND, "By “clean up” Anna means `git rebase -i HEAD~3`.", "N1")
    ]),
    Honest(["def price(x): return x * 1.19  # VAT of Germany"], [
        add(CONTEXT, "`price(x)` returns `x * 1.19`, the VAT of Germany.", "N1")
    ]),
    Honest(["curl -H 'X-Trace: 1' localhost:9090/metrics works"], [
        add(CONTEXT, "Metrics are at localhost:9090/metrics (`curl -H 'X-Trace: 1'`).", "N1")
    ]),
    Honest(["regex for ids is now ^[A-Z]{2}-\\d{6}$"], [
        revise(CONTEXT, "L1", r"Ids match `^[A-Z]{2}-\d{6}$`.", "N1")
    ], {"context": [r"Ids match `^[A-Z]{2}-\d{4}$`."]}),
    Honest(["SELECT count(*) FROM orders gives 1204877"], [
        add(CONTEXT, "The orders table has 1,204,877 rows.", "N1")
    ]),
    Honest(["bump: fastapi 0.110.0 -> 0.115.2"], [
        revise(CONTEXT, "L1", "The backend uses fastapi 0.115.2.", "N1")
    ], {"context": ["The backend uses fastapi 0.110.0."]}),
    Honest(["TODO(anna): drop py3.9, min is 3.11"], [
        revise(CONTEXT, "L1", "The minimum is Python 3.11; 3.9 is to be dropped.", "N1")
    ], {"context": ["The minimum is Python 3.9."]}),
    Honest(["exit code 137 = OOM, give it 4G"], [
        add(CONTEXT, "Exit code 137 means out of memory (OOM); it needs 4G.", "N1")
    ]),
)  # fmt: skip

_SENTENCE = "The run on node{0} used seed {0} and reached a loss of 0.{0} after {0} epochs"
LONG = (
    Honest(["; ".join(_SENTENCE.format(number) for number in range(11, 18))], [
        add(CONTEXT, "; ".join(_SENTENCE.format(number) for number in range(11, 18)) + ".", "N1")
    ]),
    Honest(["Seed 17 was a mistake, it was 71."], [
        revise(CONTEXT, "L1", "; ".join(_SENTENCE.format(number) for number in range(11, 17)) + "; seed 71.", "N1")
    ], {"context": ["; ".join(_SENTENCE.format(number) for number in range(11, 18)) + "."]}),
    Honest(["a" * 40 + " is the token of the demo page, not a secret: " + "word " * 60], [
        add(CONTEXT, "The demo page has a token of the letter a; it is not a secret.", "N1")
    ]),
)  # fmt: skip

MANY_AT_ONCE = (
    Honest(
        [f"Ticket {number} shipped." for number in range(400, 410)],
        [
            *(revise(CONTEXT, f"L{at + 1}", f"Ticket {at + 400} shipped.", f"N{at + 1}") for at in range(10)),
            *(evict(CONTEXT, f"L{at}", f"Ticket {at + 399}") for at in range(11, 31)),
        ],
        {"context": [f"Ticket {number} waits for its release." for number in range(400, 432)]},
    ),
    Honest(
        ["Old spikes can go: " + ", ".join(f"spike{number}" for number in range(20))],
        [evict(CONTEXT, f"L{number}", f"Spike {number - 1}") for number in range(1, 21)],
        {"context": [f"The spike{number} branch compares {number + 2} parsers." for number in range(30)]},
    ),
    Honest(
        [
            "Retro: pairing works, estimates do not.",
            "Sold 2 linter licenses for 9 USDC.",
            "Why is DNS slow at night?",
        ],
        [
            add(PHENOTYPE, "The agent learned that pairing works and estimates do not.", "N1"),
            add(CONTEXT, "2 linter licenses were sold for 9 USDC.", "N2"),
            add(GAPS, "Why is DNS slow at night?", "N3"),
            merge(CONTEXT, ["L1", "L2"], "The report and the slides are due on Friday."),
            evict(CONTEXT, "L3", "The cake for Ben"),
        ],
        {"context": ["The report is due on Friday.", "The slides are due on Friday.", "Ben's cake was ordered."]},
    ),
)

OTHER_LANGUAGES = (
    Honest(["Frist verschoben auf den 3. Juni"], [
        revise(CONTEXT, "L1", "Die Frist für den Antrag ist der 3. Juni.", "N1")
    ], {"context": ["Die Frist für den Antrag ist der 20. Mai."]}),
    Honest(["Anna mag keinen Tee mehr."], [
        revise(BOND, "L1", "Anna mag keinen Tee.", "N1")
    ], {"bond": ["Anna mag Tee."]}),
    Honest(["Anna mag keinen Tee mehr."], [
        revise(BOND, "L1", "Anna does not like tea any more.", "N1")
    ], {"bond": ["Anna likes tea."]}),
    Honest(["Anna wohnt jetzt in Köln."], [
        revise(BOND, "L1", "Anna lives in Köln.", "N1")
    ], {"bond": ["Anna lives in Bonn."]}),
    Honest(["Le serveur écoute maintenant sur le port 8443."], [
        revise(CONTEXT, "L1", "Le serveur écoute sur le port 8443.", "N1")
    ], {"context": ["Le serveur écoute sur le port 8080."]}),
    Honest(["締め切りは3月25日に延期されました。"], [
        revise(CONTEXT, "L1", "締め切りは3月25日です。", "N1")
    ], {"context": ["締め切りは3月20日です。"]}),
    Honest(["Анна переехала в Москву."], [
        revise(BOND, "L1", "Анна живёт в Москве, она переехала.", "N1")
    ], {"bond": ["Анна живёт в Казани."]}),
    Honest(["La reunión pasa a las 18:00."], [
        revise(CONTEXT, "L1", "La reunión es a las 18:00.", "N1")
    ], {"context": ["La reunión es a las 17:00."]}),
    Honest(["회의는 오후 세 시로 바뀌었다."], [
        revise(CONTEXT, "L1", "회의는 오후 세 시에 있다.", "N1")
    ], {"context": ["회의는 오후 두 시에 있다."]}),
    Honest(["שרה אוהבת תשובות קצרות."], [add(BOND, "שרה אוהבת תשובות קצרות.", "N1")]),
    Honest(["Zosia ma urodziny 4 maja."], [add(BOND, "Zosia ma urodziny 4 maja.", "N1")]),
    Honest(["Người dùng thích câu trả lời ngắn."], [add(BOND, "Người dùng thích câu trả lời ngắn.", "N1")]),
)  # fmt: skip
