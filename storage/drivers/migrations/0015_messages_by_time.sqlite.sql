-- What was said in a time, of all threads, is read without going through the whole scope.
CREATE INDEX messages_by_time ON messages (tenant_id, agent_id, resource_id, said_at, thread_uid, seq);
