-- The keys that tokens of sandboxes are signed with. One generation after the other: the lowest one
-- that has not ended signs, the next one is published already.
CREATE TABLE identity_keys (
  generation     BIGINT PRIMARY KEY,
  id             TEXT NOT NULL,
  public_key     TEXT NOT NULL,
  private_sealed TEXT NOT NULL,
  created_ms     BIGINT NOT NULL,
  ended_ms       BIGINT NOT NULL
);
-- What sandboxes of a team may do at the gateway with their own tokens: to which sandboxes (own,
-- team or none), and with which scopes.
ALTER TABLE teams ADD COLUMN identity_sandboxes TEXT NOT NULL DEFAULT 'own';
ALTER TABLE teams ADD COLUMN identity_scopes TEXT NOT NULL DEFAULT '["member","read"]';
