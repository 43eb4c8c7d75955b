"""Schema of sessions: working memory and its events, how it came about, and salted hashes of what was forgotten."""

COLD_WORDS = """
-- The full text of what left the sessions.
CREATE VIEW cold_items AS SELECT key, content, tags, pairs FROM items WHERE state = 'archived';
CREATE VIRTUAL TABLE cold_words USING fts5 (content, tags, pairs, content = 'cold_items', content_rowid = 'key',
    tokenize = 'porter unicode61 remove_diacritics 2');
"""
EVENTS_STAY = """
CREATE TRIGGER item_events_stay BEFORE UPDATE ON item_events BEGIN
    SELECT RAISE(ABORT, 'events are only ever added');
END;
CREATE TRIGGER item_events_are_kept BEFORE DELETE ON item_events BEGIN
    SELECT RAISE(ABORT, 'events are only ever added');
END;
"""
SESSIONS = (
    """
CREATE TABLE sessions (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, policy TEXT NOT NULL, config TEXT NOT
    NULL DEFAULT '{}', opened_at TEXT NOT NULL, closed_at TEXT, next_seq INTEGER NOT NULL DEFAULT 0, step INTEGER
    NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0, due_at TEXT);
CREATE INDEX sessions_due ON sessions (due_at) WHERE due_at IS NOT NULL;
CREATE TABLE items (key INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions (key), id TEXT NOT NULL
    UNIQUE, seq INTEGER NOT NULL, content TEXT NOT NULL, priority TEXT NOT NULL, importance REAL NOT NULL,
    token_count INTEGER NOT NULL, created_at TEXT NOT NULL, last_accessed_at TEXT NOT NULL, expires_at TEXT,
    importance_score REAL NOT NULL DEFAULT 0, access_count INTEGER NOT NULL DEFAULT 1, step_index INTEGER NOT NULL
    DEFAULT 0, agent TEXT NOT NULL DEFAULT '', source TEXT NOT NULL DEFAULT '', tags TEXT NOT NULL DEFAULT '[]',
    metadata TEXT NOT NULL DEFAULT '{}', state TEXT NOT NULL DEFAULT 'live', state_reason TEXT NOT NULL DEFAULT
    '', promoted_to TEXT NOT NULL DEFAULT '', promoted_at TEXT, promotion_reason TEXT NOT NULL DEFAULT '', rescue
    INTEGER NOT NULL DEFAULT 0, cold INTEGER NOT NULL DEFAULT 0, pairs TEXT NOT NULL DEFAULT '', dreamt_in
    INTEGER);
CREATE INDEX items_by_seq ON items (session, seq, importance, created_at, step_index, state) WHERE state IN
    ('live', 'hidden');
CREATE INDEX items_by_age ON items (session, created_at, seq, importance, step_index, state) WHERE state IN
    ('live', 'hidden');
CREATE INDEX items_by_importance ON items (session, importance, created_at, seq, step_index, state) WHERE state IN
    ('live', 'hidden');
CREATE INDEX items_by_expiry ON items (session, expires_at, seq) WHERE state IN ('live', 'hidden') AND expires_at
    IS NOT NULL;
CREATE INDEX items_hidden ON items (session, seq) WHERE state = 'hidden';
CREATE INDEX items_cold ON items (session, key) WHERE cold = 1;
CREATE INDEX items_undreamt ON items (rescue DESC, importance DESC, key) WHERE cold = 1 AND dreamt_in IS NULL;
CREATE TABLE item_words (key INTEGER PRIMARY KEY REFERENCES items (key) ON DELETE CASCADE, folded TEXT NOT NULL);
-- The cold archive's full text. Only what is cold is in it, and it keeps no copy.
CREATE VIEW cold_items AS SELECT key, content, tags, pairs FROM items WHERE cold = 1;
CREATE VIRTUAL TABLE cold_words USING fts5 (content, tags, pairs, content = 'cold_items', content_rowid = 'key',
    tokenize = 'porter unicode61 remove_diacritics 2');
CREATE TABLE item_events (key INTEGER PRIMARY KEY, at TEXT NOT NULL, session INTEGER NOT NULL, item INTEGER,
    action TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', figures TEXT NOT NULL DEFAULT '{}');
CREATE INDEX item_events_by_session ON item_events (session, key);
CREATE INDEX item_events_by_item ON item_events (item, key) WHERE item IS NOT NULL;
"""
    + EVENTS_STAY
    + """
CREATE TABLE item_relations (item INTEGER NOT NULL REFERENCES items (key) ON DELETE CASCADE, type TEXT NOT NULL,
    target TEXT NOT NULL, metadata TEXT NOT NULL DEFAULT '{}', at TEXT NOT NULL, PRIMARY KEY (item, type, target))
    WITHOUT ROWID;
CREATE TABLE promotions (item INTEGER PRIMARY KEY REFERENCES items (key) ON DELETE CASCADE, id TEXT NOT NULL
    UNIQUE, crystal TEXT NOT NULL, record TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL, delivered_at
    TEXT);
CREATE INDEX promotions_waiting ON promotions (item) WHERE delivered_at IS NULL;
CREATE TABLE forgotten (digest TEXT PRIMARY KEY, at TEXT NOT NULL) WITHOUT ROWID;
"""
)

FORGETTING = """
-- A digest is of a whole text (`length` 0), or of a run of so many words, wherever it stands.
ALTER TABLE forgotten ADD COLUMN length INTEGER NOT NULL DEFAULT 0;
ALTER TABLE forgotten ADD COLUMN mark INTEGER NOT NULL DEFAULT 0;
"""

