"""A workspace with hostile texts in every place that a page shows: built once, copied for each test.

Texts that dreamd would refuse, quote or escape are written directly into its files and tables, since another version,
another program or a person may have written them there.

    workspace = copied(hostile_workspace(folder_of_the_session), tmp_path)
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path

from daemon import sessions
from daemon.dream.run import Mode, dream_now
from daemon.ingest.transcripts import absorb_transcripts
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, utc_now
from graphs.ports import Answer
from state.changes.change import CurrentLine
from state.codec import decode
from state.crystals.crystal import Crystal, Origin, Source
from state.document.operations import Action, Operation, Refusal
from state.document.sections import SectionName
from state.dream import Dream, Proposed, Reason, encode_record
from state.errors import UsageError
from state.scratch import Note, plain_text
from state.signals.curiosity import Cause
from state.stores.database.connection import transaction
from state.stores.database.moments import to_text
from state.stores.database.table import packed, unpacked
from state.stores.disk.workspace import Workspace
from state.stores.history.proposals import Proposals
from state.text.words import normalise
from state.trust import Trust
from tests.support.committing import added
from tests.support.copies import copy_of
from tests.support.forgettable import quick
from tests.support.hostile_texts import ALL, HostileText

# A legal folder name, which pages show as the workspace's.
FOLDER = "mark-0000 '\"><img data-born src=x onerror=__born(0)>{{7*7}}"
_HONEST = ("The staging server listens on port 8080", "Ada prefers tea over coffee", "We use SQLite for the ledger")
_SECTIONS = (SectionName.PHENOTYPE, SectionName.BOND, SectionName.NICHE, SectionName.CONTEXT, SectionName.GAPS)
_LINE, _LONGEST = 1_000, 100_000
_PER_SESSION = 10
_MARK = re.compile(r"mark-\d{4}")
_DAY = timedelta(days=1)


def hostile_workspace(folder: Path, texts: Sequence[HostileText] = ALL) -> Workspace:
    """Create the workspace, in a folder with a hostile name below this one, without embeddings."""
    workspace = init_workspace(folder / FOLDER)
    now = utc_now()
    with quick(workspace) as store:
        _live(store, texts, now)
        connection = store.connection
        store.crystals.learn(_crystals(texts, now))
        _talk(store, texts, now)
        with transaction(connection):
            _fill(connection, texts, now)
            _reviews(store, texts, now)
        for one in texts:
            store.notes.inbox.append(
                Note(one.short(3_000) if len(one.text) > _LINE else plain_text(one.text), now, 0.5)
            )
    _files(workspace, texts, now)
    return workspace


def copied(workspace: Workspace, folder: Path) -> Workspace:
    """Copy the workspace below another folder."""
    return copy_of(workspace.root, folder / workspace.root.name)


def _live(store: Store, texts: Sequence[HostileText], now: datetime) -> None:
    """Run a dream, add hostile lines as the owner, and run two more dreams."""
    workspace = store.workspace
    for text in _HONEST:
        store.notes.inbox.append(Note(text, now, 0.8))
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    document = workspace.document.read_text(encoding="utf-8")
    for number, one in enumerate(texts):
        # Lines that are not pinned may be replaced by pointers.
        line = one.short(_LINE) + (" 📌" if number % _PER_SESSION else "")
        document = added(document, line, _SECTIONS[number % len(_SECTIONS)])
    workspace.document.write_text(document, encoding="utf-8")
    workspace.genome.write_text("".join(f"- {one.label}\n" for one in texts), encoding="utf-8")
    store.notes.inbox.append(Note("The kettle of house 9 was repaired", now, 0.8))
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    store.notes.inbox.append(Note("The piano of house 4 is out of tune", now, 0.8))
    dream_now(store, Reason.MANUAL, Mode.AUTO)


def _crystals(texts: Sequence[HostileText], now: datetime) -> Iterator[Crystal]:
    trusts, origins = tuple(Trust), (Origin.SCRATCH, Origin.SESSION, Origin.SEED)
    for one in texts:
        yield Crystal(
            text=one.text[:_LONGEST],
            origin=origins[one.number % len(origins)],
            created_at=now - one.number * _DAY / 24,
            trust=trusts[one.number % len(trusts)],
            context=one.label,
            speaker=one.label,
            session=one.label,
            position=one.number,
            source=Source(one.label, 1, 2, one.label),
        )


def _talk(store: Store, texts: Sequence[HostileText], now: datetime) -> None:
    """Add a transcript, and sessions with hostile names of ten items each, except items that dreamd refuses."""
    talk = store.workspace.root / "talk mark-0000 <b data-born>.jsonl"
    said = [{"role": "user", "content": one.text[:_LINE]} for one in texts]
    talk.write_text("".join(json.dumps(one) + "\n" for one in said), encoding="utf-8")
    absorb_transcripts(store, [talk], now)
    for number, one in enumerate(texts):
        session = texts[number - number % _PER_SESSION].label
        draft = sessions.Draft(
            one.text[:_LINE],
            "high",
            tags=[one.label[:60]],
            metadata={one.label[:60]: one.label},
            agent_id=one.label,
            source=one.label,
        )
        try:
            memory = sessions.add(store, session, draft, now).id
            sessions.relation_add(store, session, memory, one.label[:60], one.label, now, {"because": one.label})
            if number % _PER_SESSION == 0:
                sessions.promote(store, session, memory, now)
        except UsageError:
            continue


# Puts each text `k` once in every place; `body`, `line` and `label` are its forms, `own` reads k from a label.
_EVERYWHERE = """
UPDATE items SET content = body(own(agent_id)), agent_id = label(own(agent_id)), source = label(own(agent_id)),
    tags = json_array(label(own(agent_id))), metadata = json_object(label(own(agent_id)), label(own(agent_id))),
    relations = json_array(json_object('relation_type', label(own(agent_id)), 'target_element_id',
        label(own(agent_id)), 'metadata', json_object(label(own(agent_id)), label(own(agent_id))))),
    state_reason = label(own(agent_id)), promotion_reason = label(own(agent_id)),
    promoted_to_id = iif(promoted_to_id IS NULL, NULL, label(own(agent_id))),
    record = json_object(label(own(agent_id)), label(own(agent_id)));
