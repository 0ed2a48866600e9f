-- Each sandbox has a key pair of its own; sandboxes from before have none.
ALTER TABLE sandboxes ADD COLUMN public_key TEXT NOT NULL DEFAULT '';
ALTER TABLE sandboxes ADD COLUMN key_sealed TEXT NOT NULL DEFAULT '';
