"""The events of hosts' hooks: read, cleaned and stored; and what their models are shown."""
