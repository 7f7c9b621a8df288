"""The meaning of memory: everything between the stored rows and the tools, in rooms of which each imports only lower
ones."""
