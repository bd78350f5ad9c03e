-- Since when the user must add a second factor before anything else.
ALTER TABLE users ADD COLUMN factor_required_at BIGINT;
