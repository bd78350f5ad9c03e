-- How long after its last change a bucket is surely empty, in seconds. A day for those of servers
-- that do not say so, whose sweeps use the index of 0001.
ALTER TABLE throttles ADD COLUMN lifetime BIGINT NOT NULL DEFAULT 86400;
CREATE INDEX throttles_empty ON throttles ((changed_at + lifetime));
