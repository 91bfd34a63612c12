"""The draft of FLIP-91 on /v1."""
