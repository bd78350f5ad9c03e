-- Our own copy of each app's logo: pages never refer to an address that a client supplied.
-- `source` is the logo_uri that the copy is of; `name` is random and the last part of our address.
-- `due_at` is when to fetch it next, NULL for never; `image` is WebP in base64.
CREATE TABLE client_logos (
    client_id TEXT   PRIMARY KEY REFERENCES clients (id),
    source    TEXT   NOT NULL,
    attempts  BIGINT NOT NULL,
    due_at    BIGINT,
    failure   TEXT   NOT NULL,
    name      TEXT   UNIQUE,
    image     TEXT
);
CREATE INDEX client_logos_due ON client_logos (due_at) WHERE due_at IS NOT NULL;
INSERT INTO client_logos (client_id, source, attempts, due_at, failure)
    SELECT id, logo_uri, 0, 0, '' FROM clients WHERE logo_uri <> '';
