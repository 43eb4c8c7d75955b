"""Honest updates that change what stands: revisions with evidence, moves to other projects, consolidations."""

from state.trust import Trust
from tests.graphs.honest import Honest
from tests.graphs.world import (
    BOND,
    CONTEXT,
    GAPS,
    add,
    evict,
    merge,
    note,
    revise,
)

_TEAM = {
    "bond": [
        "Anna leads the payments team and reads every pull request herself.",
        "Ben is the on-call engineer this week.",
        "Carla joined in March and looks after the mobile app.",
        "The linter skill has 12 buyers and a rating of 4.6.",
    ],
    "context": [
        "The checkout service runs on version 4.2.1 in staging and 4.1.7 in production.",
        "The load test on Tuesday reached 1,200 requests per second.",
        "The budget for the quarter is 40,000 euros, of which 12,500 are spent.",
        "The invoice export to DATEV is planned for 2026-04-15.",
        "The staging database has 80 GB and grows by 2 GB a week.",
        "Open tasks: release notes, load test, screenshots.",
    ],
    "gaps": ["Who owns the DNS zone of the shop?"],
}
_PRODUCT = {
    "bond": ["Anna calls the product Falcon in public and in tickets."],
    "context": [
        "The Falcon website is built with Hugo.",
        "Falcon listens on port 8080.",
        "The Falcon repository is at git.example/falcon.",
        "The next Falcon release is planned for May.",
        "Falcon stores its files in /var/lib/falcon.",
        "The Falcon test suite takes eleven minutes.",
    ],
}

DENSE = (
    Honest(["Production is on 4.2.1 as well since this morning."], [
        revise(CONTEXT, "L5", "The checkout service runs on version 4.2.1 in staging and in production.", "N1")
    ], _TEAM),
    Honest(["Load test repeated: 1,850 requests/s, no errors."], [
        revise(CONTEXT, "L6", "The repeated load test reached 1,850 requests per second without errors.", "N1")
    ], _TEAM),
    Honest(["Paid 3,000 euros to the print shop, 15,500 of the budget spent now."], [
        revise(CONTEXT, "L7", "The budget for the quarter is 40,000 euros, of which 15,500 are spent.", "N1")
    ], _TEAM),
    Honest(["DATEV export slips to April 22."], [
        revise(CONTEXT, "L8", "The invoice export to DATEV is planned for 2026-04-22.", "N1")
    ], _TEAM),
    Honest(["DATEV export is live, went out a week early!"], [
        revise(CONTEXT, "L8", "The invoice export to DATEV is live; it went out a week early.", "N1")
    ], _TEAM),
    Honest(["The DATEV export was called off."], [
        revise(CONTEXT, "L8", "The invoice export to DATEV was cancelled.", "N1")
    ], _TEAM),
    Honest(["load test done, screenshots too"], [
        revise(CONTEXT, "L10", "Open tasks: release notes.", "N1")
    ], _TEAM),
    Honest(["Ben is on vacation, Carla took over on-call"], [
        revise(BOND, "L2", "Carla is the on-call engineer this week, as Ben is on vacation.", "N1")
    ], _TEAM),
    Honest(["Anna quit, Carla is the new lead of payments."], [
        revise(BOND, "L1", "Anna left; Carla leads the payments team.", "N1")
    ], _TEAM),
    Honest(["Anna no longer reads every pull request."], [
        revise(BOND, "L1", "Anna leads the payments team and no longer reads every pull request herself.", "N1")
    ], _TEAM),
    Honest(["14 buyers now; rating went to 4.7"], [
        revise(BOND, "L4", "The linter skill has 14 buyers and a rating of 4.7.", "N1")
    ], _TEAM),
    Honest(["DNS zone: it is Ben's."], [
        revise(GAPS, "L11", "The DNS zone of the shop is Ben's; should somebody else own it?", "N1")
    ], _TEAM),
    Honest(["Staging db was cleaned, 35 GB left."], [
        revise(CONTEXT, "L9", "The staging database has 35 GB after it was cleaned.", "N1")
    ], _TEAM),
    Honest(["Carla's last day is June 30."], [
        revise(BOND, "L3", "Carla joined in March, looks after the mobile app, and leaves on June 30.", "N1")
    ], _TEAM),
    Honest(
        [
            "Production is on 4.2.1 as well since this morning.",
            "Load test repeated: 1,850 requests/s, no errors.",
            "15,500 of the budget are spent",
            "DATEV export slips to April 22.",
            "Ben's week is over, Carla is on call",
            "14 buyers now",
        ],
        [
            revise(CONTEXT, "L5", "The checkout service runs on version 4.2.1 in staging and production.", "N1"),
            revise(CONTEXT, "L6", "The repeated load test reached 1,850 requests per second.", "N2"),
            revise(CONTEXT, "L7", "The budget for the quarter is 40,000 euros; 15,500 are spent.", "N3"),
            revise(CONTEXT, "L8", "The invoice export to DATEV is planned for April 22.", "N4"),
            revise(BOND, "L2", "Carla is on call; Ben's week is over.", "N5"),
            revise(BOND, "L4", "The linter skill has 14 buyers and a rating of 4.6.", "N6"),
        ],
        _TEAM,
    ),
    Honest([note(1, "The API moved: base url is https://api.example/v3 now.", trust=Trust.OWNER)], [
        revise(CONTEXT, "L1", "The base URL of the API is https://api.example/v3.", "N1")
    ], {"context": ["The base URL of the API is https://api.example/v2."]}),
    Honest(["Turns out the timeout is five seconds, not ten."], [
        revise(CONTEXT, "L1", "The timeout of the gateway is 5 seconds.", "N1")
    ], {"context": ["The timeout of the gateway is ten seconds."]}),
    Honest(["Flaky login test is fixed."], [
        revise(CONTEXT, "L1", "CI is green again; the flaky login test was fixed.", "N1")
    ], {"context": ["CI is red because of the flaky login test."]}),
    Honest(["Mia's school moved the play to 18:30 on Thursday"], [
        revise(CONTEXT, "L1", "The school play of Mia is on Thursday at 18:30.", "N1")
    ], {"context": ["The school play of Mia is on Wednesday at 17:00."]}),
    Honest(["we dropped redis, sessions live in postgres"], [
        revise(CONTEXT, "L1", "Sessions are stored in Postgres; Redis was dropped.", "N1")
    ], {"context": ["Sessions are stored in Redis with a lifetime of 24 hours."]}),
)  # fmt: skip

