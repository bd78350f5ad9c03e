-- In whose role a registration token was issued: it ends with that role.
ALTER TABLE invitations ADD COLUMN made_by BIGINT;
CREATE INDEX invitations_made_by ON invitations (made_by) WHERE made_by IS NOT NULL;

-- Invitations of people who are no owners any more, from before these ended with the membership.
DELETE FROM team_invitations WHERE NOT EXISTS
    (SELECT 1 FROM memberships WHERE memberships.client_id = team_invitations.client_id
     AND memberships.uid = team_invitations.invited_by AND memberships.role = 'owner');

-- Apps that registered themselves and are the operator's own by now: they do not change themselves.
CREATE TABLE adopted_clients (
    client_id  TEXT   PRIMARY KEY REFERENCES clients (id),
    adopted_at BIGINT NOT NULL
);
INSERT INTO adopted_clients (client_id, adopted_at)
    SELECT client_id, max(at) FROM events
    WHERE name = 'client.adopted' AND client_id IN (SELECT id FROM clients)
    GROUP BY client_id;
