"""Thinc layers."""
