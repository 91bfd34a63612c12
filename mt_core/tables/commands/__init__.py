"""Commands: CREATE, ALTER, SUSPEND, RESUME and DROP, each a choreography of intents."""
