-- The id of the refused request, which its log lines and its trace have too.
ALTER TABLE decisions ADD COLUMN request_id TEXT NOT NULL DEFAULT '';
