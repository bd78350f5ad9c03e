-- Webhooks of apps, bounded queues, and since when a receiver fails.
ALTER TABLE webhooks ADD COLUMN failing_since BIGINT;
ALTER TABLE webhooks ADD COLUMN most_waiting BIGINT NOT NULL DEFAULT 200000;
ALTER TABLE webhooks ADD COLUMN client_id TEXT;
CREATE INDEX webhooks_of_client ON webhooks (client_id);
