-- The address that an account had before somebody changed it: nobody else gets it while it can be
-- restored.
ALTER TABLE users ADD COLUMN email_held_key TEXT;
CREATE INDEX users_email_held ON users (email_held_key) WHERE email_held_key IS NOT NULL;
