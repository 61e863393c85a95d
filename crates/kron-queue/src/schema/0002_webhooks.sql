-- Webhooks: what is to be told is written in the transaction in which it happens.

CREATE TABLE webhook_deliveries (
  seq          INTEGER PRIMARY KEY,
  delivery_id  TEXT NOT NULL UNIQUE CHECK (length(delivery_id) = 36),
  target       TEXT NOT NULL,
  event        TEXT NOT NULL,
  payload      TEXT NOT NULL CHECK (json_valid(payload)),
  status       TEXT NOT NULL CHECK (status IN ('pending', 'delivered', 'failed')),
  attempts     INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  -- When it may be tried next; while somebody tries, when that is given up.
  next_at      TEXT NOT NULL CHECK (length(next_at) = 24),
  created_at   TEXT NOT NULL CHECK (length(created_at) = 24),
  finished_at  TEXT CHECK (length(finished_at) = 24),
  CHECK ((status = 'pending') = (finished_at IS NULL))
) STRICT;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_at) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_of_target ON webhook_deliveries (target, next_at)
  WHERE status = 'pending';
CREATE INDEX webhook_deliveries_finished ON webhook_deliveries (finished_at) WHERE status <> 'pending';

CREATE TABLE webhook_attempts (
  delivery_id TEXT NOT NULL REFERENCES webhook_deliveries (delivery_id) ON DELETE CASCADE,
  attempt     INTEGER NOT NULL CHECK (attempt > 0),
  ended_at    TEXT NOT NULL CHECK (length(ended_at) = 24),
  http_status INTEGER,
  error       TEXT,
  PRIMARY KEY (delivery_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER webhook_deliveries_immutable BEFORE UPDATE OF delivery_id, target, event, payload,
  created_at ON webhook_deliveries
BEGIN SELECT RAISE(ABORT, 'rule: what a delivery says is immutable'); END;

CREATE TRIGGER webhook_deliveries_status BEFORE UPDATE ON webhook_deliveries
WHEN OLD.status <> 'pending'
BEGIN SELECT RAISE(ABORT, 'rule: a delivery ends once'); END;
