"""Schema of memory, as it became what `tables` declares; each script brings a database to the next version."""

WORDS = """
CREATE VIRTUAL TABLE words USING fts5 (text, context, pairs, content = 'crystals', content_rowid = 'key',
    tokenize = 'porter unicode61 remove_diacritics 2');
"""
MEMORIES = (
    """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE crystals (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL,
    context TEXT NOT NULL DEFAULT '', pairs TEXT NOT NULL DEFAULT '', speaker TEXT NOT NULL DEFAULT '',
    origin TEXT NOT NULL, kind TEXT NOT NULL, importance REAL NOT NULL, trust TEXT NOT NULL,
    session TEXT NOT NULL DEFAULT '', position INTEGER NOT NULL DEFAULT 0, lifecycle TEXT NOT NULL,
    accesses INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL, last_accessed_at TEXT,
    valence REAL NOT NULL DEFAULT 0, parents TEXT NOT NULL DEFAULT '[]', dreamt_in INTEGER);
CREATE INDEX crystals_by_kind ON crystals (kind, key);
CREATE INDEX crystals_by_session ON crystals (session, position);
CREATE INDEX crystals_by_speaker ON crystals (speaker) WHERE speaker <> '';
CREATE INDEX crystals_undreamt ON crystals (importance DESC, key) WHERE dreamt_in IS NULL;
CREATE TABLE occurrences (crystal INTEGER NOT NULL REFERENCES crystals (key) ON DELETE CASCADE,
    session TEXT NOT NULL, position INTEGER NOT NULL, at TEXT NOT NULL, file TEXT NOT NULL DEFAULT '',
    first_line INTEGER NOT NULL DEFAULT 0, last_line INTEGER NOT NULL DEFAULT 0, digest TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (crystal, session, position, file, first_line)) WITHOUT ROWID;
CREATE INDEX occurrences_by_session ON occurrences (session, position);
CREATE TABLE vectors (crystal INTEGER PRIMARY KEY REFERENCES crystals (key) ON DELETE CASCADE, model TEXT NOT NULL,
    vector BLOB NOT NULL);
CREATE TABLE to_embed (crystal INTEGER PRIMARY KEY REFERENCES crystals (key) ON DELETE CASCADE);
CREATE TABLE to_index (crystal INTEGER PRIMARY KEY REFERENCES crystals (key) ON DELETE CASCADE);
"""
    + WORDS
    + """CREATE VIRTUAL TABLE vocabulary USING fts5vocab ('words', 'row');
CREATE TABLE watermarks (file TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE hormones (one INTEGER PRIMARY KEY CHECK (one = 1), dopamine REAL NOT NULL, cortisol REAL NOT NULL,
    oxytocin REAL NOT NULL, at TEXT NOT NULL, armed TEXT NOT NULL DEFAULT '{}');
CREATE TABLE feelings (key INTEGER PRIMARY KEY, at TEXT NOT NULL, event TEXT NOT NULL,
    cause TEXT NOT NULL DEFAULT '', dopamine REAL NOT NULL, cortisol REAL NOT NULL, oxytocin REAL NOT NULL);
CREATE TABLE gaps (folded TEXT PRIMARY KEY, question TEXT NOT NULL, cause TEXT NOT NULL,
    times INTEGER NOT NULL DEFAULT 1, first_at TEXT NOT NULL, last_at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE versions (number INTEGER PRIMARY KEY, at TEXT NOT NULL, cause TEXT NOT NULL,
    dream TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '', digest TEXT NOT NULL,
    characters INTEGER NOT NULL, model TEXT NOT NULL DEFAULT '', calls INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0, usd REAL NOT NULL DEFAULT 0, seconds REAL NOT NULL DEFAULT 0,
    added INTEGER NOT NULL DEFAULT 0, revised INTEGER NOT NULL DEFAULT 0, evicted INTEGER NOT NULL DEFAULT 0,
    notes INTEGER NOT NULL DEFAULT 0);
CREATE TABLE lines (id TEXT PRIMARY KEY, section TEXT NOT NULL, text TEXT NOT NULL, crystal TEXT NOT NULL,
    importance REAL NOT NULL, trust TEXT NOT NULL, born_in INTEGER NOT NULL, born_at TEXT NOT NULL, died_in INTEGER,
    fate TEXT NOT NULL DEFAULT '', successor TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
CREATE INDEX lines_by_death ON lines (died_in);
CREATE INDEX lines_by_successor ON lines (successor) WHERE successor <> '';
CREATE TABLE evidence (line TEXT NOT NULL, version INTEGER NOT NULL, crystal TEXT NOT NULL, PRIMARY KEY (line,
    version, crystal)) WITHOUT ROWID;
CREATE TABLE operations (version INTEGER NOT NULL, seq INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (version,
    seq)) WITHOUT ROWID;
CREATE TABLE pointers (keywords TEXT PRIMARY KEY, topic TEXT NOT NULL, crystal TEXT NOT NULL,
    line TEXT NOT NULL DEFAULT '', made_in INTEGER NOT NULL, standing INTEGER NOT NULL DEFAULT 1,
    uses INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE INDEX pointers_by_line ON pointers (line);
CREATE INDEX pointers_standing ON pointers (keywords) WHERE standing = 1;
CREATE TABLE tombstones (text TEXT PRIMARY KEY, at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE dreams (id TEXT PRIMARY KEY, started_at TEXT NOT NULL, ended_at TEXT, reason TEXT NOT NULL,
    outcome TEXT NOT NULL DEFAULT 'running', detail TEXT NOT NULL DEFAULT '', version INTEGER,
    times INTEGER NOT NULL DEFAULT 1) WITHOUT ROWID;
CREATE INDEX dreams_by_start ON dreams (started_at);
CREATE TABLE rejections (key INTEGER PRIMARY KEY, dream TEXT NOT NULL, at TEXT NOT NULL, guard TEXT NOT NULL,
    scope TEXT NOT NULL, figures TEXT NOT NULL);
CREATE TABLE calls (key INTEGER PRIMARY KEY, dream TEXT NOT NULL, digest TEXT NOT NULL, at TEXT NOT NULL,
    model TEXT NOT NULL, usable INTEGER NOT NULL, reply TEXT NOT NULL, tokens INTEGER NOT NULL, usd REAL NOT NULL);
CREATE INDEX calls_by_request ON calls (dream, digest);
CREATE INDEX calls_by_time ON calls (at);
CREATE TABLE proposals (dream TEXT PRIMARY KEY, at TEXT NOT NULL, record TEXT NOT NULL,
    verdict TEXT NOT NULL DEFAULT 'waiting') WITHOUT ROWID;
"""
)

