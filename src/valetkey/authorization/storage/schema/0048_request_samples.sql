-- Samples of successful requests, for the developers of the app. Slots are written again in a
-- circle: a client has no more rows of a kind than there are slots, however busy it is.
CREATE TABLE request_samples (
    client_id    TEXT   NOT NULL,
    method       TEXT   NOT NULL,
    endpoint     TEXT   NOT NULL,
    grant_type   TEXT   NOT NULL,
    slot         BIGINT NOT NULL,
    id           TEXT   NOT NULL,
    at           BIGINT NOT NULL,
    status       BIGINT NOT NULL,
    milliseconds BIGINT NOT NULL,
    scope        TEXT   NOT NULL,
    request_id   TEXT   NOT NULL,
    PRIMARY KEY (client_id, method, endpoint, grant_type, slot)
);
CREATE INDEX request_samples_of_client ON request_samples (client_id, at, id);
CREATE INDEX request_samples_by_age ON request_samples (at);
