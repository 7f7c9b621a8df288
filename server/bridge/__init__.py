"""A bridge from a host on standard input and output to a remote server over HTTP."""
