"""Observability: the daemon's log, its metrics for Prometheus, and error messages for people."""
