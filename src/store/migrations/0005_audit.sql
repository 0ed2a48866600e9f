-- The result of an action, the token it was done with, and the chain of hashes: a row's hash is
-- over the row and the hash of the row before it. Rows that are older than the chain have none.
ALTER TABLE audit_logs ADD COLUMN token TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_logs ADD COLUMN status BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit_logs ADD COLUMN error TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_logs ADD COLUMN duration_ms BIGINT NOT NULL DEFAULT -1;
ALTER TABLE audit_logs ADD COLUMN hash TEXT NOT NULL DEFAULT '';

-- One row, locked by whoever appends: the end of the chain, and the last row that was cut off its
-- beginning.
CREATE TABLE audit_head (
  name      TEXT PRIMARY KEY,
  last_id   BIGINT NOT NULL,
  last_hash TEXT NOT NULL,
  cut_id    BIGINT NOT NULL,
  cut_hash  TEXT NOT NULL
);
INSERT INTO audit_head (name, last_id, last_hash, cut_id, cut_hash)
  SELECT 'audit', COALESCE(MAX(id), 0), '', 0, '' FROM audit_logs;

-- Lists page by (at_ms, id). Each index serves one filter from its newest row on.
DROP INDEX audit_logs_by_sandbox;
CREATE INDEX audit_logs_by_sandbox ON audit_logs (sandbox_id, team, at_ms, id);
CREATE INDEX audit_logs_by_time ON audit_logs (at_ms, id);
CREATE INDEX audit_logs_by_team ON audit_logs (team, at_ms, id);
CREATE INDEX audit_logs_by_event ON audit_logs (team, event, at_ms, id);
CREATE INDEX audit_logs_by_caller ON audit_logs (team, caller, at_ms, id);
CREATE INDEX audit_logs_failed ON audit_logs (team, at_ms, id) WHERE error <> '';

-- What each caller did in each minute; counted with the rows of the audit log.
CREATE TABLE activity (
  team       TEXT NOT NULL,
  subject    TEXT NOT NULL,
  minute_ms  BIGINT NOT NULL,
  actions    BIGINT NOT NULL,
  failures   BIGINT NOT NULL,
  commands   BIGINT NOT NULL,
  command_ms BIGINT NOT NULL,
  creates    BIGINT NOT NULL,
  bytes_in   BIGINT NOT NULL,
  bytes_out  BIGINT NOT NULL,
  PRIMARY KEY (team, minute_ms, subject)
);
