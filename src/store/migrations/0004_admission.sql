-- A sandbox holds its team's quota from its admission until the engine has removed it, through every
-- state in between; a failed one too, until nothing is left of it. What a team uses is the sum over
-- these rows, so it can be given back only once.
ALTER TABLE sandboxes ADD COLUMN holds_quota BOOLEAN NOT NULL DEFAULT FALSE;
-- The place in the queue: tickets count up over all teams.
ALTER TABLE sandboxes ADD COLUMN ticket BIGINT NOT NULL DEFAULT 0;
UPDATE sandboxes SET holds_quota = TRUE WHERE state IN ('starting', 'ready', 'deleting');
CREATE INDEX sandboxes_held ON sandboxes (team, holds_quota, millicpus, memory_mb, storage_mb)
  WHERE holds_quota;
CREATE INDEX sandboxes_queued ON sandboxes (team, ticket) WHERE state = 'queued';

-- One row. Who decides on an admission changes it first, so that one decides after the other, also
-- where several gateways share the database.
CREATE TABLE admission (
  id   BIGINT NOT NULL PRIMARY KEY,
  turn BIGINT NOT NULL
);
INSERT INTO admission VALUES (1, 0);

-- Teams that admit nothing and whose sandboxes are ended, until an admin lets them again.
CREATE TABLE drained_teams (
  team     TEXT NOT NULL PRIMARY KEY REFERENCES teams (name) ON DELETE CASCADE,
  since_ms BIGINT NOT NULL
);
