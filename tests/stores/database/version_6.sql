
CREATE TABLE supersessions (
    older     INTEGER NOT NULL REFERENCES crystals (key) ON DELETE CASCADE,
    newer     INTEGER NOT NULL REFERENCES crystals (key) ON DELETE CASCADE,
    sureness  REAL NOT NULL,
    trust     TEXT NOT NULL,        -- on whose word
    cause     TEXT NOT NULL,        -- consolidation, dream, session, owner
    version   INTEGER,              -- whose dream found it
    at        TEXT NOT NULL,
    undone_at TEXT,                 -- the owner has taken it back: it is not found again
    PRIMARY KEY (older, newer)
) WITHOUT ROWID;
CREATE INDEX supersessions_by_newer ON supersessions (newer);
CREATE INDEX supersessions_by_version ON supersessions (version) WHERE version IS NOT NULL;

-- What is there already is compared once more.
INSERT OR IGNORE INTO to_compare SELECT crystal FROM vectors;

-- The last searches that found something good, with what stood first.
CREATE TABLE searches (
    query   TEXT PRIMARY KEY,
    crystal TEXT NOT NULL,
    at      TEXT NOT NULL
) WITHOUT ROWID;

-- Of each dream: how many pointers and searches were asked, how many found theirs before it and after it.
CREATE TABLE recalls (
    dream  TEXT PRIMARY KEY,
    at     TEXT NOT NULL,
    asked  INTEGER NOT NULL,
    before INTEGER NOT NULL,
    after  INTEGER NOT NULL,
    lost   TEXT NOT NULL DEFAULT '[]'  -- JSON: the keywords and queries that find theirs no more
) WITHOUT ROWID;

-- Changes of lines that wait for the owner, and doubtful ones that applied; decided ones are kept like the ledger.
CREATE TABLE changes (
    number     INTEGER PRIMARY KEY,     -- what the owner calls it
    dream      TEXT NOT NULL,           -- whose change it is, and which of them
    place      INTEGER NOT NULL,
    at         TEXT NOT NULL,           -- since when it waits
    record     TEXT NOT NULL,           -- JSON: operation, old lines, evidence, figures
    decision   TEXT NOT NULL,           -- waiting, doubtful; approved, declined, accepted, undone, expired, outdated
    decided_at TEXT,
    note       TEXT NOT NULL DEFAULT '' -- the crystal of the note that it has become
);
CREATE UNIQUE INDEX changes_by_dream ON changes (dream, place);
CREATE INDEX changes_by_decision ON changes (decision);
