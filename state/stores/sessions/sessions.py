"""Sessions and their items in state.db: one row per item, whatever happens to it, and a log of what happened.

    live ⇄ hidden        in the set
       │ ▲
       ▼ │
    archived ─> purged   the row stays; a purged one has no words and keeps its number

Methods that write belong in the caller's transaction.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial, reduce
from typing import Any

from state.codec import decode, encode
from state.sessions.item import Item, State, hash_of, promoted_id, tokens_of, working_id
from state.sessions.policies import DEFAULT, Policy, View, policy_of, settings_of
from state.stores.crystals import full_text
from state.stores.database.tables import ItemEventRow, ItemRow, SessionRow
from state.stores.database.tombstones import TombstoneStore

# The items of a session have keys from the session's key * SPAN on.
SPAN = 1 << 32
# SQLite uses the index of the set only for a condition in exactly these words.
IN_SET = "state IN ('live', 'hidden')"
NEVER_OPENED = -1  # the key of a session that was never opened
FORGOTTEN = "it was forgotten for good"
# An item of this importance, or accessed this often, is given to the next dream when it is archived.
RESCUE_IMPORTANCE = 0.7
RESCUE_ACCESSES = 5
_ITEMS = "items.*, (SELECT sessions.id FROM sessions WHERE sessions.key = items.session) AS session_id"
_UNDREAMT = "state = 'archived' AND dreamt_in IS NULL AND promoted_to_id IS NULL"
_LISTED = "SELECT value FROM json_each(?)"
_NO_CONFIG: Mapping[str, Any] = {}
_BEFORE = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Session:
    """One session: how it was opened, and the highest step that it was given.

    `due_at` is when maintenance looks at it next; None: not before something is added.
    """

    key: int
    id: str
    policy: str
    config: dict[str, Any]
    opened_at: datetime
    closed_at: datetime | None = None
    step: int = 0
    due_at: datetime | None = None

    @property
    def is_known(self) -> bool:
        """Return whether the session was ever opened."""
        return self.key != NEVER_OPENED

    @property
    def rules(self) -> Policy:
        """Return the policy with its settings."""
        return policy_of(self.policy, self.config)


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `seq` is its item's, None for an event of the session; `item` is the item's current id."""

    key: int
    at: datetime
    action: str
    reason: str = ""
    seq: int | None = None
    item: str = ""
    figures: Mapping[str, int | float | str] = field(default_factory=dict)


