"""Rehearsal: keep a model close to what it was before training went on, against forgetting.

spaCy's protocol: `nlp.resume_training` keeps a copy of the model as `_rehearsal_model`, and `nlp.rehearse` calls
`rehearse` with a function in place of an optimizer, which collects the gradients.
"""

from collections.abc import Iterable

from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from thinc.api import Model, Optimizer, set_dropout_rate

from ..errors import Errors
from ..objectives import rehearsal_loss_and_gradient
from ..types import AllowedTransitions, BoolArray, CRFModel
from .stored_pipe import StoredPipe


class RehearsingPipe(StoredPipe):
    """A pipe that can rehearse what an earlier copy of its model knew. Not used directly."""

    _earlier_model: CRFModel | None = None
    _n_earlier_tags: int = 0

    @property
    def _rehearsal_model(self) -> CRFModel | None:
        return self._earlier_model

    @_rehearsal_model.setter
    def _rehearsal_model(self, model: CRFModel | None) -> None:
        # Labels that were added and not trained yet are not known to the copy either, though it has their tags.
        known = [label for label in self.cfg["labels"] if label not in self._untrained_labels]
        self._earlier_model, self._n_earlier_tags = model, len(self.tag_scheme.tags(known))

    def rehearse(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Make the model's probabilities more like those of the model that `nlp.resume_training` kept.

        Labels that were added since are left out of the comparison, so that they can still be learnt.

        examples (Iterable[Example]): The examples. Their annotation is not looked at.
        drop (float): The dropout rate.
        sgd (Optimizer | None): The optimizer; without one gradients add up.
        losses (dict | None): Record of the losses, to which this component's is added.
        RETURNS (dict): The losses: the Kullback-Leibler divergence of tag paths in nats, the mean over the batch.
        RAISES (ValueError): CRF313 if the model listens to another component's embedding.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.rehearse")
        docs = [eg.predicted for eg in examples]
        if self._earlier_model is None or not any(len(doc) for doc in docs):
            return losses
        _refuse_listeners(self.name, self.model)
        earlier = self._earlier_model.predict(docs).first_tags(self._n_earlier_tags)
        set_dropout_rate(self.model, drop)
        scores, backprop = self.model.begin_update(docs)
        possible_tags = self.get_possible_tags(docs, is_train=True)
        loss, d_scores = rehearsal_loss_and_gradient(scores, earlier, self.allowed_transitions, possible_tags)
        scale = 1.0 / len(docs)
        for array in d_scores.arrays:
            array *= scale
        backprop(d_scores)
        if sgd is not None:
            self.finish_update(sgd)
        losses[self.name] += loss * scale
        return losses

    @property
    def allowed_transitions(self) -> AllowedTransitions | None:
        """RETURNS (AllowedTransitions | None): The legal moves, None if the model is not to be constrained."""
        raise NotImplementedError

    def get_possible_tags(self, docs: list[Doc], *, is_train: bool) -> BoolArray | None:
        """Tell which tags each token may have.

        docs (list[Doc]): The documents.
        is_train (bool): Whether the tags are wanted for training, where earlier annotation is not binding.
        RETURNS (BoolArray | None): None if every token may have every tag.
            (n_tokens, n_tags) bool
        """
        raise NotImplementedError


def _refuse_listeners(name: str, model: Model) -> None:
    for node in model.walk():
        # Listeners to a tok2vec and to a transformer have this in common.
        upstream = getattr(node, "upstream_name", None)
        if upstream is not None:
            raise ValueError(Errors.CRF313.format(name=name, listener=node.name))
