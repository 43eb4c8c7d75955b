"""Honest updates as good models make them: none of them may be refused."""

from state.trust import Trust
from tests.graphs import honest_changes, honest_reviewed, honest_sizes
from tests.graphs.honest import Honest
from tests.graphs.world import (
    BOND,
    CONTEXT,
    GAPS,
    PHENOTYPE,
    add,
    evict,
    merge,
    note,
    revise,
)

_LONG = {
    "phenotype": ["The agent works best in small, tested steps.", "The agent is good at reading stack traces."],
    "bond": [
        "Anna is the lead of the billing team and prefers short answers without praise.",
        "Anna lives in Bonn and works from nine to five.",
        "Anna's dog is called Rex.",
    ],
    "context": [
        "The importer fails on empty rows since version 2.3.",
        "The migration to Postgres 16 is planned for Friday.",
        "CI takes 14 minutes because of the browser tests.",
    ],
    "gaps": ["Why does the cache grow at night?"],
}
_MANY = {"context": [f"Ticket {number} about module{number} was closed after review." for number in range(100, 125)]}

ADDITIONS = (
    Honest(["Anna said she plays chess on Tuesdays."], [add(BOND, "Anna plays chess on Tuesdays.", "N1")]),
    Honest(["deploy key rotated, see runbook 7"], [add(CONTEXT, "The deploy key was rotated (runbook 7).", "N1")]),
    Honest(["The API listens on port 8443 now."], [add(CONTEXT, "The API listens on port 8443.", "N1")]),
    Honest(["User asked: why is the sky blue?"], [add(GAPS, "Why is the sky blue?", "N1")]),
    Honest(["I noticed I write better tests when I start small."], [
        add(PHENOTYPE, "The agent writes better tests when it starts small.", "N1")
    ]),
    Honest(["Sold 3 copies of the linter skill for 4.50 USDC each."], [
        add(CONTEXT, "The linter skill sold 3 copies at 4.50 USDC.", "N1")
    ]),
    Honest(["Never deploy on Fridays, said Anna"], [
        add(BOND, "Anna does not want deployments on Fridays, never.", "N1")
    ]),
    Honest(["Meeting moved to 17:30"], [add(CONTEXT, "The meeting is at 17:30.", "N1")]),
    Honest(["Meeting moved to 5 pm"], [add(CONTEXT, "The meeting moved to 17:00.", "N1")]),
    Honest(["The release is tomorrow."], [add(CONTEXT, "The release is on 2026-03-13.", "N1")]),
    Honest(["Next Tuesday Anna is away."], [add(CONTEXT, "Anna is away on 2026-03-17.", "N1")]),
    Honest(["Deadline is March 20, 2026"], [add(CONTEXT, "The deadline is 2026-03-20.", "N1")]),
    Honest(["Deadline 2026-03-20"], [add(CONTEXT, "The deadline is 20 March 2026.", "N1")]),
    Honest(["Anna has three cats."], [add(BOND, "Anna has 3 cats.", "N1")]),
    Honest(["The dataset has 10k rows."], [add(CONTEXT, "The dataset has 10,000 rows.", "N1")]),
    Honest(["CI failed: timeout", "CI failed again: timeout", "CI failed once more: timeout"], [
        add(CONTEXT, "CI failed 3 times because of a timeout.", "N1", "N2", "N3")
    ]),
    Honest([note(1, "Always answer in German.", trust=Trust.OWNER)], [add(BOND, "Always answer in German.", "N1")]),
    Honest(["The user prefers that I ask before deleting anything."], [
        add(BOND, "The user prefers to be asked before anything is deleted.", "N1")
    ]),
    Honest(["`make check` takes 40 s; `make test` 3 min"], [
        add(CONTEXT, "`make check` takes 40 s, `make test` 3 min.", "N1")
    ]),
    Honest(["Config lives in ~/.config/dreamd/config.yaml"], [
        add(CONTEXT, "The configuration lives in ~/.config/dreamd/config.yaml.", "N1")
    ]),
    Honest(["Do not use rm -rf in scripts; Anna was burned once."], [
        add(BOND, "Anna does not want rm -rf in scripts; she was burned once.", "N1")
    ]),
    Honest(["user is vegetarian 🌱"], [add(BOND, "The user is vegetarian 🌱.", "N1")]),
)  # fmt: skip

