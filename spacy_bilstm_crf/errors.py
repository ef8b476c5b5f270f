"""Coded messages. Each says what was wrong, what was received and what to do about it.

Codes are grouped: CRF0xx tag schemes, CRF1xx the CRF and the network, CRF2xx Thinc layers and model files, CRF3xx
pipes, CRF4xx file formats and the command line. A code keeps its meaning for good; a retired one is not given again.
"""


class Errors:
    """Message templates of exceptions, to be filled in with `str.format`."""

    CRF001 = "[CRF001] There is no tag scheme {name}. Expected one of {names} (BILUO is another name of BIOES)."
    CRF002 = (
        "[CRF002] The label '{label}' begins with the prefix of a tag scheme. Expected the label alone: give '{bare}', "
        "the prefixes are added by the tag scheme."
    )
    CRF003 = "[CRF003] A label must be a string that is not empty, received {label}. Give a name such as 'PERSON'."
    CRF004 = (
        "[CRF004] The span {span} (start, end, label) does not fit in: the document has {n_tokens} tokens and the span "
        "before it ends at {end}. Spans must hold a token, lie inside of the document and not overlap: filter them "
        "first, e.g. with spacy.util.filter_spans."
    )
    CRF005 = (
        "[CRF005] The tag {tag} is not one of the scheme {name}. Expected one of {expected}, with any label. Choose "
        "the scheme in which the tags are written."
    )
    CRF006 = (
        "[CRF006] The scheme {name} without an outside tag needs a span for every token, but only {covered} of "
        "{n_tokens} tokens have one. Give the missing spans, or use the scheme with an outside tag."
    )
    CRF007 = "[CRF007] The label {label} is not known. Expected one of {labels}. Add the label first."
    CRF008 = (
        "[CRF008] The lengths of the documents add up to {total}, but there are {n_tokens} tag ids. Give the ids of "
        "all documents one after the other, without padding."
    )


class Warnings:
    """Message templates of warnings, to be filled in with `str.format`."""
