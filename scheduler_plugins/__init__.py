"""The bundled workflow schedulers; each is loaded by its entry point, like those of other distributions."""
