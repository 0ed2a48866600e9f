-- Of a sandbox of several containers their names and images, main first.
ALTER TABLE sandboxes ADD COLUMN containers TEXT NOT NULL DEFAULT '';
