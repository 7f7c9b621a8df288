"""What other programs keep of conversations, as conversations and notes of ours."""