INSERT INTO item_events (at, session, item, action, reason, figures) SELECT created_at, session, key,
    label(own(agent_id)), label(own(agent_id)), json_object(label(own(agent_id)), label(own(agent_id))) FROM items;
INSERT OR IGNORE INTO sessions (id, policy, config, opened_at, closed_at)
    SELECT label(k), policy, config, opened_at, opened_at FROM texts, (SELECT * FROM sessions ORDER BY key LIMIT 1);
INSERT OR REPLACE INTO gaps (folded, question, cause, first_at, last_at)
    SELECT folded(label(k)), line(k), cause(k), at, at FROM texts;
INSERT INTO feelings (at, event, cause, dopamine, cortisol, oxytocin)
    SELECT at, iif(k % 2, label(k), 'reward'), line(k), .1, .1, .1 FROM texts;
INSERT OR IGNORE INTO tombstones (text, at) SELECT 'deleted ' || line(k), at FROM texts;
INSERT INTO dreams (id, started_at, ended_at, reason, outcome, detail)
    SELECT label(k), started, at, label(k), iif(k % 3, iif(k % 3 = 1, 'rejected', 'skipped'), 'failed'), line(k)
    FROM texts WHERE true ON CONFLICT DO NOTHING;
CREATE TEMP TABLE whose AS SELECT k, label(k) AS dream, at, started FROM texts UNION ALL SELECT k,
    (SELECT dream FROM versions WHERE dream <> '' ORDER BY number DESC LIMIT 1), at, started FROM texts;
INSERT INTO rejections (dream, at, guard, scope, figures) SELECT dream, at, label(k), label(k), line(k) FROM whose;
INSERT INTO calls (dream, digest, at, model, usable, reply, tokens, usd)
    SELECT dream, printf('%064d', k), started, label(k), 1, answer(k), 2, 0 FROM whose;
UPDATE versions SET model = nth(number), reason = nth(number)
    WHERE number BETWEEN 1 AND (SELECT count(*) FROM texts);
CREATE TEMP TABLE grounds AS SELECT k, at,
    (SELECT id FROM crystals WHERE context = label(k) ORDER BY key DESC LIMIT 1) AS crystal,
    coalesce((SELECT id FROM lines WHERE text = line(k) AND died_in IS NULL ORDER BY id DESC LIMIT 1), '') AS now
    FROM texts;
INSERT INTO lines (id, section, text, crystal, importance, trust, born_in, born_at, died_in, fate, successor)
    SELECT 'L' || (10000 + k), 'The Bond', 'earlier ' || line(k), crystal, .5, 'web', 1, at, 2,
        iif(now = '', 'evicted', 'revised'), now FROM grounds;
INSERT OR IGNORE INTO evidence SELECT 'L' || (10000 + k), 2, crystal FROM grounds
    UNION ALL SELECT now, 2, crystal FROM grounds WHERE now <> '';
INSERT OR IGNORE INTO pointers (keywords, topic, crystal, line, made_in, standing)
    SELECT label(k), label(k), crystal, now, 1, k % 2 FROM grounds;
