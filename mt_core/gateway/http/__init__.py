"""HTTP: server, requests, responses, errors and OpenAPI documents of all endpoints."""
