-- What a person may do with this server beyond their own account; most nothing.
ALTER TABLE users ADD COLUMN role TEXT;
CREATE INDEX users_with_role ON users (role) WHERE role IS NOT NULL;

-- Who did it, where that is not the person or the client it happened to.
ALTER TABLE events ADD COLUMN done_by TEXT NOT NULL DEFAULT '';
