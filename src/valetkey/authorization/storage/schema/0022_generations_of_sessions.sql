-- Signing out everywhere ends sessions and what is bound to them: they have a generation of their
-- own. Ending the access of one app ends what is between one user and one client.
ALTER TABLE users ADD COLUMN session_generation BIGINT NOT NULL DEFAULT 0;
UPDATE users SET session_generation = generation WHERE generation <> 0;
ALTER TABLE grants ADD COLUMN app_generation BIGINT NOT NULL DEFAULT 0;

-- Only where more than a batch of grants ended at once.
CREATE TABLE app_generations (
    uid        BIGINT NOT NULL,
    client_id  TEXT   NOT NULL,
    generation BIGINT NOT NULL,
    PRIMARY KEY (uid, client_id)
);
CREATE INDEX app_generations_of_client ON app_generations (client_id);
