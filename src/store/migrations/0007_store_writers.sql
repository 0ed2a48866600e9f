-- The last transaction of each connection that writes: each sets its number here, so that after a
-- lost connection the number tells whether it was committed. Of use with PostgreSQL only.
CREATE TABLE store_writers (
  id     TEXT PRIMARY KEY,
  number BIGINT NOT NULL,
  at_ms  BIGINT NOT NULL
);
