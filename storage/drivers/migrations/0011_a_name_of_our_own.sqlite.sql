-- Keys made under the former name have its prefix, which nothing accepts any more.
UPDATE api_keys SET revoked_at = unixepoch() * 1000 WHERE revoked_at IS NULL;
