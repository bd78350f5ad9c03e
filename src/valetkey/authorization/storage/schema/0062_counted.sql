-- The rate limit that counts a device code until a user allows it, and a registration until a user
-- signs in to its app; '' for none.
ALTER TABLE device_codes ADD COLUMN counted TEXT NOT NULL DEFAULT '';
ALTER TABLE registrations ADD COLUMN counted TEXT NOT NULL DEFAULT '';
