-- A namespace is a JSON list of labels. `fields` (JSON) are the paths of what is compared by meaning, `embedded_by`
-- the model whose vectors there are; empty: none yet.
CREATE TABLE entries (
    key         INTEGER PRIMARY KEY,
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    value       TEXT NOT NULL,
    fields      TEXT NOT NULL DEFAULT '[]',
    created_at  TEXT NOT NULL,
    updated_at  TEXT NOT NULL,
    lifetime    REAL,                       -- seconds from its last use on
    expires_at  TEXT,
    embedded_by TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX entries_by_name ON entries (namespace, name);
CREATE INDEX entries_by_update ON entries (updated_at, key);
CREATE INDEX entries_by_expiry ON entries (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX entries_by_model ON entries (embedded_by, updated_at DESC) WHERE fields <> '[]';
-- All that tells which rows below a namespace are meant, and in which order: no row is read for that.
CREATE INDEX entries_below ON entries (namespace, updated_at, expires_at, embedded_by);

CREATE TABLE entry_vectors (
    key    INTEGER PRIMARY KEY,
    entry  INTEGER NOT NULL REFERENCES entries (key) ON DELETE CASCADE,
    vector BLOB NOT NULL                    -- little-endian float32, L2-normalised
);
CREATE INDEX entry_vectors_by_entry ON entry_vectors (entry);