# What consolidation keeps, so that a pass asks for what is new and for nothing else.
COMPARISONS = """
ALTER TABLE crystals ADD COLUMN fades_at TEXT;
ALTER TABLE crystals ADD COLUMN merged_into INTEGER REFERENCES crystals (key) ON DELETE SET NULL;
UPDATE crystals SET fades_at = faded_at(importance, accesses, valence, created_at, last_accessed_at);
CREATE INDEX crystals_by_fading ON crystals (fades_at) WHERE lifecycle NOT IN ('archived', 'frozen');
CREATE INDEX crystals_by_survivor ON crystals (merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX pointers_by_crystal ON pointers (crystal);
CREATE INDEX evidence_by_crystal ON evidence (crystal);
CREATE TABLE to_compare (crystal INTEGER PRIMARY KEY REFERENCES crystals (key) ON DELETE CASCADE);
INSERT INTO to_compare SELECT crystal FROM vectors;
ALTER TABLE gaps ADD COLUMN one TEXT NOT NULL DEFAULT '';
ALTER TABLE gaps ADD COLUMN other TEXT NOT NULL DEFAULT '';
ALTER TABLE gaps ADD COLUMN asked_upto INTEGER NOT NULL DEFAULT 0;
UPDATE gaps SET asked_upto = (SELECT coalesce(max(key), 0) FROM crystals);
CREATE INDEX gaps_by_asking ON gaps (asked_upto) WHERE cause IN ('miss', 'question');
CREATE INDEX gaps_by_dispute ON gaps (one) WHERE one <> '';
CREATE TABLE skills (place INTEGER PRIMARY KEY, pattern TEXT NOT NULL, confidence REAL NOT NULL,
    occurrences INTEGER NOT NULL, sessions INTEGER NOT NULL);
"""

