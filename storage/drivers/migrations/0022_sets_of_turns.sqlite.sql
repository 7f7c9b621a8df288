-- Which turn a message belongs to, and whether it went into that or came out of it.
ALTER TABLE messages ADD COLUMN turn TEXT;
ALTER TABLE messages ADD COLUMN turn_set TEXT;
CREATE INDEX messages_of_turns ON messages (tenant_id, agent_id, resource_id, thread_uid, turn, seq)
    WHERE turn IS NOT NULL;
