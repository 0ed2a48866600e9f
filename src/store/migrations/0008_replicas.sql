-- Gateways that share this store. Each renews its row while it lives.
CREATE TABLE replicas (
  id           TEXT PRIMARY KEY,
  address      TEXT NOT NULL,
  version      TEXT NOT NULL,
  started_ms   BIGINT NOT NULL,
  heartbeat_ms BIGINT NOT NULL,
  draining     BOOLEAN NOT NULL,
  connections  BIGINT NOT NULL
);

-- Which of them starts or removes a sandbox, the one that brought it into its state. '': none, so
-- whoever finds it takes it over.
ALTER TABLE sandboxes ADD COLUMN replica TEXT NOT NULL DEFAULT '';

-- Tickets of WebSockets: given by one gateway, used once, at any.
CREATE TABLE tickets (
  hash       TEXT PRIMARY KEY,
  caller     TEXT NOT NULL,
  expires_ms BIGINT NOT NULL
);

-- What all gateways have to agree on.
CREATE TABLE store_facts (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
);
