-- Image builds. At most one of a digest is under way in a team; who drives it says so here, and
-- another gateway takes it over when it no longer does.
CREATE TABLE builds (
  id               TEXT PRIMARY KEY,
  team             TEXT NOT NULL,
  owner            TEXT NOT NULL,
  digest           TEXT NOT NULL,
  state            TEXT NOT NULL,
  reason           TEXT NOT NULL,
  message          TEXT NOT NULL,
  step             TEXT NOT NULL,
  steps_done       BIGINT NOT NULL,
  steps            BIGINT NOT NULL,
  builder          TEXT NOT NULL,
  created_ms       BIGINT NOT NULL,
  started_ms       BIGINT NOT NULL,
  ended_ms         BIGINT NOT NULL,
  claimed_by       TEXT NOT NULL,
  claimed_until_ms BIGINT NOT NULL
);
CREATE INDEX builds_of_team ON builds (team, created_ms, id);
CREATE INDEX builds_in_order ON builds (created_ms, id);
CREATE INDEX builds_by_digest ON builds (team, digest, created_ms);
CREATE UNIQUE INDEX builds_under_way ON builds (team, digest) WHERE state IN ('queued', 'running');
CREATE TABLE build_logs (
  build_id TEXT PRIMARY KEY,
  text     TEXT NOT NULL
);
