"""What hosts' hooks hand over: read, cleaned and stored; and what their models are shown."""
