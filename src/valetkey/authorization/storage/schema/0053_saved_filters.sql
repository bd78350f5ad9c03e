-- Filters of lists in the console, saved by a user under a name; `query` is that of the list's page.
CREATE TABLE saved_filters (
    uid        BIGINT NOT NULL,
    list       TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    query      TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (uid, list, name)
);
-- Apps by name in the console.
CREATE INDEX clients_by_name ON clients (lower(name), id);