RENAMES = (
    Honest(["The product is renamed: Falcon becomes Kestrel, everywhere."], [
        revise(BOND, "L1", "Anna calls the product Kestrel in public and in tickets.", "N1"),
        revise(CONTEXT, "L2", "The Kestrel website is built with Hugo.", "N1"),
        revise(CONTEXT, "L3", "Kestrel listens on port 8080.", "N1"),
        revise(CONTEXT, "L4", "The Kestrel repository is at git.example/kestrel.", "N1"),
        revise(CONTEXT, "L5", "The next Kestrel release is planned for May.", "N1"),
        revise(CONTEXT, "L6", "Kestrel stores its files in /var/lib/kestrel.", "N1"),
        revise(CONTEXT, "L7", "The Kestrel test suite takes eleven minutes.", "N1"),
    ], _PRODUCT),
    Honest(["Anna married and is called Anna Weber now."], [
        revise(BOND, "L1", "Anna Weber prefers short answers.", "N1")
    ], {"bond": ["Anna Schmidt prefers short answers."]}),
    Honest(["`make test` was renamed to `make check`."], [
        revise(CONTEXT, "L1", "All tests run with `make check`.", "N1")
    ], {"context": ["All tests run with `make test`."]}),
    Honest(["The user changed pronouns to they/them."], [
        revise(BOND, "L1", "The user prefers they/them as pronouns.", "N1")
    ], {"bond": ["The user prefers she/her as pronouns."]}),
)  # fmt: skip

