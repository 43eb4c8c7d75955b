-- The time zone of the workspace's owner, by its IANA name; '': that of the fleet.
ALTER TABLE workspaces ADD COLUMN timezone text NOT NULL DEFAULT '';
