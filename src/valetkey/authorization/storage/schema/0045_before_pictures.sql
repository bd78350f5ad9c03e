-- Pictures that users uploaded, encoded anew: `name` is random and the last part of their address,
-- `image` is WebP in base64.
CREATE TABLE user_pictures (
    uid   BIGINT PRIMARY KEY REFERENCES users (uid),
    name  TEXT   NOT NULL UNIQUE,
    image TEXT   NOT NULL
);
