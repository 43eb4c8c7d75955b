"""Schema: its number, and what state.db holds besides the declared tables (`tables`): full-text indexes, triggers."""

FIRST_SCHEMA = 24
"""The schema of 0.2.0, the first release; every later one can be read."""
UPGRADES: tuple[tuple[str, ...], ...] = ()
"""For each later schema, the statements that bring the rows of the one before it up to date.

They run when the rows are in the current tables (`migration`). The table NAME as it was is `before_NAME`, and a table
that the current schema lacks has its own name.
"""
SCHEMA_VERSION = FIRST_SCHEMA + len(UPGRADES)
UNDECLARED = (
    """CREATE VIRTUAL TABLE words USING fts5 (text, context, pairs, content = 'crystals', content_rowid = 'key',
    tokenize = 'porter unicode61 remove_diacritics 2')""",
    # Full text of the items that left their sessions.
    "CREATE VIEW cold_items AS SELECT key, content, tags, pairs FROM items WHERE state = 'archived'",
    """CREATE VIRTUAL TABLE cold_words USING fts5 (content, tags, pairs, content = 'cold_items',
    content_rowid = 'key', tokenize = 'porter unicode61 remove_diacritics 2')""",
    """CREATE TRIGGER item_events_stay BEFORE UPDATE ON item_events BEGIN
    SELECT RAISE(ABORT, 'events are only ever added');
END""",
    """CREATE TRIGGER item_events_are_kept BEFORE DELETE ON item_events BEGIN
    SELECT RAISE(ABORT, 'events are only ever added');
END""",
    # ChromaDB holds a crystal from its embedding on: what `state.stores.vectors.chroma.Record` has of it.
    """CREATE TRIGGER crystals_indexed AFTER UPDATE OF id, text, speaker, origin, kind, session, created_at, vector
    ON crystals WHEN coalesce(OLD.vector, NEW.vector) IS NOT NULL BEGIN
    INSERT INTO to_index (id) SELECT OLD.id UNION SELECT NEW.id;
END""",
    """CREATE TRIGGER crystals_unindexed AFTER DELETE ON crystals WHEN OLD.vector IS NOT NULL BEGIN
    INSERT INTO to_index (id) VALUES (OLD.id);
END""",
)
INDEXES = ("words", "cold_words")


def unreadable(version: int) -> tuple[str, str] | None:
    """Return why this dreamd cannot read a database of this schema, and what to do; None if it can (0: a new one)."""
    if version > SCHEMA_VERSION:
        return f"written by a newer dreamd (schema {version}, this one knows {SCHEMA_VERSION})", "upgrade"
    if version and version < FIRST_SCHEMA:
        return (
            f"made by a dreamd before 0.2.0, which was never released (schema {version})",
            "move it and copies/ away",
        )
    return None
