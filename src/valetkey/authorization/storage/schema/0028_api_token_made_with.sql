-- The token that made this one, which ends with it; '' for one made by a user or a command.
ALTER TABLE api_tokens ADD COLUMN made_with TEXT NOT NULL DEFAULT '';
