
-- Every column that is filtered by stands in it, so that no row is read to learn whether it passes.
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

CREATE TABLE levels (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    dopamine REAL NOT NULL,
    cortisol REAL NOT NULL,
    oxytocin REAL NOT NULL,
    at       TEXT NOT NULL,
    armed    TEXT NOT NULL DEFAULT '[]'  -- JSON: the hormones for which auto-scratch may fire again
);
INSERT INTO levels SELECT one, dopamine, cortisol, oxytocin, at, replace(armed, '{}', '[]') FROM hormones;
DROP TABLE hormones;
ALTER TABLE levels RENAME TO hormones;
