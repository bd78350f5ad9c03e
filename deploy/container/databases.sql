-- The two servers never share a database.
CREATE DATABASE valetkey_authorization;
CREATE DATABASE valetkey_resource;
