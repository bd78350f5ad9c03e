-- Whether any API declares roles, and which ones do, without reading the others.
CREATE INDEX apis_with_roles ON apis (name, id) WHERE roles <> '';
