"""The server over HTTP: connections, requests and answers."""
