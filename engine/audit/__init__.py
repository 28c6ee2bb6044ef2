"""Contracts checked on samples, beside the job."""
