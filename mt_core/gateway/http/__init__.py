"""HTTP: the server, requests, answers, errors and the OpenAPI documents, for every endpoint."""
