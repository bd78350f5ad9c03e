-- Clients whose id is the URL of their metadata: what was read there, and until when it counts.
ALTER TABLE registrations ADD COLUMN document_print TEXT;
ALTER TABLE registrations ADD COLUMN fresh_until BIGINT;
CREATE INDEX registrations_documents ON registrations (created_at) WHERE fresh_until IS NOT NULL;
