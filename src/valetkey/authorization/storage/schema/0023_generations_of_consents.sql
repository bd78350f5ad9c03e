-- Ending the access of all apps ends every consent of a user at once; the rows go in batches.
ALTER TABLE users ADD COLUMN consent_generation BIGINT NOT NULL DEFAULT 0;
ALTER TABLE consents ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
