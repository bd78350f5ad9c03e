-- What was looked for row by row in tables that grow.

-- Secrets that end, for the sweep: most never do.
CREATE INDEX client_secrets_ending ON client_secrets (expires_at) WHERE expires_at IS NOT NULL;

-- Secrets that are kept sealed, for a change of the keyring.
CREATE INDEX client_secrets_sealed ON client_secrets (id) WHERE sealed IS NOT NULL;

-- Whether anybody uses a grant type of old: discovery asks after every change of the register.
-- Both engines have replace(), and use the index where a statement says the same word for word.
CREATE INDEX clients_implicit ON clients (id)
    WHERE disabled_at IS NULL AND replace(grant_types, '"implicit"', '') <> grant_types;
CREATE INDEX clients_password ON clients (id)
    WHERE disabled_at IS NULL AND replace(grant_types, '"password"', '') <> grant_types;
