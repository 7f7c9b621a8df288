"""The hosts of this machine, and what their configuration files say of this server."""
