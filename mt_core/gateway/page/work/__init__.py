"""The pages about what the gateway works on: jobs, sessions, and the gateway itself."""