# What a search filters by, what a forgetting follows, and what a sweep of the ledger looks for stands in an index.
LOOKUPS = """
CREATE INDEX crystals_by_time ON crystals (created_at, origin, kind, trust, speaker);
CREATE INDEX lines_by_crystal ON lines (crystal);
CREATE INDEX item_relations_by_target ON item_relations (target);
CREATE INDEX rejections_by_dream ON rejections (dream);
CREATE INDEX rejections_by_time ON rejections (at);
CREATE INDEX feelings_by_time ON feelings (at);
CREATE INDEX gaps_by_time ON gaps (last_at);
CREATE INDEX calls_with_answer ON calls (at) WHERE reply <> '';
-- Nobody read these: the record of a version in the journal has its operations.
DROP TABLE operations;
DROP TABLE vocabulary;
CREATE TABLE levels (one INTEGER PRIMARY KEY CHECK (one = 1), dopamine REAL NOT NULL, cortisol REAL NOT NULL,
    oxytocin REAL NOT NULL, at TEXT NOT NULL, armed TEXT NOT NULL DEFAULT '[]');
INSERT INTO levels SELECT one, dopamine, cortisol, oxytocin, at, replace(armed, '{}', '[]') FROM hormones;
DROP TABLE hormones;
ALTER TABLE levels RENAME TO hormones;
"""

# Which crystal gives the subject of which other one another value.
SUPERSESSIONS = """
CREATE TABLE supersessions (older INTEGER NOT NULL REFERENCES crystals (key) ON DELETE CASCADE,
    newer INTEGER NOT NULL REFERENCES crystals (key) ON DELETE CASCADE, sureness REAL NOT NULL, trust TEXT NOT NULL,
    cause TEXT NOT NULL, version INTEGER, at TEXT NOT NULL, undone_at TEXT, PRIMARY KEY (older,
    newer)) WITHOUT ROWID;
CREATE INDEX supersessions_by_newer ON supersessions (newer);
CREATE INDEX supersessions_by_version ON supersessions (version) WHERE version IS NOT NULL;
-- What is there already is compared once more.
INSERT OR IGNORE INTO to_compare SELECT crystal FROM vectors;
"""

# Whether what could be found is still found after a dream.
RECALLS = """
CREATE TABLE searches (query TEXT PRIMARY KEY, crystal TEXT NOT NULL, at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE recalls (dream TEXT PRIMARY KEY, at TEXT NOT NULL, asked INTEGER NOT NULL, before INTEGER NOT NULL,
    after INTEGER NOT NULL, lost TEXT NOT NULL DEFAULT '[]') WITHOUT ROWID;
"""

# What a search found before a dream and after it is asked in the benchmarks.
NO_RECALLS = """
DROP TABLE searches;
DROP TABLE recalls;
"""

# Relations are those that somebody named. What was found by comparing texts goes.
NAMED = """
CREATE TEMP VIEW found_by_code AS SELECT older, newer FROM supersessions
WHERE cause = 'consolidation' OR cause = 'dream'
AND coalesce((SELECT model FROM versions WHERE number = supersessions.version), '') IN ('', 'extractive');
CREATE TEMP VIEW unlike AS
SELECT hidden.key FROM crystals hidden JOIN crystals shown ON shown.key = hidden.merged_into
WHERE normalised(hidden.text) <> normalised(shown.text);
INSERT INTO meta SELECT 'relations_dropped', dropped FROM
    (SELECT (SELECT count(*) FROM found_by_code) + (SELECT count(*) FROM unlike) AS dropped) WHERE dropped > 0;
DELETE FROM supersessions WHERE (older, newer) IN found_by_code;
-- 0: no dream had to see it, because one saw what stood for it.
UPDATE crystals SET merged_into = NULL, lifecycle = 'activated', dreamt_in = nullif(dreamt_in, 0) WHERE key IN unlike;
DROP VIEW found_by_code;
DROP VIEW unlike;
-- Nothing is in doubt any more: what applied can be undone.
UPDATE changes SET decision = 'applied' WHERE decision = 'doubtful';
ALTER TABLE supersessions DROP COLUMN sureness;
-- A question leaves when nobody has asked it for long, and not when words seem to answer it.
DELETE FROM gaps WHERE cause = 'contradiction';
DROP INDEX gaps_by_asking;
DROP INDEX gaps_by_dispute;
ALTER TABLE gaps DROP COLUMN one;
ALTER TABLE gaps DROP COLUMN other;
ALTER TABLE gaps DROP COLUMN asked_upto;
"""

# What the owner is to look at, line by line.
REVIEWS = """
CREATE TABLE changes (number INTEGER PRIMARY KEY, dream TEXT NOT NULL, place INTEGER NOT NULL, at TEXT NOT NULL,
    record TEXT NOT NULL, decision TEXT NOT NULL, decided_at TEXT, note TEXT NOT NULL DEFAULT '');
CREATE UNIQUE INDEX changes_by_dream ON changes (dream, place);
CREATE INDEX changes_by_decision ON changes (decision);
"""

