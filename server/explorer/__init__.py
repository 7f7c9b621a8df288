"""The explorer: a page that shows what is remembered, and the session of the browser that it runs in."""
