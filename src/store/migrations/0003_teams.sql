-- How far a team may go beyond its quota with what others leave idle, and how much of its own idle
-- quota others may take. NULL: no limit, 0: nothing.
ALTER TABLE teams ADD COLUMN borrow_millicpus BIGINT;
ALTER TABLE teams ADD COLUMN borrow_memory_mb BIGINT;
ALTER TABLE teams ADD COLUMN borrow_storage_mb BIGINT;
ALTER TABLE teams ADD COLUMN borrow_sandboxes BIGINT;
ALTER TABLE teams ADD COLUMN lend_millicpus BIGINT;
ALTER TABLE teams ADD COLUMN lend_memory_mb BIGINT;
ALTER TABLE teams ADD COLUMN lend_storage_mb BIGINT;
ALTER TABLE teams ADD COLUMN lend_sandboxes BIGINT;
ALTER TABLE teams ADD COLUMN reclaim BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE teams ADD COLUMN created_ms BIGINT NOT NULL DEFAULT 0;

CREATE TABLE members (
  team    TEXT NOT NULL REFERENCES teams (name) ON DELETE CASCADE,
  subject TEXT NOT NULL,
  role    TEXT NOT NULL,
  PRIMARY KEY (team, subject)
);

-- A token stands by itself (a program's), or for a member of its team, and then perhaps also in the
-- other teams that have its subject as a member.
ALTER TABLE tokens ADD COLUMN of_member BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE tokens ADD COLUMN every_team BOOLEAN NOT NULL DEFAULT FALSE;
