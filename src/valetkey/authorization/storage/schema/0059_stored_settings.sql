-- Settings that were changed while the server ran. `value` is written as in the environment.
CREATE TABLE stored_settings (
    path       TEXT   PRIMARY KEY,
    value      TEXT   NOT NULL,
    changed_at BIGINT NOT NULL
);
