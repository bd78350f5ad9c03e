-- The SCIM credential whose directory disabled the account; '' if an administrator did.
ALTER TABLE users ADD COLUMN disabled_by TEXT NOT NULL DEFAULT '';
