"""A context in the shapes of providers: the messages of a request."""
