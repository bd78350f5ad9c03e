-- Up to which block each destination has the audit log, and which process delivers until when.
CREATE TABLE audit_exports (
    destination TEXT PRIMARY KEY,
    block       BIGINT NOT NULL,
    holder      TEXT   NOT NULL,
    held_until  BIGINT NOT NULL
);
