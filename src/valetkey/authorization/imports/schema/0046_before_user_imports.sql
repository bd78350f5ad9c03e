-- Files of users that administrators import, and a row for each user in them. `data` is emptied as
-- soon as its row is done: it may hold a password hash.
CREATE TABLE user_imports (
    id          TEXT   PRIMARY KEY,
    uid         BIGINT,
    done_by     TEXT   NOT NULL,
    file        TEXT   NOT NULL,
    kind        TEXT   NOT NULL,
    state       TEXT   NOT NULL,
    total       BIGINT NOT NULL,
    position    BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    finished_at BIGINT,
    due_at      BIGINT NOT NULL
);
CREATE TABLE user_import_rows (
    import_id TEXT   NOT NULL,
    position  BIGINT NOT NULL,
    line      BIGINT NOT NULL,
    username  TEXT   NOT NULL,
    email     TEXT   NOT NULL,
    state     TEXT   NOT NULL,
    reason    TEXT   NOT NULL,
    data      TEXT   NOT NULL,
    PRIMARY KEY (import_id, position)
);
