-- Replaced by a random number with every change of a user's groups and roles, so that what was read
-- of them can be kept. Changes of a group itself change `revision`.
ALTER TABLE users ADD COLUMN membership_number BIGINT NOT NULL DEFAULT 0;
