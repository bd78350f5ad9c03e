-- For which APIs a client may exchange tokens of other APIs: identifiers separated by spaces.
ALTER TABLE clients ADD COLUMN exchanges_for TEXT NOT NULL DEFAULT '';