LANGUAGES = (
    Honest(["Anna bevorzugt kurze Antworten auf Deutsch."], [
        add(BOND, "Anna bevorzugt kurze Antworten auf Deutsch.", "N1")
    ]),
    Honest(["Die Frist für den Umzug ist der 20. März 2026."], [
        add(CONTEXT, "Die Frist für den Umzug ist der 20.03.2026.", "N1")
    ]),
    Honest(["Das Straßenprojekt kostet 8.500 Euro und dauert drei Wochen."], [
        add(CONTEXT, "Das Straßenprojekt kostet 8.500 Euro und dauert 3 Wochen.", "N1")
    ]),
    Honest(["Der Import schlägt auch bei Umlauten fehl."], [
        revise(CONTEXT, "L1", "Der Import schlägt bei leeren Zeilen und bei Umlauten fehl.", "N1"),
    ], {"context": ["Der Import schlägt bei leeren Zeilen fehl."]}),
    Honest(["用户喜欢简短的回答。"], [add(BOND, "用户喜欢简短的回答。", "N1")]),
    Honest(["项目截止日期是3月20日，预算八千元。"], [add(CONTEXT, "项目的截止日期是3月20日。", "N1")]),
    Honest(["服务器端口改成了 8443"], [revise(CONTEXT, "L1", "服务器端口是 8443", "N1")],
           {"context": ["服务器端口是 8080"]}),
    Honest(["ユーザーは短い返事が好きです。"], [add(BOND, "ユーザーは短い返事が好き。", "N1")]),
    Honest(["사용자는 짧은 답변을 좋아한다."], [add(BOND, "사용자는 짧은 답변을 좋아한다.", "N1")]),
    Honest(["Анна живёт в Казани с 2019 года."], [add(BOND, "Анна живёт в Казани с 2019 года.", "N1")]),
    Honest(["Anna préfère les réponses courtes, sans flatterie."], [
        add(BOND, "Anna préfère des réponses courtes et sans flatterie.", "N1")
    ]),
    Honest(["La reunión es el 5 de mayo a las 17:00."], [
        add(CONTEXT, "La reunión es el 5 de mayo a las 17:00.", "N1")
    ]),
    Honest(["المستخدم يفضل الإجابات القصيرة."], [add(BOND, "المستخدم يفضل الإجابات القصيرة.", "N1")]),
    Honest(["उपयोगकर्ता छोटे उत्तर पसंद करता है।"], [add(BOND, "उपयोगकर्ता छोटे उत्तर पसंद करता है।", "N1")]),
    Honest(["ผู้ใช้ชอบคำตอบสั้น ๆ"], [add(BOND, "ผู้ใช้ชอบคำตอบสั้น ๆ", "N1")]),
)  # fmt: skip

REVISIONS = (
    Honest(["Anna moved to Köln last week."], [
        revise(BOND, "L4", "Anna lives in Köln since last week and works from nine to five.", "N1")
    ], _LONG),
    Honest(["Importer fix released as 2.3.1; empty rows work."], [
        revise(CONTEXT, "L6", "The importer works with empty rows since version 2.3.1.", "N1")
    ], _LONG),
    Honest(["Migration to Postgres postponed to Monday"], [
        revise(CONTEXT, "L7", "The migration to Postgres 16 is postponed to Monday.", "N1")
    ], _LONG),
    Honest(["Browser tests run in parallel now, CI is at 6 minutes"], [
        revise(CONTEXT, "L8", "CI takes 6 minutes, since the browser tests run in parallel.", "N1")
    ], _LONG),
    Honest(["The cache grows at night because of the backup job."], [
        revise(GAPS, "L9", "The cache grows at night because of the backup job; can it be limited?", "N1")
    ], _LONG),
    Honest(["Anna's dog Rex died on 3 March."], [revise(BOND, "L5", "Anna's dog Rex died on 3 March.", "N1")], _LONG),
    Honest(["Anna became head of payments, too."], [
        revise(BOND, "L3", "Anna leads billing and payments and prefers short answers without praise.", "N1")
    ], _LONG),
    Honest(["Anna does not like tea any more"], [revise(BOND, "L1", "Anna does not like tea any more.", "N1")],
           {"bond": ["Anna likes tea."]}),
    Honest(["deadline now March 25"], [revise(CONTEXT, "L1", "The deadline is March 25.", "N1")],
           {"context": ["The deadline is March 20."]}),
    Honest(["The agent never deletes files without asking, confirmed."], [
        revise(PHENOTYPE, "L1", "The agent never deletes files without asking.", "N1")
    ], {"phenotype": ["The agent asks before deleting files."]}, genome=("The agent never deletes files unasked.",)),
    Honest(["anna's birthday is may 4"], [add(BOND, "Anna's birthday is on 4 May.", "N1")],
           tombstones=("Anna's birthday is on 3 May.",)),
    Honest(["The port is 8443 for the API."], [revise(CONTEXT, "L1", "The API uses port 8443.", "N1")],
           {"context": ["The API uses port 8080.", "The UI uses port 3000. 📌"]}),
)  # fmt: skip

