"""Extension attributes: where a Span or Token keeps its probability."""

from spacy.tokens import Span, Token

from ..errors import Errors

PROB_ATTR = "prob"


def register_extensions(prob_attr: str = PROB_ATTR, *, of: type[Span] | type[Token] = Span) -> None:
    """Register the attribute that holds the probability of an entity, `ent._.prob`, or of a word, `token._.prob`.

    Making the pipe does this. Programs that only read Docs, e.g. from a DocBin, call it themselves. The attribute is
    None for those that have no probability; the values are kept in `doc.user_data`, and are stored and sent with it.

    prob_attr (str): The name of the attribute.
    of (type): Span for entities, Token for words.
    RAISES (ValueError): CRF320 if there is an attribute of this name that cannot hold a value.
    """
    if not of.has_extension(prob_attr):
        of.set_extension(prob_attr, default=None)
        return
    _, method, getter, _ = of.get_extension(prob_attr)
    if method is not None or getter is not None:
        raise ValueError(Errors.CRF320.format(of=of.__name__, name=prob_attr))
