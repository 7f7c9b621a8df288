"""The conversations of other programs, as conversations and notes of ours."""