# What the file of vectors that there was then might hold otherwise than `vectors`.
FILING = """
CREATE TABLE to_file (crystal INTEGER PRIMARY KEY);
"""

# How a dream came about, what it asked, and what a person did through a window.
ACCOUNTS = """
CREATE TABLE steps (dream TEXT NOT NULL, place INTEGER NOT NULL, node TEXT NOT NULL, at TEXT NOT NULL,
    seconds REAL NOT NULL, calls INTEGER NOT NULL, tokens INTEGER NOT NULL, figures TEXT NOT NULL,
    PRIMARY KEY (dream, place)) WITHOUT ROWID;
ALTER TABLE calls ADD COLUMN request TEXT NOT NULL DEFAULT '';
CREATE TABLE acts (number INTEGER PRIMARY KEY, at TEXT NOT NULL, author TEXT NOT NULL, act TEXT NOT NULL,
    about TEXT NOT NULL, outcome TEXT NOT NULL, version INTEGER);
"""

# Versions with their texts, and what MEMORY.md last had of them and is to have.
TEXTS = """
ALTER TABLE versions ADD COLUMN text TEXT NOT NULL DEFAULT '';
ALTER TABLE versions ADD COLUMN record TEXT NOT NULL DEFAULT '';
CREATE INDEX versions_by_dream ON versions (dream) WHERE dream <> '';
CREATE TABLE document (one INTEGER PRIMARY KEY CHECK (one = 1), rendered TEXT NOT NULL, wanted TEXT NOT NULL,
    edits TEXT NOT NULL, swap INTEGER NOT NULL, version INTEGER NOT NULL, retire TEXT NOT NULL,
    gives_back INTEGER NOT NULL);
"""

# Notes as rows, and how far the files in which they arrive were read.
NOTES = """
CREATE TABLE notes (key INTEGER PRIMARY KEY, at TEXT NOT NULL, importance REAL NOT NULL, auto INTEGER NOT NULL,
    replaces TEXT NOT NULL, digest TEXT NOT NULL UNIQUE,
    crystal INTEGER NOT NULL REFERENCES crystals (key) ON DELETE CASCADE, filed INTEGER NOT NULL,
    consumed_in INTEGER);
CREATE INDEX notes_pending ON notes (key) WHERE consumed_in IS NULL;
CREATE INDEX notes_by_crystal ON notes (crystal);
CREATE INDEX notes_by_version ON notes (consumed_in) WHERE consumed_in IS NOT NULL;
CREATE TABLE marks (end INTEGER NOT NULL, digest TEXT NOT NULL, start INTEGER NOT NULL, note INTEGER NOT NULL,
    PRIMARY KEY (end, digest)) WITHOUT ROWID;
ALTER TABLE document DROP COLUMN retire;
ALTER TABLE document DROP COLUMN gives_back;
ALTER TABLE document ADD COLUMN consumed INTEGER NOT NULL DEFAULT 0;
DELETE FROM meta WHERE name = 'notes_read';
"""

# What an agent had read since its owner's last word when it said or noted this: web, tool, or nothing.
HEARD = """
ALTER TABLE crystals ADD COLUMN heard TEXT NOT NULL DEFAULT '';
"""

# An id says nothing; a crystal is known again by its digest, which was its id until now.
DIGESTS = """
ALTER TABLE crystals ADD COLUMN digest TEXT NOT NULL DEFAULT '';
UPDATE crystals SET digest = id;
CREATE UNIQUE INDEX crystals_by_digest ON crystals (digest);
UPDATE meta SET value = json_remove(json_set(value, '$.crystals',
    json((SELECT json_group_array(key) FROM json_each(meta.value, '$.renamed')))), '$.renamed')
    WHERE name = 'forgetting';
"""

# What can be computed again is no truth: vectors stand in index/vectors.db, and ChromaDB is told from there.
INDEX = """
CREATE TABLE index_state (one INTEGER PRIMARY KEY CHECK (one = 1), vectors TEXT NOT NULL, written INTEGER NOT NULL,
    build TEXT NOT NULL, clean INTEGER NOT NULL);
-- What waits for its vector is compared afterwards: from now on it waits for both from its beginning.
INSERT OR IGNORE INTO to_compare SELECT crystal FROM to_embed;
DROP TABLE vectors;
DROP TABLE to_index;
DROP TABLE to_file;
DELETE FROM meta WHERE name = 'vector_file';
"""

# The last day on which a line holds, as who wrote it said.
UNTIL = """
ALTER TABLE lines ADD COLUMN until TEXT NOT NULL DEFAULT '';
"""