"""


def _fill(connection: sqlite3.Connection, texts: Sequence[HostileText], now: datetime) -> None:
    """Fill all tables of signals, sessions, history and the ledger."""
    numbered = {one.number: one for one in texts}
    causes = [cause.value for cause in Cause]

    def answer(k: int) -> str:
        one = numbered[k]
        return json.dumps(asdict(Answer(one.text[:_LINE], one.label, 1, 1, 0.0, one.label, 1.0, estimated=False)))

    functions: dict[str, Callable[..., str | int]] = {
        "body": lambda k: numbered[k].text[:_LONGEST],
        "line": lambda k: numbered[k].short(_LINE),
        "label": lambda k: numbered[k].label,
        "own": lambda agent: int(_MARK.findall(agent)[0][5:]),
        "folded": normalise,
        "cause": lambda k: causes[k % len(causes)],
        "answer": answer,
        "nth": lambda number: texts[number - 1].label,
    }
    for name, function in functions.items():
        connection.create_function(name, 1, function)
    connection.execute("CREATE TEMP TABLE texts (k, at, started)")
    rows = [(k, to_text(now), to_text(now - k * _DAY)) for k in numbered]
    connection.executemany("INSERT INTO texts VALUES (?, ?, ?)", rows)
    for statement in _EVERYWHERE.split(";\n"):
        connection.execute(statement)
    keys = [row[0] for row in connection.execute("SELECT key FROM crystals WHERE text LIKE 'mark-%'")]
    connection.executemany(
        "INSERT INTO supersessions VALUES (?, ?, 'owner', 'owner', NULL, ?, NULL)",
        [(older, newer, to_text(now)) for older, newer in zip(keys[::3], keys[1::3], strict=False)],
    )


def _reviews(store: Store, texts: Sequence[HostileText], now: datetime) -> None:
    """Fill proposals, and the record of the last version, with hostile texts."""
    connection = store.connection
    lines = [CurrentLine(*row) for row in _standing(connection)]
    own, lines = {line.text: line for line in lines}, lines[:1]
    crystals = dict(connection.execute("SELECT context, id FROM crystals").fetchall())
    for one in texts:
        said = _operation(one, [own.get(one.short(_LINE), lines[0])])
        said = replace(said, text=f"new {said.text}"[:_LINE], cites=(crystals[one.label],))
        Proposals(connection).add("20260101T000000-hostile", [Proposed(said, one.label)], now)
    number = store.lineage.last_version()
    (record,) = connection.execute("SELECT record FROM versions WHERE number = ?", (number,)).fetchone()
    last = _worded(decode(Dream, unpacked(record)), texts, lines)
    connection.execute("UPDATE versions SET record = ? WHERE number = ?", (packed(encode_record(last)), number))


def _worded(dream: Dream, texts: Sequence[HostileText], lines: Sequence[CurrentLine]) -> Dream:
    """Return the dream with hostile operations, refusals, problems and names."""
    operations = tuple(_operation(one, lines) for one in texts)
    return replace(
        dream,
        reason=texts[0].label,
        author=texts[0].label,
        operations=operations,
        refused=tuple(
            Refusal(one.short(60), "operation", one.label, operation)
            for one, operation in zip(texts, operations, strict=True)
        ),
        problems=tuple(one.label for one in texts),
        usage=replace(dream.usage, model=texts[0].label, prompts=tuple(one.label for one in texts[:20])),
    )


def _operation(one: HostileText, lines: Sequence[CurrentLine]) -> Operation:
    return Operation(
        Action.REVISE, SectionName.BOND, one.short(_LINE), tuple(line.id for line in lines), (f"N{one.number}",)
    )


def _standing(connection: sqlite3.Connection) -> Iterator[tuple[str, SectionName, str, float, Trust, datetime]]:
    for row in connection.execute("SELECT * FROM lines WHERE died_in IS NULL ORDER BY id"):
        born = datetime.fromisoformat(row["born_at"])
        yield row["id"], SectionName(row["section"]), row["text"], row["importance"], Trust(row["trust"]), born


def _files(workspace: Workspace, texts: Sequence[HostileText], now: datetime) -> None:
    """Fill what is in no table: pointers by hand, and lines by hand in scratch.md."""
    document = workspace.document.read_text(encoding="utf-8")
    for one in texts[::20]:
        pointer = f"{one.label[:48]} → search: `{one.label.replace('`', ' ')}`"
        document = added(document, pointer, SectionName.POINTERS)
    workspace.document.write_text(document, encoding="utf-8")
    with workspace.scratch.open("a", encoding="utf-8") as log:
        log.writelines(f"- by hand, {one.label}\n" for one in texts[::20])
