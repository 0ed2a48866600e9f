-- A quota of 0 is a quota: such a team owns nothing and lives on what it borrows. NULL: no limit,
-- which 0 stood for until now.
ALTER TABLE teams RENAME COLUMN quota_millicpus TO former_millicpus;
ALTER TABLE teams RENAME COLUMN quota_memory_mb TO former_memory_mb;
ALTER TABLE teams RENAME COLUMN quota_storage_mb TO former_storage_mb;
ALTER TABLE teams RENAME COLUMN quota_sandboxes TO former_sandboxes;
ALTER TABLE teams ADD COLUMN quota_millicpus BIGINT;
ALTER TABLE teams ADD COLUMN quota_memory_mb BIGINT;
ALTER TABLE teams ADD COLUMN quota_storage_mb BIGINT;
ALTER TABLE teams ADD COLUMN quota_sandboxes BIGINT;
UPDATE teams SET quota_millicpus = NULLIF(former_millicpus, 0),
                 quota_memory_mb = NULLIF(former_memory_mb, 0),
                 quota_storage_mb = NULLIF(former_storage_mb, 0),
                 quota_sandboxes = NULLIF(former_sandboxes, 0);
ALTER TABLE teams DROP COLUMN former_millicpus;
ALTER TABLE teams DROP COLUMN former_memory_mb;
ALTER TABLE teams DROP COLUMN former_storage_mb;
ALTER TABLE teams DROP COLUMN former_sandboxes;
