-- Keys that callers sent were kept as they were. What begins with U+0001 is a token of ours.
SELECT set_config('layerlore.across', 'yes', true);
UPDATE idempotency SET "key" = encode(sha256(convert_to("key", 'UTF8')), 'hex') WHERE left("key", 1) <> chr(1);
SELECT set_config('layerlore.across', '', true);
