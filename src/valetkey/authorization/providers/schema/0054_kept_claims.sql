-- The claims of the provider that `keep_claims` names, as JSON: those of the last sign-in there. ''
-- for none.
ALTER TABLE identities ADD COLUMN claims TEXT NOT NULL DEFAULT '';
