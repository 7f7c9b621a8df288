"""The kinds of background jobs, one module each; ``registry`` lists them."""
