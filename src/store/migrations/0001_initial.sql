-- Times are milliseconds since 1970 UTC, 0: not yet or never. Lists and maps are JSON texts.
-- Only SQL that SQLite and PostgreSQL both take.

CREATE TABLE teams (
  name               TEXT PRIMARY KEY,
  image_prefixes     TEXT NOT NULL,
  builds             BOOLEAN NOT NULL,
  max_millicpus      BIGINT NOT NULL,
  max_memory_mb      BIGINT NOT NULL,
  max_storage_mb     BIGINT NOT NULL,
  quota_millicpus    BIGINT NOT NULL,
  quota_memory_mb    BIGINT NOT NULL,
  quota_storage_mb   BIGINT NOT NULL,
  quota_sandboxes    BIGINT NOT NULL,
  default_storage_mb BIGINT NOT NULL,
  lease_sec          BIGINT NOT NULL,
  max_lifetime_sec   BIGINT NOT NULL,
  queue_max_sec      BIGINT NOT NULL,
  start_max_sec      BIGINT NOT NULL,
  pids               BIGINT NOT NULL,
  isolation          TEXT NOT NULL,
  network            TEXT NOT NULL
);

-- The built-in defaults of the API.
INSERT INTO teams VALUES ('default', '[]', TRUE, 0, 0, 0, 0, 0, 0, 0, 1024,
                          1800, 86400, 86400, 1800, 1024, '["container"]', 'open');

CREATE TABLE tokens (
  id           TEXT PRIMARY KEY,
  name         TEXT NOT NULL,
  team         TEXT NOT NULL REFERENCES teams (name),
  subject      TEXT NOT NULL,
  role         TEXT NOT NULL,
  scopes       TEXT NOT NULL,
  hash         TEXT NOT NULL UNIQUE,
  created_ms   BIGINT NOT NULL,
  expires_ms   BIGINT NOT NULL,
  last_used_ms BIGINT NOT NULL
);

CREATE TABLE sandboxes (
  id                 TEXT PRIMARY KEY,
  team               TEXT NOT NULL REFERENCES teams (name),
  owner              TEXT NOT NULL,
  state              TEXT NOT NULL,
  reason             TEXT NOT NULL,
  message            TEXT NOT NULL,
  image              TEXT NOT NULL,
  millicpus          BIGINT NOT NULL,
  memory_mb          BIGINT NOT NULL,
  storage_mb         BIGINT NOT NULL,
  pids               BIGINT NOT NULL,
  labels             TEXT NOT NULL,
  environment_sealed TEXT NOT NULL,
  user_name          TEXT,
  workdir            TEXT,
  isolation          TEXT NOT NULL,
  network            TEXT NOT NULL,
  no_new_privileges  BOOLEAN NOT NULL,
  run_entrypoint     BOOLEAN NOT NULL,
  always_pull        BOOLEAN NOT NULL,
  lease_sec          BIGINT NOT NULL,
  max_lifetime_sec   BIGINT NOT NULL,
  image_digest       TEXT NOT NULL,
  node               TEXT NOT NULL,
  created_ms         BIGINT NOT NULL,
  admitted_ms        BIGINT NOT NULL,
  ready_ms           BIGINT NOT NULL,
  deleted_ms         BIGINT NOT NULL,
  last_activity_ms   BIGINT NOT NULL,
  queue_deadline_ms  BIGINT NOT NULL,
  start_deadline_ms  BIGINT NOT NULL,
  lease_expires_ms   BIGINT NOT NULL,
  max_lifetime_ms    BIGINT NOT NULL,
  queued_ms          BIGINT NOT NULL,
  pull_ms            BIGINT NOT NULL,
  start_ms           BIGINT NOT NULL,
  idempotency_key    TEXT,
  request_digest     TEXT
);
-- Lists page by (created_ms, id); the live ones are few among the archived. Each index more is a
-- page more that every change writes.
CREATE INDEX sandboxes_by_time ON sandboxes (created_ms, id);
CREATE INDEX sandboxes_live ON sandboxes (created_ms, id) WHERE state <> 'deleted';
CREATE UNIQUE INDEX sandboxes_idempotency ON sandboxes (team, idempotency_key)
  WHERE idempotency_key IS NOT NULL;

-- The labels once more, for filters; sandboxes.labels is what is shown.
CREATE TABLE sandbox_labels (
  sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
  name       TEXT NOT NULL,
  value      TEXT NOT NULL,
  PRIMARY KEY (sandbox_id, name)
);

CREATE TABLE events (
  sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
  id         BIGINT NOT NULL,
  at_ms      BIGINT NOT NULL,
  type       TEXT NOT NULL,
  reason     TEXT NOT NULL,
  message    TEXT NOT NULL,
  container  TEXT NOT NULL,
  PRIMARY KEY (sandbox_id, id)
) WITHOUT ROWID;

CREATE TABLE registries (
  team          TEXT NOT NULL REFERENCES teams (name),
  host          TEXT NOT NULL,
  username      TEXT NOT NULL,
  secret_sealed TEXT NOT NULL,
  mirror        TEXT NOT NULL,
  plain_http    BOOLEAN NOT NULL,
  PRIMARY KEY (team, host)
);
