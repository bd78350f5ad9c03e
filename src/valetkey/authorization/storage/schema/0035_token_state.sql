-- The number that every change of what an issued token depends on increases; caches of answers
-- about tokens compare it.
CREATE TABLE token_state (
    id     BIGINT PRIMARY KEY,
    number BIGINT NOT NULL
);
INSERT INTO token_state (id, number) VALUES (1, 0);
