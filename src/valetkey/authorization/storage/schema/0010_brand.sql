-- What was changed of the brand while the server ran; what is not here is as the settings say.
CREATE TABLE brand (
    field      TEXT   PRIMARY KEY,
    value      TEXT   NOT NULL,
    changed_at BIGINT NOT NULL
);
