-- Logos that administrators uploaded, as base64: `brand` names those that are shown.
CREATE TABLE brand_logos (
    name       TEXT   PRIMARY KEY,
    image      TEXT   NOT NULL,
    changed_at BIGINT NOT NULL
);