# A user who turns to something else: most of the old Active Context leaves, the new project comes.
MOVES = (
    Honest(
        [
            "The billing project is done, I work on the telescope firmware from today.",
            "Firmware is written in Rust, target is an STM32F4.",
            "First milestone: motor control by June 12.",
        ],
        [
            *(evict(CONTEXT, f"L{number}", f"Billing ticket {number + 199}") for number in range(1, 19)),
            add(CONTEXT, "The user works on the telescope firmware; the billing project is done.", "N1"),
            add(CONTEXT, "The telescope firmware is written in Rust for an STM32F4.", "N2"),
            add(CONTEXT, "First milestone of the firmware: motor control by June 12.", "N3"),
        ],
        {
            "context": [
                f"Billing ticket {number} waits for the review of module{number}." for number in range(200, 218)
            ]
        },
    ),
    Honest(
        ["New job! I'm at Nordlicht now, doing wind farm forecasts in Julia."],
        [
            revise(BOND, "L1", "The user works at Nordlicht on wind farm forecasts.", "N1"),
            add(CONTEXT, "The forecasts are written in Julia.", "N1"),
            evict(CONTEXT, "L2", "The old job's deployments"),
            evict(CONTEXT, "L3", "The old job's standup"),
        ],
        {
            "bond": ["The user works at Acme on the web shop."],
            "context": ["Deployments at Acme happen on Mondays.", "The Acme standup is at 9:15."],
        },
    ),
    Honest(
        ["Wir ziehen nach Wien um, die Wohnung in Graz ist gekündigt."],
        [
            revise(BOND, "L1", "Die Familie zieht nach Wien um.", "N1"),
            evict(CONTEXT, "L2", "Die Wohnung in Graz"),
        ],
        {"bond": ["Die Familie wohnt in Graz."], "context": ["Die Heizung in Graz wird im Mai gewartet."]},
    ),
)

CONSOLIDATIONS = (
    Honest(["x"], [
        merge(CONTEXT, ["L1", "L2", "L3", "L4"], "Tickets 310, 311, 312 and 313 are closed.")
    ], {"context": [f"Ticket {number} is closed." for number in range(310, 314)]}),
    Honest(["x"], [
        merge(CONTEXT, ["L1", "L2"], "Two bugs of the importer are open: empty rows and tabs.")
    ], {"context": ["The importer has an open bug with empty rows.", "The importer has an open bug with tabs."]}),
    Honest(["x"], [
        merge(BOND, ["L1", "L2"], "Anna lives in Bonn and Ben in Köln.")
    ], {"bond": ["Anna lives in Bonn.", "Ben lives in Köln."]}),
    Honest(["x"], [
        merge(BOND, ["L1", "L2"], "Anna and Ben both like green tea.")
    ], {"bond": ["Anna likes green tea.", "Ben likes green tea."]}),
    Honest(["deadline is March 25, final"], [
        merge(CONTEXT, ["L1", "L2"], "The deadline of the report is March 25, and it is final.", "N1")
    ], {"context": ["The deadline of the report is March 20.", "The deadline of the report is March 25."]}),
    Honest(["x"], [
        merge(CONTEXT, ["L1", "L2"], "The dev server uses port 3000, the staging server port 8080.")
    ], {"context": ["The dev server uses port 3000.", "The staging server uses port 8080."]}),
    Honest(["x"], [
        merge(CONTEXT, ["L1", "L2"], "Die Tests laufen seit Montag parallel und dauern 6 Minuten.")
    ], {"context": ["Die Tests laufen seit Montag parallel.", "Die Tests dauern 6 Minuten."]}),
    Honest(["Backups work again."], [
        merge(CONTEXT, ["L1", "L2"], "The nightly backup failed twice because of a full disk; it works again.", "N1")
    ], {"context": [f"The nightly backup failed on {day}: disk full." for day in ("Monday", "Tuesday")]}),
    Honest(["x"], [
        *(
            merge(CONTEXT, [f"L{at}", f"L{at + 1}"], f"Module{at + 99} and module{at + 100} are green and released.")
            for at in range(1, 39, 2)
        )
    ], {"context": [f"Module{number} is {state}." for number in range(100, 138, 2)
                    for number, state in ((number, "green and released"), (number + 1, "green and released"))]}),
)  # fmt: skip
