-- Device authorizations (RFC 8628): polled by a device, decided by a user in a browser.
CREATE TABLE device_codes (
    fingerprint       TEXT   PRIMARY KEY,
    user_code         TEXT   NOT NULL UNIQUE,  -- its fingerprint
    client_id         TEXT   NOT NULL,
    client_generation BIGINT NOT NULL,
    scope             TEXT   NOT NULL,
    address           TEXT   NOT NULL,
    grant_id          TEXT   NOT NULL,
    created_at        BIGINT NOT NULL,
    expires_at        BIGINT NOT NULL,
    poll_interval     BIGINT NOT NULL,
    polled_at         BIGINT NOT NULL,
    state             TEXT   NOT NULL,
    payload           TEXT   NOT NULL
);
CREATE INDEX device_codes_expiring ON device_codes (expires_at);
