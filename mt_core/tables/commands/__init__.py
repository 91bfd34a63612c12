"""CREATE, ALTER, SUSPEND, RESUME and DROP, each a sequence of steps under an intent."""
