-- A fourth queue. It names rows of crystals that are gone, too: their vectors leave the file.
CREATE TABLE to_file (crystal INTEGER PRIMARY KEY);
