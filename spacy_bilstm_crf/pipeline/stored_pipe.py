"""Files and bytes of a pipe: its settings and its model, and what is said when they are damaged."""

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import srsly
from spacy import util
from spacy.pipeline import TrainablePipe

from ..errors import Errors
from ..tag_scheme import TagScheme
from ..types import CRFModel

ResultT = TypeVar("ResultT")


class StoredPipe(TrainablePipe):
    """A pipe with labels, a tag scheme and a model that can be stored. Not used directly."""

    vocab: Any
    model: CRFModel
    name: str
    tag_scheme: TagScheme
    cfg: dict[str, Any]
    # What is fitted to a trained model, with its values before that. No config sets it.
    FITTED: ClassVar[dict[str, Any]] = {}
    _untrained_labels: set[str]

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Serialize the pipe.

        exclude (Iterable[str]): Names of fields to leave out: "vocab", "cfg", "model".
        RETURNS (bytes): The serialized pipe.
        """
        return super().to_bytes(exclude=tuple(exclude))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "StoredPipe":
        """Load the pipe from bytes.

        bytes_data (bytes): What `to_bytes` gave.
        exclude (Iterable[str]): Names of fields to leave out.
        RETURNS (StoredPipe): This pipe.
        RAISES (ValueError): CRF304 if the data is damaged or belongs to another model.
        """
        deserialize = {
            "cfg": lambda data: self._load_cfg(lambda: srsly.json_loads(data)),
            "vocab": lambda data: self.vocab.from_bytes(data, exclude=exclude),
            "model": lambda data: self._load_model(lambda: data),
        }
        util.from_dict(self._read(lambda: dict(srsly.msgpack_loads(bytes_data))), deserialize, exclude)
        self._check_loaded(exclude)
        return self

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "StoredPipe":
        """Load the pipe from a directory.

        path (str | Path): The directory.
        exclude (Iterable[str]): Names of fields to leave out.
        RETURNS (StoredPipe): This pipe.
        RAISES (ValueError): CRF304 if the data is damaged or belongs to another model.
        """
        deserialize = {
            "cfg": lambda file: self._load_cfg(lambda: srsly.read_json(file)),
            "vocab": lambda file: self.vocab.from_disk(file, exclude=exclude),
            "model": lambda file: self._load_model(file.read_bytes),
        }
        util.from_disk(path, deserialize, exclude)
        self._check_loaded(exclude)
        return self

    def _read(self, read: Callable[[], ResultT]) -> ResultT:
        try:
            return read()
        except Exception as error:
            # Readers raise whatever a damaged file leads them to.
            raise ValueError(Errors.CRF304.format(name=self.name, error=error)) from error

    def _load_cfg(self, read: Callable[[], Any]) -> None:
        cfg = self._read(lambda: dict(read()))
        if cfg.get("tag_scheme", self.tag_scheme.name) != self.tag_scheme.name:
            raise ValueError(Errors.CRF303.format(stored=cfg["tag_scheme"], config=self.tag_scheme.name))
        self._forget_fitted()
        # A setting that was never changed by hand comes from the config, where it may have been edited since.
        stored = {name: value for name, value in cfg.pop("configured", {}).items() if name not in self.FITTED}
        self.cfg.update({name: value for name, value in cfg.items() if name not in stored or value != stored[name]})

    def _forget_fitted(self) -> None:
        self.cfg.update(copy.deepcopy(self.FITTED))

    def _load_model(self, read: Callable[[], bytes]) -> None:
        constrained = self.model.attrs.get("constrained")
        self._read(lambda: self.model.from_bytes(read()))
        # The file has it too, but what is legal is no matter of weights: the config may change its mind.
        self.model.attrs["constrained"] = constrained

    def _check_loaded(self, exclude: Iterable[str]) -> None:
        self._remember_labels()
        self._untrained_labels.clear()
        nO = self.model.get_ref("output_layer").maybe_get_dim("nO")
        n_tags = len(self.tag_scheme.tags(self.cfg["labels"]))
        if not {"cfg", "model"} & set(exclude) and nO is not None and nO != n_tags:
            raise ValueError(Errors.CRF305.format(nO=nO, n_tags=n_tags, labels=", ".join(self.cfg["labels"])))

    def _remember_labels(self) -> None:
        # A string first seen inside of `nlp.memory_zone()` would be gone with it.
        for label in self.cfg["labels"]:
            self.vocab.strings.add(label, allow_transient=False)
