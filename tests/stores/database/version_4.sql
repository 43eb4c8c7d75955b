-- A digest is of a whole text (`length` 0), or of a run of so many words, wherever it stands (state/buried.py).
ALTER TABLE forgotten ADD COLUMN length INTEGER NOT NULL DEFAULT 0;
ALTER TABLE forgotten ADD COLUMN mark INTEGER NOT NULL DEFAULT 0;
