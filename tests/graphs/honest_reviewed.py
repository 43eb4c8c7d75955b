"""Honest updates that were refused once, or that readers wrote who had not seen the rules."""

from collections.abc import Sequence

from tests.graphs.honest import Honest
from tests.graphs.world import BOND, CONTEXT, merge, revise


def _revised(old: str, said: str, new: str) -> Honest:
    return Honest([said], [revise(BOND, "L1", new, "N1")], {"bond": [old]})


def _merged(lines: Sequence[str], new: str) -> Honest:
    names = [f"L{at}" for at, _ in enumerate(lines, 1)]
    return Honest(["x"], [merge(CONTEXT, names, new)], {"context": lines})


_SERVERS = ("Server A listens on port 8080.", "Server B listens on port 9090.")
_MEETINGS = ("Weekly sync on Tuesday.", "Retro on Friday.")
_KIDS, _NOAH = "Douglas has two kids: Tom and Lea.", "Congrats to Douglas! Noah was born on Sunday."

# Reworded so far that only the operation says which line it was: as a whole document, some are another line.
REWORDED = (
    _merged(["Server A listens on 8080.", "Server B listens on 9090."], "Ports: A 8080, B 9090."),
    _merged(["Likes hiking in the Alps.", "Likes skiing."], "Enjoys outdoor sports: hiking in the Alps and skiing."),
    _merged(["Uses zsh.", "Uses tmux.", "Uses neovim."], "Terminal setup: zsh, tmux, neovim."),
    _revised(_KIDS, _NOAH, "Douglas has three kids: Tom, Lea and baby Noah."),
    _revised(_KIDS, _NOAH, "Douglas has 3 kids: Tom, Lea and Noah."),
    _revised("User lives in Berlin.", "I moved to München last week", "User lives in Munich."),
    _revised(
        "The test suite takes about 20 minutes.",
        "xdist cut CI from twenty to six min",
        "The test suite takes about 6 minutes since tests run in parallel.",
    ),
    _revised(
        "Deploys run on Fridays at 17:00.",
        "We moved releases to Monday mornings, 9am, after what happened in March",
        "Deploys run on Mondays at 09:00 since the March outage.",
    ),
    _revised(
        "Ada works at Initech as a designer.",
        "Ada started her new job at Globex today",
        "Ada left Initech; she is a designer at Globex.",
    ),
    _revised("Prefers dark mode.", "switched the editor theme to light because of glare", "Prefers light mode."),
    _revised("The API key rotates monthly.", "rotation is quarterly from now on", "The API key rotates quarterly."),
    _revised("Backup runs nightly.", "cron for backups changed to every hour", "Backup runs hourly."),
    _revised(
        "The office is closed on Mondays.",
        "From June on we open the office on Mondays too.",
        "The office is open on Mondays again since June.",
    ),
    _revised(
        "Bo is allergic to nuts.",
        "Bo's allergy test came back: nuts are fine for him, negative.",
        "Bo is not allergic to nuts after all; the test was negative.",
    ),
    _revised(
        "Never deploy on Fridays.",
        "Friday deploys are allowed now, as long as they are done before noon.",
        "Deploy on Fridays only before noon.",
    ),
    _revised(
        "The team has four engineers.",
        "Priya joined the team as an engineer on Monday.",
        "The team has five engineers, Priya being the newest.",
    ),
    _revised("Lena wohnt in Köln.", "Lena ist nach Duesseldorf umgezogen.", "Lena wohnt in Düsseldorf."),
    _revised(
        "The nightly job fails about 3 times a week.",
        "With the retry in place the nightly job has been green for a month.",
        "The nightly job no longer fails since the retry was added.",
    ),
    _revised("The build is red on main.", "build passes again", "The build is green on main."),
    _revised("The importer does not work.", "importer is fixed", "The importer works."),
    _revised("Prefers tabs.", "use spaces please", "Prefers spaces, not tabs."),
    _revised("Do not merge without a review.", "Reworded: merge only after a review", "Merge only after a review."),
)

MERGED = (
    _merged(["Server A listens on 8080.", "Server B listens on 9090."], "Servers A and B listen on 8080 and 9090."),
    _merged(_SERVERS, "Servers A and B listen on ports 8080 and 9090."),
    _merged(_SERVERS, "Server A listens on port 8080, server B on port 9090."),
    _merged(_MEETINGS, "Standing meetings: weekly sync on Tuesday, retro on Friday."),
    _merged(_MEETINGS, "Regular meetings: weekly sync on Tuesday, retro on Friday."),
    _merged(_MEETINGS, "Weekly sync and retro are on Tuesday and Friday."),
    _merged(["Grace's cat is Miso.", "Grace's dog is Bento."], "Grace has two pets: Miso the cat and Bento the dog."),
    _merged(
        ["Mira handles customers.", "Mira is in Nairobi.", "Mira reviews money PRs."],
        "Mira (Nairobi) handles customers and reviews every PR that touches money.",
    ),
    _merged(
        ["The kitchen is on floor 2.", "The library is on floor 5."],
        "The kitchen and the library are on floors 2 and 5.",
    ),
    _merged(
        ["Ravi plays the cello.", "Ravi plays chess on Sundays."], "Ravi's hobbies: the cello, and chess on Sundays."
    ),
    _merged(
        ["Backups go to Hetzner.", "Backups are encrypted with age.", "Backups are kept for 90 days."],
        "Three facts on backups: kept for 90 days, encrypted with age, at Hetzner.",
    ),
    _merged(["Prefers short answers.", "Prefers code before prose."], "Answer style: short, with code before prose."),
    _merged(["Anna lives in Bonn.", "Ben lives in Ulm."], "Anna and Ben live in Bonn and Ulm."),
    _merged(["Ada leaves at seven.", "Grace leaves at nine."], "Ada and Grace leave at 7 and 9."),
    _merged(
        ["Ticket 310 is closed.", "Ticket 311 is open.", "Ticket 312 is closed."],
        "Tickets 310 and 312 are closed, 311 is open.",
    ),
    _merged(["The gym opens at 6.", "The pool opens at 8."], "The gym opens at 6 and the pool at 8."),
    _merged(
        ["Rent is 900 euros.", "Power is 60 euros.", "Internet is 30 euros."],
        "Monthly costs: rent 900, power 60, internet 30 euros.",
    ),
    _merged(
        ["Berlin office has 12 desks.", "Paris office has 20 desks."],
        "Office sizes: 12 desks in Berlin, 20 in Paris.",
    ),
)
