"""Working memory: the session memory of a thread and the profile of a resource."""
