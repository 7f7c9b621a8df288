"""The journal, the rights and the counts: the journal, API keys, idempotency, usage, spending and stored bytes."""
