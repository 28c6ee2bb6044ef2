"""The API: answers, parameters, schemas and the OpenAPI document."""
