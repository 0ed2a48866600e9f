-- Who did what: one row an action. Not tied to the sandbox's row, which may be forgotten earlier.
-- Ids count up over all teams; sandbox_id is '' for what is of no sandbox, team '' for a caller
-- that nobody knows. Lists of one sandbox page by id.
CREATE TABLE audit_logs (
  id         BIGINT NOT NULL PRIMARY KEY,
  team       TEXT NOT NULL,
  sandbox_id TEXT NOT NULL,
  at_ms      BIGINT NOT NULL,
  event      TEXT NOT NULL,
  caller     TEXT NOT NULL,
  remote     TEXT NOT NULL,
  details    TEXT NOT NULL
);
CREATE INDEX audit_logs_by_sandbox ON audit_logs (sandbox_id, id);
