"""The pipes."""
