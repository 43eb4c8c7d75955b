"""Schema: what a new state.db holds beside the declared tables (`tables`): full-text indexes and a log that stays."""

SCHEMA_VERSION = 22
UNDECLARED = (
    """CREATE VIRTUAL TABLE words USING fts5 (text, context, pairs, content = 'crystals', content_rowid = 'key',
    tokenize = 'porter unicode61 remove_diacritics 2')""",
    # The full text of what left the sessions.
    "CREATE VIEW cold_items AS SELECT key, content, tags, pairs FROM items WHERE state = 'archived'",
    """CREATE VIRTUAL TABLE cold_words USING fts5 (content, tags, pairs, content = 'cold_items',
    content_rowid = 'key', tokenize = 'porter unicode61 remove_diacritics 2')""",
    """CREATE TRIGGER item_events_stay BEFORE UPDATE ON item_events BEGIN
    SELECT RAISE(ABORT, 'events are only ever added');
END""",
    """CREATE TRIGGER item_events_are_kept BEFORE DELETE ON item_events BEGIN
    SELECT RAISE(ABORT, 'events are only ever added');
END""",
)
INDEXES = ("words", "cold_words")
