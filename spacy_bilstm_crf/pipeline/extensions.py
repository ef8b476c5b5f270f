"""Extension attributes: where a Span keeps its probability."""

from spacy.tokens import Span

from ..errors import Errors

PROB_ATTR = "prob"


def register_extensions(prob_attr: str = PROB_ATTR) -> None:
    """Register the attribute that holds the probability of an entity, `ent._.prob`.

    Making the pipe does this. Programs that only read Docs, e.g. from a DocBin, call it themselves. The attribute is
    None for Spans that have no probability; the values are kept in `doc.user_data`, and are stored and sent with it.

    prob_attr (str): The name of the attribute.
    RAISES (ValueError): CRF320 if there is an attribute of this name that cannot hold a value.
    """
    if not Span.has_extension(prob_attr):
        Span.set_extension(prob_attr, default=None)
        return
    _, method, getter, _ = Span.get_extension(prob_attr)
    if method is not None or getter is not None:
        raise ValueError(Errors.CRF320.format(name=prob_attr))
