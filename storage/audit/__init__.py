"""Who did what, who may, and how much: the journal, API keys, idempotency, usage, spending and stored bytes."""
