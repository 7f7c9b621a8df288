-- Keys that callers sent were kept as they were. What begins with U+0001 is a token of ours.
UPDATE idempotency SET "key" = sha256_hex("key") WHERE substr("key", 1, 1) <> char(1);
