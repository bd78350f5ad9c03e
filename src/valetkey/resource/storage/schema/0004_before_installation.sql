-- Which database this is, its security epoch, and a number that grows while servers write: compared
-- with what the server noted outside of the database.
CREATE TABLE installation (
    name   TEXT   PRIMARY KEY,
    id     TEXT   NOT NULL,
    epoch  BIGINT NOT NULL,
    number BIGINT NOT NULL,
    at     BIGINT NOT NULL
);

-- What the readiness probe writes: enough to need pages that no earlier write has left over.
CREATE TABLE probe (
    name TEXT PRIMARY KEY,
    text TEXT NOT NULL
);