class Sessions:
    """The sessions of one workspace."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.forgotten = TombstoneStore(connection)

    # ------------------------------------------------------------------------------------------------ sessions

    def find(self, id_: str) -> Session | None:
        """Return the session with this id; None if it was never opened."""
        return next(iter(self.all("WHERE id = ?", id_)), None)

    def session(self, id_: str) -> Session:
        """Return the session with this id, or an empty one with the default policy if it was never opened."""
        return self.find(id_) or Session(NEVER_OPENED, id_, DEFAULT, {}, _BEFORE)

    def all(self, condition: str = "", *values: object) -> list[Session]:
        """Return the sessions that match the condition, latest first."""
        return SessionRow.table.read(Session, self.connection, f"{condition} ORDER BY key DESC", *values)

    def open_ones(self, limit: int) -> list[Session]:
        """Return the open sessions that hold items, latest first."""
        holds = f"EXISTS (SELECT 1 FROM items WHERE session = sessions.key AND {IN_SET})"
        return self.all(f"WHERE closed_at IS NULL AND {holds}")[:limit]

    def open(self, id_: str, now: datetime, policy: str = "", config: Mapping[str, Any] = _NO_CONFIG) -> Session:
        """Return the session with this id, opening it if it is new or was closed.

        Without `policy` a closed session keeps the one that it had.
        """
        known = self.find(id_)
        if known is not None and known.closed_at is None:
            return known
        if not policy:
            policy, config = (known.policy, known.config) if known else (DEFAULT, config)
        opened = {"policy": policy, "config": settings_of(policy_of(policy, config)), "opened_at": now}
        again = "ON CONFLICT (id) DO UPDATE SET closed_at = NULL, policy = excluded.policy, config = excluded.config"
        SessionRow.table.add(self.connection, None, "INSERT", again, id=id_, **opened)
        (session,) = self.all("WHERE id = ?", id_)
        self.log(session, "opened", now, reason=policy)
        return session

    def change_session(self, session: Session, **values: object) -> None:
        """Set these columns of a session."""
        SessionRow.table.change(self.connection, "key = ?", session.key, **values)

    def fill(self, session: Session) -> tuple[int, int]:
        """Return how many items are in the set, and their tokens."""
        statement = f"SELECT count(*), coalesce(sum(token_count), 0) FROM items WHERE session = ? AND {IN_SET}"
        count, tokens = self.connection.execute(statement, (session.key,)).fetchone()
        return count, tokens

    # ------------------------------------------------------------------------------------------------ items

    def view(self, session: Session, now: datetime) -> View:
        """Return the set as policies see it."""
        return View(self.held(session), session.step, now)

    def items(self, session: Session, condition: str = "TRUE", *values: object) -> list[Item]:
        """Return the session's items that match the condition, in the order in which they were added."""
        statement = f"SELECT {_ITEMS} FROM items WHERE items.session = ? AND {condition} ORDER BY seq"
        return list(map(_item_of, self.connection.execute(statement, (session.key, *values)).fetchall()))

    def held(self, session: Session) -> list[Item]:
        """Return the items in the set."""
        return self.items(session, IN_SET)

    def holding(self, session: Session, part: str) -> list[Item]:
        """Return the items in the set whose content contains this part, ignoring case."""
        self.connection.create_function("folded", 1, str.casefold, deterministic=True)
        return self.items(session, f"{IN_SET} AND instr(folded(content), ?)", part.casefold())

    def named(self, session: Session, ids: Sequence[str]) -> list[Item]:
        """Return this session's items with these ids, in any state."""
        return self.items(session, f"items.id IN ({_LISTED})", json.dumps(ids))

    def item(self, session: Session, id_: str) -> Item | None:
        """Return this session's item with this id, in any state; None if there is none."""
        return next(iter(self.named(session, [id_])), None)

    def in_row(self, key: int) -> Iterator[tuple[Session, Item]]:
        """Yield the item in this row with its session, if it is there."""
        for session in self.all("WHERE key = ?", key // SPAN):
            yield from ((session, item) for item in self.items(session, "items.key = ?", key))

    def add(self, session: Session, item: Item) -> Item:
        """Write a new item with the session's next number; return it. A taken id gets a suffix."""
        first = session.key * SPAN
        statement = "SELECT coalesce(max(key) + 1, ?1) FROM items WHERE key >= ?1 AND key < ?1 + ?2"
        (key,) = self.connection.execute(statement, (first, SPAN)).fetchone()
        new = replace(item, seq=key - first, id=self.free_id(item.id))
        ItemRow.table.add(self.connection, new, key=key, session=session.key, record={})
        if new.step_index > session.step:
            self.change_session(session, step=new.step_index)
        self.log(session, "added", new.created_at, new, tokens=new.token_count)
        return new

    def free_id(self, id_: str) -> str:
        """Return the id, with `-2`, `-3` and so on appended if it is taken."""
        count = partial(ItemRow.table.count, self.connection)
        if not count("id = ?", id_):
            return id_
        number = count("id > ? AND id < ?", f"{id_}-", f"{id_}.") + 2  # the first free one, if none was renamed
        while count("id = ?", f"{id_}-{number}"):
            number += 1
        return f"{id_}-{number}"

    def record(self, session: Session, item: Item) -> dict[str, str]:
        """Return what promotion added to an item's metadata."""
        statement = "SELECT record FROM items WHERE key = ?"
        (text,) = self.connection.execute(statement, (key_of(session, item),)).fetchone()
        return decode(dict[str, str], text)

    def change(self, session: Session, item: Item, **values: Any) -> Item:  # noqa: ANN401
        """Set these columns of an item; return the item."""
        ItemRow.table.change(self.connection, "key = ?", key_of(session, item), **values)
        return replace(item, **{name: value for name, value in values.items() if hasattr(item, name)})

    def leave(
        self, session: Session, item: Item, reason: str, now: datetime, *, rescue: bool = False,
        action: str = "archived",
    ) -> None:  # fmt: skip
        """Archive an item without its forgotten texts.

        The next dream takes in important or rescued items, but nothing that was hidden.
        """
        left = self._without_forgotten(session, item)
        if item.content and not left.content:
            self.purge(session, [item], FORGOTTEN, now)
            return
        mattered = item.importance >= RESCUE_IMPORTANCE or item.access_count >= RESCUE_ACCESSES
        awaits_dream = item.state != State.HIDDEN and (rescue or mattered)
        self.change(
            session, left, state=State.ARCHIVED, state_reason=reason, rescue=rescue,
            pairs=full_text.pairs(left.content), dreamt_in=None if awaits_dream else 0,
        )  # fmt: skip
        full_text.add(self.connection, key_of(session, left), "cold_words")
        self.log(session, action, now, left, reason, **({"rescue": 1} if rescue else {}))

    def _without_forgotten(self, session: Session, item: Item) -> Item:
        known = self.forgotten.tombstones().anywhere
        if not known:
            return item
        words: dict[str, Any] = {
            "content": known.without(item.content),
            "tags": tuple(tag for tag in item.tags if not known.found(tag)),
            "metadata": {name: one for name, one in item.metadata.items() if not any(map(known.found, (name, one)))},
            "agent_id": known.without(item.agent_id),
            "source": known.without(item.source),
        }
        left = replace(item, **words)
        if left == item:
            return item
        self.forgotten.count()
        if not left.content and item.content:
            return left  # the caller purges it
        return self.reword(session, item, **words)

    def reword(self, session: Session, item: Item, content: str, **words: Any) -> Item:  # noqa: ANN401
        """Replace the words of an item; return the item.

        It gets a new id, in relations too, and so does the long-term record that it became: both ids
        begin with the content.
        """
        new = working_id(item.session_id, content, item.created_at)
        new = item.id if new == item.id else self.free_id(new)
        promoted = promoted_id(new, item.promoted_at) if item.promoted_to_id and item.promoted_at else None
        tokens = tokens_of(content)
        words |= {"content": content, "id": new, "promoted_to_id": promoted, "token_count": tokens}
        left = self.change(session, item, **words)
        self._rename({item.id: new})
        return left

    def _rename(self, names: Mapping[str, str]) -> None:
        """Replace ids of items in the relations of all items, and in what promotion recorded about them."""
        quoted = [(encode(old), encode(new)) for old, new in names.items()]

        def renamed(text: str) -> str:
            return reduce(lambda left, pair: left.replace(*pair), quoted, text)

        self.connection.create_function("renamed", 1, renamed)
        statement = "UPDATE items SET relations = renamed(relations), record = renamed(record)"
        self.connection.execute(f"{statement} WHERE relations <> '[]' OR record <> '{{}}'")

    def restore(self, session: Session, item: Item, now: datetime, **values: object) -> Item:
        """Return an archived or hidden item to the set, with these columns changed."""
        self.log(session, "restored", now, item, item.state_reason)
        full_text.remove(self.connection, key_of(session, item), "cold_words")
        return self.change(
            session, item, state=State.LIVE, state_reason="", rescue=False, pairs="", dreamt_in=None, **values
        )

    def purge(self, session: Session, items: Sequence[Item], reason: str, now: datetime) -> None:
        """Erase the words of these items; the rows keep their numbers."""
        keys = [key_of(session, item) for item in items]
        for key in keys:
            full_text.remove(self.connection, key, "cold_words")
        # The ids of the item and of its long-term record begin with the content, so they go too.
        self.connection.execute(
            "UPDATE items SET state = 'purged', state_reason = ?, id = 'purged-' || key, promoted_to_id = NULL,"
            " record = '{}', rescue = 0, content = '', pairs = '', tags = '[]', metadata = '{}', relations = '[]',"
            f" agent_id = '', source = '' WHERE key IN ({_LISTED})",
            (reason, json.dumps(keys)),
        )
        if any(item.state == State.ARCHIVED for item in items):
            full_text.rebuild(self.connection, "cold_words")
        self._rename({item.id: f"purged-{key_of(session, item)}" for item in items})
        for item in items:
            self.log(session, "purged", now, item, reason)

    # ------------------------------------------------------------------------------------------------ what left

    def archived(self, words: Sequence[str], session: Session | None = None) -> Iterator[Item]:
        """Yield the archived items that hold one of these words, best first; without words, latest first.

        `session` restricts the search to one session.
        """
        within, values = "", list[object]()
        if session is not None:
            within, values = "AND items.session = ?", [session.key]
        if words:
            statement = (
                f"SELECT {_ITEMS} FROM cold_words JOIN items ON items.key = cold_words.rowid"
                f" WHERE cold_words MATCH ? {within} ORDER BY rank, items.key DESC"
            )
            values = [" OR ".join(f'"{word}"' for word in words), *values]  # `terms` returns only letters and digits
        else:
            statement = f"SELECT {_ITEMS} FROM items WHERE state = 'archived' {within} ORDER BY key DESC"
        rows = self.connection.execute(statement, values)
        try:
            yield from map(_item_of, rows)
        finally:
            rows.close()  # an open cursor would keep its snapshot of the database

    def undreamt(self, limit: int) -> list[tuple[Item, bool]]:
        """Return the items for the next dream, each with whether it is rescued; rescued ones come first."""
        rows = self.connection.execute(
            f"SELECT {_ITEMS} FROM items WHERE {_UNDREAMT} ORDER BY rescue DESC, importance DESC, key LIMIT ?",
            (limit,),
        )
        return [(_item_of(row), bool(row["rescue"])) for row in rows.fetchall()]

    def mark_dreamt(self, items: Iterable[Item], version: int) -> None:
        """Mark these items as taken in by the dream of this version."""
        which = f"dreamt_in IS NULL AND state = 'archived' AND id IN ({_LISTED})"
        ItemRow.table.change(self.connection, which, json.dumps([item.id for item in items]), dreamt_in=version)

    def undreamt_count(self, most: int) -> int:
        """Return how many items wait for the next dream; counting stops at `most`."""
        statement = f"SELECT count(*) FROM (SELECT 1 FROM items WHERE {_UNDREAMT} LIMIT ?)"
        return int(self.connection.execute(statement, (most,)).fetchone()[0])

    # ------------------------------------------------------------------------------------------------ events

    def log(
        self, session: Session, action: str, now: datetime, item: Item | None = None, reason: str = "",
        **figures: float | str,
    ) -> None:  # fmt: skip
        """Log what happened, when and why, without the item's words. Events are only ever added."""
        ItemEventRow.table.add(
            self.connection, None, at=now, session=session.key, item=key_of(session, item) if item else None,
            action=action, reason=reason, figures=figures,
        )  # fmt: skip

    def events(
        self, session: Session, item: Item | None = None, limit: int = -1, after: int | None = None
    ) -> list[Event]:
        """Return a session's events, latest first, or one item's, oldest first.

        `after` is the key of the last event that the caller has.
        """
        which, past, order = ("e.session", "<", "DESC") if item is None else ("e.item", ">", "ASC")
        key = session.key if item is None else key_of(session, item)
        known = after if after is not None else -1 if item else (1 << 63) - 1
        rows = self.connection.execute(
            "SELECT e.*, i.id AS item_id FROM item_events e LEFT JOIN items i ON i.key = e.item"
            f" WHERE {which} = ? AND e.key {past} ? ORDER BY e.key {order} LIMIT ?",
            (key, known, limit),
        )
        return [_event_of(row) for row in rows.fetchall()]


def key_of(session: Session, item: Item) -> int:
    """Return the row of an item."""
    return session.key * SPAN + item.seq


def _item_of(row: sqlite3.Row) -> Item:
    return ItemRow.table.value(Item, row, session_id=row["session_id"], content_hash=hash_of(row["content"]))


def _event_of(row: sqlite3.Row) -> Event:
    seq = row["item"] % SPAN if row["item"] is not None else None
    return ItemEventRow.table.value(Event, row, seq=seq, item=row["item_id"] or "")
