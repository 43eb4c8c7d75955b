"""The items of the sessions in state.db: in the set, cold, or purged.

Each method that writes is one transaction (or a part of the caller's) with the events that tell of it. A row is never
deleted: an item that is purged keeps its number and loses everything that was said in it.
"""

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from state.forgetting.known import Known
from state.sessions.ids import working_id
from state.sessions.importance import deserves_rescue
from state.sessions.item import Item, State
from state.stores.database.connection import optional_text, to_text, transaction
from state.stores.database.tombstones import TombstoneStore
from state.stores.sessions.cold_archive import ColdArchive
from state.stores.sessions.events import EventKind, SessionEvents
from state.stores.sessions.outbox import Outbox, Promotion
from state.stores.sessions.rows import COLUMNS, IN_SET, Session, item_of, key_of, keys_of

_LISTED = "SELECT value FROM json_each(?)"
_MOST_TAGS = 32
FORGOTTEN = "it was forgotten for good"
_WITHIN = "items.key BETWEEN ? AND ?"


class SessionItems:
    """The items of one workspace, over its open database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.events = SessionEvents(connection)
        self.archive = ColdArchive(connection)
        self.outbox = Outbox(connection)
        self.forgotten = TombstoneStore(connection)

    def add(self, session: Session, item: Item, name: Callable[[Callable[[str], bool]], str]) -> Item:
        """Write an item with a new number and id (from `name`, which can test whether an id is taken); returns it."""
        with transaction(self.connection) as connection:
            (seq,) = connection.execute(
                "UPDATE sessions SET next_seq = next_seq + 1, step = max(step, ?), held = held + 1,"
                " tokens = tokens + ? WHERE key = ? RETURNING next_seq - 1",
                (item.step_index, item.token_count, session.key),
            ).fetchone()
            new = replace(item, seq=seq, id=name(self._is_taken))
            self._insert(session, new)
            self.events.add(session, EventKind.ADDED, item.created_at, [(seq, "", {"tokens": item.token_count})])
        return new

    def find(self, session: Session, id_: str) -> Item | None:
        """The item of this id in this session, wherever it is."""
        row = self.connection.execute(
            f"SELECT {COLUMNS} FROM items WHERE id = ? AND session = ?", (id_, session.key)
        ).fetchone()
        return item_of(row) if row else None

    def in_row(self, key: int) -> Item:
        """The item in this row."""
        return item_of(self.connection.execute(f"SELECT {COLUMNS} FROM items WHERE key = ?", (key,)).fetchone())

    def all(self, session: Session) -> list[Item]:
        """Every item that the session ever had, in the order in which they were added."""
        return self._where(session, "TRUE")

    def held(self, session: Session) -> list[Item]:
        """The items of the set, in the order in which they were added."""
        return self._where(session, IN_SET)

    def kept(self, session: Session) -> list[Item]:
        """The items of the set, and those that left it as long-term records."""
        return self._where(session, f"({IN_SET} OR promoted_to <> '')")

    def holding(
        self, session: Session, part: str, tags: Sequence[str] = (), priority: str | None = None
    ) -> list[Item]:
        """The items of the set whose content holds this part in any case (empty: all do), with any of these tags."""
        conditions, values = [_WITHIN, IN_SET], list[object](keys_of(session))
        table = "item_words CROSS JOIN items ON items.key = item_words.key" if part else "items"
        if part:
            conditions.append("instr(folded, ?)")
            values.append(part.casefold())
        if tags:
            # As they stand in JSON; what only looks like one is left out below. Beyond so many, any tag passes here.
            looked_for = [json.dumps(tag) for tag in tags] if len(tags) <= _MOST_TAGS else ['"']
            conditions.append(f"({' OR '.join(['instr(items.tags, ?)'] * len(looked_for))})")
            values += looked_for
        if priority is not None:
            conditions.append("priority = ?")
            values.append(priority)
        rows = self.connection.execute(
            f"SELECT {COLUMNS} FROM {table} WHERE {' AND '.join(conditions)} ORDER BY items.key", values
        ).fetchall()
        return [item for item in map(item_of, rows) if not tags or not set(tags).isdisjoint(item.tags)]

    def accessed(self, session: Session, item: Item) -> None:
        """Write an item's access count, time and score after it was read."""
        self.connection.execute(
            "UPDATE items SET access_count = ?, last_accessed_at = ?, importance_score = ? WHERE key = ?",
            (item.access_count, to_text(item.last_accessed_at), item.importance_score, key_of(session, item)),
        )

    def set_expiry(self, session: Session, item: Item, at: datetime, kind: EventKind, now: datetime) -> None:
        """Set the moment at which the item expires."""
        with transaction(self.connection) as connection:
            connection.execute("UPDATE items SET expires_at = ? WHERE key = ?", (to_text(at), key_of(session, item)))
            self.events.add(session, kind, now, [(item.seq, "", {"expires_at": to_text(at)})])

    def reassess(self, session: Session, item: Item, importance: float, now: datetime) -> Item:
        """Set the importance of the item; returns it as it is now."""
        with transaction(self.connection) as connection:
            connection.execute("UPDATE items SET importance = ? WHERE key = ?", (importance, key_of(session, item)))
            figures = {"before": item.importance, "importance": importance}
            self.events.add(session, EventKind.REASSESSED, now, [(item.seq, "", figures)])
        return replace(item, importance=importance)

    def promoted(self, session: Session, item: Item, promotion: Promotion, now: datetime) -> None:
        """Record that the item is a long-term record now."""
        self.connection.execute(
            "UPDATE items SET promoted_to = ?, promoted_at = ?, promotion_reason = ? WHERE key = ?",
            (promotion.id, to_text(promotion.at), promotion.reason, key_of(session, item)),
        )
        self.events.add(session, EventKind.DELIVERED, now, [(item.seq, promotion.reason, {})])

    def hide(self, session: Session, items: Sequence[Item], reason: str, now: datetime) -> None:
        """Hide these items: they are softly forgotten, but still count."""
        with transaction(self.connection) as connection:
            connection.executemany(
                "UPDATE items SET state = ?, state_reason = ? WHERE key = ?",
                [(State.HIDDEN.value, reason, key_of(session, item)) for item in items],
            )
            self.events.add(session, EventKind.HIDDEN, now, [(item.seq, reason, {}) for item in items])

    def leave(
        self,
        session: Session,
        items: Sequence[tuple[Item, str, bool]],
        now: datetime,
        kind: EventKind = EventKind.ARCHIVED,
    ) -> None:
        """Archive these (item, reason, rescue), also those that will be crystals.

        Forgotten texts do not get into the archive: of an item that holds one, the rest is archived.
        """
        with transaction(self.connection) as connection:
            items = self._without_forgotten(session, items, now)
            if not items:
                return
            keys = [key_of(session, item) for item, _, _ in items]
            connection.executemany(
                "UPDATE items SET dreamt_in = ?, state = ?, state_reason = ?, rescue = ? WHERE key = ?",
                [
                    (None if _awaits_dream(item, rescue=rescue) else 0, State.ARCHIVED.value, reason, rescue, key)
                    for key, (item, reason, rescue) in zip(keys, items, strict=True)
                ],
            )
            self._left(session, [item for item, _, _ in items])
            self.archive.take([(key, item.content) for key, (item, _, _) in zip(keys, items, strict=True)])
            details = [(item.seq, reason, {"rescue": 1} if rescue else {}) for item, reason, rescue in items]
            self.events.add(session, kind, now, details)

    def restore(self, session: Session, item: Item, now: datetime) -> Item:
        """Return an archived item to the set, with this expiry and step; everything else is unchanged."""
        back = replace(item, state=State.LIVE, state_reason="", rescue=False)
        with transaction(self.connection) as connection:
            key = key_of(session, item)
            self.archive.give_back([key])
            connection.execute(
                "UPDATE items SET state = ?, state_reason = '', rescue = 0, expires_at = ?, step_index = ?,"
                " dreamt_in = NULL WHERE key = ?",
                (State.LIVE.value, optional_text(item.expires_at), item.step_index, key),
            )
            connection.execute("INSERT INTO item_words (key, folded) VALUES (?, ?)", (key, item.content.casefold()))
            connection.execute(
                "UPDATE sessions SET held = held + 1, tokens = tokens + ? WHERE key = ?",
                (item.token_count, session.key),
            )
            self.events.add(session, EventKind.RESTORED, now, [(item.seq, item.state_reason, {})])
        return back

    def show(self, session: Session, item: Item, now: datetime) -> Item:
        """Show an item again that was hidden."""
        with transaction(self.connection) as connection:
            connection.execute(
                "UPDATE items SET state = ?, state_reason = '' WHERE key = ?",
                (State.LIVE.value, key_of(session, item)),
            )
            self.events.add(session, EventKind.RESTORED, now, [(item.seq, item.state_reason, {})])
        return replace(item, state=State.LIVE, state_reason="")

    def purge(self, session: Session, items: Sequence[Item], reason: str, now: datetime) -> None:
        """Erase the contents of these items, in the set or archived, but for salted hashes."""
        with transaction(self.connection):
            self.forgotten.block_texts((item.content for item in items), now)
            self._erase(session, items, reason, now)

    def archive_rest(self, session: Session, item: Item, reason: str, now: datetime) -> None:
        """Archive an item that left the set for promotion and was refused, without forgotten texts."""
        with transaction(self.connection):
            self.archive.give_back([key_of(session, item)])
            for left, why, _ in self._without_forgotten(session, [(item, reason, item.rescue)], now):
                self.archive.take([(key_of(session, left), left.content)])
                self.events.add(session, EventKind.ARCHIVED, now, [(left.seq, why, {})])

    def _without_forgotten(
        self, session: Session, items: Sequence[tuple[Item, str, bool]], now: datetime
    ) -> list[tuple[Item, str, bool]]:
        """These items without forgotten texts; those of which nothing remains are erased."""
        tombstones = self.forgotten.tombstones().anywhere
        kept: list[tuple[Item, str, bool]] = []
        for item, reason, rescue in items:
            left = _without_texts(item, tombstones)
            if left != item:
                self.forgotten.count()
            if not left.content and item.content:
                self._erase(session, [item], FORGOTTEN, now)
                continue
            if left != item:
                left = replace(left, id=working_id(session.id, left.content, item.created_at, self._is_taken))
                self.connection.execute(
                    "UPDATE items SET id = ?, content = ?, tags = ?, metadata = ?, agent = ?, source = ?"
                    " WHERE key = ?",
                    (
                        left.id,
                        left.content,
                        json.dumps(left.tags),
                        json.dumps(left.metadata),
                        left.agent,
                        left.source,
                        key_of(session, item),
                    ),
                )
            kept.append((left, reason, rescue))
        return kept

    def _erase(self, session: Session, items: Sequence[Item], reason: str, now: datetime) -> None:
        keys = [key_of(session, item) for item in items]
        was_cold = any(item.state is State.ARCHIVED for item in items)
        with transaction(self.connection) as connection:
            self._left(session, [item for item in items if item.state in (State.LIVE, State.HIDDEN)])
            self.archive.give_back(keys)
            self.outbox.withdraw(keys)
            listed = (json.dumps(keys),)
            connection.execute(f"DELETE FROM item_relations WHERE item IN ({_LISTED})", listed)
            # The id begins with the content, and so does the long-term one.
            connection.execute(
                "UPDATE items SET state = 'purged', state_reason = ?, id = 'purged-' || key, promoted_to = '',"
                " rescue = 0, content = '', pairs = '', tags = '[]', metadata = '{}', agent = '', source = ''"
                f" WHERE key IN ({_LISTED})",
                (reason, *listed),
            )
            if was_cold:
                self.archive.rebuild()
            self.events.add(session, EventKind.PURGED, now, [(item.seq, reason, {}) for item in items])

    def _where(self, session: Session, condition: str) -> list[Item]:
        rows = self.connection.execute(
            f"SELECT {COLUMNS} FROM items WHERE {_WITHIN} AND {condition} ORDER BY key", keys_of(session)
        ).fetchall()
        return [item_of(row) for row in rows]

    def _is_taken(self, id_: str) -> bool:
        return self.connection.execute("SELECT 1 FROM items WHERE id = ?", (id_,)).fetchone() is not None

    def _insert(self, session: Session, item: Item) -> None:
        key = key_of(session, item)
        values = {
            "key": key,
            "session": session.key,
            "id": item.id,
            "seq": item.seq,
            "content": item.content,
            "priority": item.priority.value,
            "importance": item.importance,
            "token_count": item.token_count,
            "created_at": to_text(item.created_at),
            "last_accessed_at": to_text(item.last_accessed_at),
            "expires_at": optional_text(item.expires_at),
            "importance_score": item.importance_score,
            "access_count": item.access_count,
            "step_index": item.step_index,
            "agent": item.agent,
            "source": item.source,
            "tags": json.dumps(item.tags),
            "metadata": json.dumps(item.metadata),
        }
        self.connection.execute(
            f"INSERT INTO items ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", tuple(values.values())
        )
        self.connection.execute("INSERT INTO item_words VALUES (?, ?)", (key, item.content.casefold()))

    def _left(self, session: Session, items: Sequence[Item]) -> None:
        """Remove these items' words and figures from the set."""
        self.connection.execute(
            f"DELETE FROM item_words WHERE key IN ({_LISTED})",
            (json.dumps([key_of(session, item) for item in items]),),
        )
        self.connection.execute(
            "UPDATE sessions SET held = held - ?, tokens = tokens - ? WHERE key = ?",
            (len(items), sum(item.token_count for item in items), session.key),
        )


def _awaits_dream(item: Item, *, rescue: bool) -> bool:
    """Whether the next dream is to consume the item: not one that was hidden, or that nobody needed."""
    return item.state is not State.HIDDEN and (rescue or deserves_rescue(item))


def _without_texts(item: Item, tombstones: Known) -> Item:
    """The item without forgotten texts; tags and metadata that hold one are dropped."""
    if not tombstones:
        return item
    return replace(
        item,
        content=tombstones.without(item.content),
        tags=tuple(tag for tag in item.tags if not tombstones.found(tag)),
        metadata={
            name: value
            for name, value in item.metadata.items()
            if not (tombstones.found(name) or tombstones.found(value))
        },
        agent=tombstones.without(item.agent),
        source=tombstones.without(item.source),
    )