_SCORE = "CAST(round(1000000 * min(1.0, max(0.0, {row}importance_score))) AS INTEGER)"
_PLACE = "{row}session, {row}priority, {row}state = 'hidden', {row}promoted_to <> '', {row}access_count"
_SAME_PLACE = "(session, priority, hidden, promoted, accesses) = ({place})"


def _counted(row: str, sign: str) -> str:
    """Return the statements of a trigger that count this row in (+) or out (-)."""
    place, score = _PLACE.format(row=row), _SCORE.format(row=row)
    where = f"WHERE {_SAME_PLACE.format(place=place)}"
    change = f"UPDATE item_counts SET items = items {sign} 1, importance = importance {sign} {score} {where};"
    if sign == "+":
        return f"INSERT OR IGNORE INTO item_counts VALUES ({place}, 0, 0);\n    {change}"
    return f"{change}\n    DELETE FROM item_counts {where} AND items = 0;"


COUNTS = f"""
CREATE TABLE item_counts (session INTEGER NOT NULL, priority TEXT NOT NULL, hidden INTEGER NOT NULL, promoted
    INTEGER NOT NULL, accesses INTEGER NOT NULL, items INTEGER NOT NULL, importance INTEGER NOT NULL, PRIMARY KEY
    (session, priority, hidden, promoted, accesses)) WITHOUT ROWID;
INSERT INTO item_counts SELECT {_PLACE.format(row="")}, count(*), sum({_SCORE.format(row="")}) FROM items WHERE
    state IN ('live', 'hidden') GROUP BY 1, 2, 3, 4, 5;
CREATE TRIGGER items_added AFTER INSERT ON items WHEN new.state IN ('live', 'hidden') BEGIN
    {_counted("new.", "+")}
END;
CREATE TRIGGER items_removed AFTER DELETE ON items WHEN old.state IN ('live', 'hidden') BEGIN
    {_counted("old.", "-")}
END;
CREATE TRIGGER items_left AFTER UPDATE OF priority, state, promoted_to, access_count, importance_score ON items
WHEN old.state IN ('live', 'hidden') BEGIN
    {_counted("old.", "-")}
END;
CREATE TRIGGER items_came AFTER UPDATE OF priority, state, promoted_to, access_count, importance_score ON items
WHEN new.state IN ('live', 'hidden') BEGIN
    {_counted("new.", "+")}
END;
"""

# One row an item, whatever becomes of it. What can be computed of the rows is not stored beside them, and what left
# and waited to become a crystal becomes one with the next dream.
ITEM_ROWS = (
    """
CREATE TABLE item_rows (key INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions (key), id TEXT NOT
    NULL UNIQUE, seq INTEGER NOT NULL, content TEXT NOT NULL, priority TEXT NOT NULL, importance REAL NOT NULL,
    token_count INTEGER NOT NULL, created_at TEXT NOT NULL, last_accessed_at TEXT NOT NULL, expires_at TEXT,
    importance_score REAL NOT NULL, access_count INTEGER NOT NULL, step_index INTEGER NOT NULL, agent_id TEXT NOT
    NULL, source TEXT NOT NULL, tags TEXT NOT NULL, metadata TEXT NOT NULL, relations TEXT NOT NULL DEFAULT '[]',
    state TEXT NOT NULL DEFAULT 'live', state_reason TEXT NOT NULL DEFAULT '', promoted_to_id TEXT, promoted_at
    TEXT, promotion_reason TEXT, record TEXT NOT NULL DEFAULT '{}', rescue INTEGER NOT NULL DEFAULT 0, pairs TEXT
    NOT NULL DEFAULT '', dreamt_in INTEGER);
INSERT INTO item_rows SELECT i.key, i.session, i.id, i.seq, i.content, i.priority, i.importance, i.token_count,
    i.created_at, i.last_accessed_at, i.expires_at, i.importance_score, i.access_count, i.step_index, i.agent,
    i.source, i.tags, i.metadata, (SELECT json_group_array(json_array(type, target, json(iif(json_valid(metadata),
    metadata, '{}')))) FROM (SELECT * FROM item_relations WHERE item = i.key ORDER BY at, type, target)), i.state,
    i.state_reason, nullif(i.promoted_to, ''), i.promoted_at, nullif(i.promotion_reason, ''), iif(p.delivered_at
    IS NOT NULL AND json_valid(p.record), coalesce(json_extract(p.record, '$.metadata'), '{}'), '{}'), i.rescue,
    i.pairs, iif(p.item IS NOT NULL AND p.delivered_at IS NULL, NULL, i.dreamt_in) FROM items i LEFT JOIN
    promotions p ON p.item = i.key;
DROP TABLE cold_words;
DROP VIEW cold_items;
DROP TABLE item_words;
DROP TABLE item_counts;
DROP TABLE item_relations;
DROP TABLE promotions;
DROP TABLE items;
ALTER TABLE item_rows RENAME TO items;
CREATE INDEX items_held ON items (session, seq, token_count) WHERE state IN ('live', 'hidden');
CREATE INDEX items_archived ON items (session, key) WHERE state = 'archived';
CREATE INDEX items_undreamt ON items (rescue DESC, importance DESC, key) WHERE state = 'archived' AND dreamt_in IS
    NULL AND promoted_to_id IS NULL;
"""
    + COLD_WORDS
    + """
INSERT INTO cold_words (cold_words) VALUES ('rebuild');
-- How many items a session holds, and their numbers, are asked of its items.
ALTER TABLE sessions DROP COLUMN next_seq;
ALTER TABLE sessions DROP COLUMN held;
ALTER TABLE sessions DROP COLUMN tokens;
"""
)
