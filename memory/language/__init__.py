"""Words and sentences of languages: pure functions and their word lists."""
