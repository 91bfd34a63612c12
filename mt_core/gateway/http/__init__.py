"""HTTP: the server, and the requests, responses, errors and OpenAPI documents of all endpoints."""
