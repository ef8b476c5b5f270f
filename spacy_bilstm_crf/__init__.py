"""BiLSTM-CRF named entity recognition for spaCy.

Nothing has to be imported to use it: spaCy finds the factories and architectures of an installed package by itself.
"""

__version__ = "0.1.0"
