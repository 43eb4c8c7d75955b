-- The finished steps of each dream, in order. Calls and tokens are those since the step before.
CREATE TABLE steps (
    dream   TEXT NOT NULL,
    place   INTEGER NOT NULL,
    node    TEXT NOT NULL,
    at      TEXT NOT NULL,
    seconds REAL NOT NULL,
    calls   INTEGER NOT NULL,
    tokens  INTEGER NOT NULL,
    figures TEXT NOT NULL,
    PRIMARY KEY (dream, place)
) WITHOUT ROWID;

-- The messages of a call, JSON; kept as long as its reply. The last column: who reads what was paid reads past none.
ALTER TABLE calls ADD COLUMN request TEXT NOT NULL DEFAULT '';

-- Who did, in which window, what (an operation) about which things: ids, numbers and counts, no word of the memory.
-- The outcome is done, or the code of the error; the version is the one that it made.
CREATE TABLE acts (
    number  INTEGER PRIMARY KEY,
    at      TEXT NOT NULL,
    author  TEXT NOT NULL,
    act     TEXT NOT NULL,
    about   TEXT NOT NULL,
    outcome TEXT NOT NULL,
    version INTEGER
);