MERGES_AND_EVICTIONS = (
    Honest(["x"], [
        merge(CONTEXT, ["L1", "L2"], "The linter skill and the importer skill are published and used daily.")
    ], {"context": ["The linter skill is published.", "The importer skill is published and used daily."]}),
    Honest(["nothing new"], [
        merge(CONTEXT, ["L1", "L2"], "The importer fails on empty rows and on rows with tabs since 2.3.")
    ], {"context": ["The importer fails on empty rows since 2.3.", "The importer fails on rows with tabs."]}),
    Honest(["Rex is a beagle"], [
        merge(BOND, ["L1", "L2"], "Anna's dog Rex, a beagle, is four years old and likes the rain.", "N1")
    ], {"bond": ["Anna's dog is called Rex and likes the rain.", "Rex is four years old."]}),
    Honest(["x"], [
        merge(BOND, ["L1", "L2", "L3"], "Anna prefers short answers, in German, without praise.")
    ], {"bond": ["Anna prefers short answers.", "Anna prefers German.", "Anna wants no praise."]}),
    Honest(["x"], [
        merge(CONTEXT, ["L1", "L2"], "Anna asked twice for the report of May; it is due on Friday.")
    ], {"bond": ["Anna asked for the report of May."], "context": ["The report of May is due on Friday."]}),
    Honest(["Ticket 126 is next."], [evict(CONTEXT, f"L{at}", f"Ticket {at + 99}") for at in range(1, 21)], _MANY),
    Honest(["All tickets below 110 are archived."], [
        *(evict(CONTEXT, f"L{number}", "Old tickets") for number in range(1, 8)),
        add(CONTEXT, "All tickets below 110 are archived.", "N1"),
    ], _MANY),
    Honest(["The migration is done, Postgres 16 runs."], [
        evict(CONTEXT, "L6", "Importer and empty rows"),
        evict(CONTEXT, "L8", "CI and browser tests"),
        revise(CONTEXT, "L7", "The migration to Postgres 16 is done; it runs.", "N1"),
    ], _LONG),
    Honest(["x"], [evict(BOND, "L5", "Rex"), evict(GAPS, "L9", "The cache at night")], _LONG),
    Honest(["旧项目已经结束。"], [evict(CONTEXT, "L1", "旧项目"), add(CONTEXT, "旧项目已经结束。", "N1")],
           {"context": [
               "旧项目的服务器在法兰克福，由王芳负责维护和更新。",
               "新项目的服务器在柏林，由李明负责维护，每周五更新一次，持续观察，并在群里汇报结果和问题。",
           ]}),
)  # fmt: skip

TOGETHER = (
    Honest(
        [
            "Anna wants the report of May by Friday, 15:00.",
            "pytest is at 412 tests, all green.",
            "Open question: who owns the DNS zone?",
            "Learned: rebase before review saves an hour.",
        ],
        [
            add(CONTEXT, "Anna wants the report of May by Friday, 15:00.", "N1"),
            add(CONTEXT, "All 412 tests are green.", "N2"),
            add(GAPS, "Who owns the DNS zone?", "N3"),
            add(PHENOTYPE, "The agent learned that a rebase before review saves an hour.", "N4"),
            evict(BOND, "L5", "Rex"),
            merge(
                PHENOTYPE, ["L1", "L2"], "The agent works best in small, tested steps and reads stack traces well."
            ),
        ],
        _LONG,
    ),
    Honest(
        [f"Module{number} is at version 1.{number}." for number in range(20)],
        [add(CONTEXT, f"Module{number} is at version 1.{number}.", f"N{number + 1}") for number in range(20)],
    ),
)

HONEST = (
    *(*ADDITIONS, *LANGUAGES, *REVISIONS, *MERGES_AND_EVICTIONS, *TOGETHER),
    *(*honest_changes.DENSE, *honest_changes.RENAMES, *honest_changes.MOVES, *honest_changes.CONSOLIDATIONS),
    *(
        *honest_sizes.YOUNG,
        *honest_sizes.MIGRATED,
        *honest_sizes.CODE,
        *honest_sizes.LONG,
        *honest_sizes.MANY_AT_ONCE,
        *honest_sizes.OTHER_LANGUAGES,
    ),
    *honest_reviewed.MERGED,
)
