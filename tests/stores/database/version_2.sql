-- When a crystal's strength falls below the threshold (`state.crystal.faded_at`), and which crystal stands for it.
ALTER TABLE crystals ADD COLUMN fades_at TEXT;
ALTER TABLE crystals ADD COLUMN merged_into INTEGER REFERENCES crystals (key) ON DELETE SET NULL;
UPDATE crystals SET fades_at = faded_at(importance, accesses, valence, created_at, last_accessed_at);
CREATE INDEX crystals_by_fading ON crystals (fades_at) WHERE lifecycle NOT IN ('archived', 'frozen');
CREATE INDEX crystals_by_survivor ON crystals (merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX pointers_by_crystal ON pointers (crystal);
CREATE INDEX evidence_by_crystal ON evidence (crystal);

-- A third queue: vectors that were not compared with those nearest to them yet.
CREATE TABLE to_compare (crystal INTEGER PRIMARY KEY REFERENCES crystals (key) ON DELETE CASCADE);
INSERT INTO to_compare SELECT crystal FROM vectors;

-- Which crystals contradict each other (empty: another question), and up to which crystal an answer was looked for.
ALTER TABLE gaps ADD COLUMN one TEXT NOT NULL DEFAULT '';
ALTER TABLE gaps ADD COLUMN other TEXT NOT NULL DEFAULT '';
ALTER TABLE gaps ADD COLUMN asked_upto INTEGER NOT NULL DEFAULT 0;
UPDATE gaps SET asked_upto = (SELECT coalesce(max(key), 0) FROM crystals);
CREATE INDEX gaps_by_asking ON gaps (asked_upto) WHERE cause IN ('miss', 'question');
CREATE INDEX gaps_by_dispute ON gaps (one) WHERE one <> '';

-- Tasks that come back, as the last pass found them.
CREATE TABLE skills (
    place       INTEGER PRIMARY KEY,    -- 0: the most confident
    pattern     TEXT NOT NULL,
    confidence  REAL NOT NULL,
    occurrences INTEGER NOT NULL,
    sessions    INTEGER NOT NULL
);
