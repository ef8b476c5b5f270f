"""Coded messages. Each says what was wrong, what was received and what to do about it.

Codes are grouped: CRF0xx tag schemes, CRF1xx the CRF and the network, CRF2xx Thinc layers and model files, CRF3xx
pipes, CRF4xx file formats and the command line. A code keeps its meaning for good; a retired one is not given again.
"""


class Errors:
    """Message templates of exceptions, to be filled in with `str.format`."""


class Warnings:
    """Message templates of warnings, to be filled in with `str.format`."""
