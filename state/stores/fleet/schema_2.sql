-- Every name is in the schema "dreamd"; Procrastinate's own tables lie beside, as it makes them.

CREATE TABLE tenants (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    quotas jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- From here on nothing of it is given out; the row goes when all that it had is gone.
    removed_at timestamptz
);

-- Of a token the secret's SHA-256 alone.
CREATE TABLE tokens (
    id text PRIMARY KEY,
    secret bytea NOT NULL,
    tenant bigint NOT NULL REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL,
    rights text[] NOT NULL,
    workspaces text[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    revoked_at timestamptz,
    UNIQUE (tenant, name)
);

-- Processes that serve, and commands that hold a workspace for a moment. `seen_at`: the last word of each.
CREATE TABLE processes (
    id uuid PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('serve', 'upkeep')),
    address text NOT NULL,
    host text NOT NULL,
    version text NOT NULL,
    slots integer NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    draining boolean NOT NULL DEFAULT false,
    owned integer NOT NULL DEFAULT 0,
    dreaming integer NOT NULL DEFAULT 0,
    -- Why it can do nothing now, as it said itself.
    problem text NOT NULL DEFAULT '',
    -- When it last said that it has none.
    healthy_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A process lives as long as the session that bears its id. A restart of PostgreSQL ends all sessions at once: each
-- process has some seconds to come back.
CREATE VIEW living AS SELECT p.* FROM processes p
WHERE p.id::text IN (SELECT substr(a.application_name, 8) FROM pg_stat_get_activity(NULL) a
                     WHERE a.application_name LIKE 'dreamd %')
    OR pg_postmaster_start_time() > clock_timestamp() - interval '5 seconds';

CREATE TABLE workspaces (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bigint NOT NULL REFERENCES tenants,
    name text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Of the last commit, a hint: the object store may have a newer one.
    generation bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    committed_at timestamptz,
    -- Who has it open; nobody, unless that process lives.
    owner uuid,
    -- When it wants a job, of what comes while one is queued as well; NULL: when something comes.
    due_at timestamptz,
    -- Since when a job of it waits or runs.
    queued_at timestamptz,
    -- Since when a dream is under way, which is counted with the most that it may cost.
    dreaming_at timestamptz,
    failures integer NOT NULL DEFAULT 0,
    -- When the first of these failures was.
    failed_at timestamptz,
    problem text NOT NULL DEFAULT '',
    -- From here on its name is free for another one; the row goes when its objects are gone.
    removed_at timestamptz,
    -- The time zone of its owner, by its IANA name; '': that of the fleet.
    timezone text NOT NULL DEFAULT ''
) WITH (fillfactor = 70);

CREATE UNIQUE INDEX workspaces_name ON workspaces (tenant, name) WHERE removed_at IS NULL;
CREATE INDEX workspaces_removed ON workspaces (tenant) WHERE removed_at IS NOT NULL;

CREATE INDEX workspaces_due ON workspaces (due_at) WHERE due_at IS NOT NULL AND queued_at IS NULL;
CREATE INDEX workspaces_queued ON workspaces (tenant) WHERE queued_at IS NOT NULL;
CREATE INDEX workspaces_dreaming ON workspaces (tenant) WHERE dreaming_at IS NOT NULL;
CREATE INDEX workspaces_owner ON workspaces (owner) WHERE owner IS NOT NULL;

-- A row that was taken lost its body, and stays a week so that its key is known.
CREATE TABLE inbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace bigint NOT NULL REFERENCES workspaces ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind IN ('note', 'session_end')),
    key text NOT NULL,
    digest bytea NOT NULL,
    body text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    taken_at timestamptz,
    UNIQUE (workspace, key)
);

-- Statistics would keep copies of texts.
ALTER TABLE inbox ALTER COLUMN body SET STATISTICS 0, ALTER COLUMN key SET STATISTICS 0;
ALTER TABLE workspaces ALTER COLUMN problem SET STATISTICS 0;

CREATE INDEX inbox_waiting ON inbox (workspace, id) WHERE taken_at IS NULL;
CREATE INDEX inbox_taken ON inbox (taken_at) WHERE taken_at IS NOT NULL;

CREATE TABLE spending (
    day date NOT NULL,
    tenant bigint NOT NULL REFERENCES tenants ON DELETE CASCADE,
    -- No reference: what a removed workspace has cost still counts for its tenant.
    workspace bigint NOT NULL,
    dreams integer NOT NULL DEFAULT 0,
    calls integer NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    usd double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (day, tenant, workspace)
);

CREATE TABLE arrivals (
    tenant bigint NOT NULL REFERENCES tenants ON DELETE CASCADE,
    minute timestamptz NOT NULL,
    notes integer NOT NULL,
    PRIMARY KEY (tenant, minute)
);

-- What was removed of late, whole tenants as workspace 0, and what was forgotten: all up to the generation `kept`, but
-- for that (0: all). Whoever held it may put an object yet, or have died before it deleted the others: they are looked for.
CREATE TABLE erased (
    tenant bigint NOT NULL,
    workspace bigint NOT NULL,
    kept bigint NOT NULL DEFAULT 0,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at timestamptz NOT NULL DEFAULT clock_timestamp() + interval '30 seconds'
);

-- What the fleet is, and which object store is its own, from the first process on. That store holds both.
CREATE TABLE fleet (
    mark uuid NOT NULL,
    store uuid
);
