-- Limits of one token where they are not the operator's; NULL: the operator's, 0: none.
CREATE TABLE token_limits (
  token_id           TEXT PRIMARY KEY REFERENCES tokens (id) ON DELETE CASCADE,
  requests_per_sec   BIGINT,
  burst              BIGINT,
  concurrent_creates BIGINT,
  concurrent_streams BIGINT,
  body_mb            BIGINT
);
