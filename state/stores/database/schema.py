"""Schema: what state.db holds besides the declared tables (`tables`): full-text indexes, and an append-only log."""

SCHEMA_VERSION = 24
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
