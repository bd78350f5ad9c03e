-- Token exchange (RFC 8693): whose tokens a client may exchange, and who acts for the user, the
-- latest actor first. Both are words separated by spaces.
ALTER TABLE clients ADD COLUMN exchanges_tokens_of TEXT NOT NULL DEFAULT '';
ALTER TABLE access_tokens ADD COLUMN actors TEXT NOT NULL DEFAULT '';
