-- Who has signed in and not out again: what stands in a browser's cookie or a program's text counts
-- only as long as its row is here.
CREATE TABLE sign_ins (
  id           TEXT PRIMARY KEY,
  kind         TEXT NOT NULL,
  subject      TEXT NOT NULL,
  remote       TEXT NOT NULL,
  created_ms   BIGINT NOT NULL,
  expires_ms   BIGINT NOT NULL,
  last_used_ms BIGINT NOT NULL
);
