"""From a slice to a shard: what every engine has its workers do."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import Errors
from .folders import Folder, open_folder
from .job import Job, Slice
from .reading import Failure, Record, describe_error, read_slice
from .receipts import Receipt, shard_name, write_receipt
from .tagging import (
    annotate_records,
    get_model_name,
    get_prob_attr,
    in_chunks,
    memory_zone,
    read_entities,
    want_probabilities,
)
from .writing import Annotated, Writer, make_writer

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


@dataclass
class Annotator:
    """A loaded pipeline and where its annotation goes.

    nlp (Language): The pipeline.
    job (Job): The options.
    folder (Folder): The output folder.
    """

    nlp: "Language"
    job: Job
    folder: Folder

    @classmethod
    def load(cls, job: Job, *, gpu_id: int = -1) -> "Annotator":
        """Load the pipeline, as each worker does once.

        job (Job): The options.
        gpu_id (int): The GPU. -1 for none.
        RETURNS (Annotator): The annotator.
        RAISES (ValueError): CRF422 if the output cannot be written to, CRF432 if the pipeline cannot be loaded.
        """
        from spacy import util
        from thinc.api import require_gpu

        try:
            if gpu_id >= 0:
                require_gpu(gpu_id)
            if job.code is not None:
                util.import_file("python_code", job.code)
            nlp = util.load_model(job.model, exclude=job.exclude)
            if job.probabilities:
                want_probabilities(nlp)
        except Exception as error:
            raise ValueError(Errors.CRF432.format(model=job.model, error=describe_error(error))) from error
        return cls(nlp, job, open_folder(job.output))

    def annotate(
        self,
        part: Slice,
        *,
        on_progress: Callable[[int], None] = lambda n_docs: None,
        on_document: Callable[[int], None] | None = None,
        skip: Mapping[int, str] | None = None,
    ) -> Receipt:
        """Make the shard of a slice. It appears when it is whole.

        part (Slice): The slice.
        on_progress (Callable): Told how many documents were done since it was last told.
        on_document (Callable | None): Told the position of each document before it is annotated. Then this is done one
            by one.
        skip (Mapping | None): Documents that are left out, by position, and why.
        RETURNS (Receipt): What became of it.
        RAISES (OSError): If the shard cannot be written.
        """
        receipt = Receipt.of(part)
        pending = self.folder.create(shard_name(part.name, self.job.output_format))
        try:
            writer = make_writer(self.job, part, pending.stream)
            items = _leave_out(read_slice(part, self.job, self.nlp.max_length), skip or {})
            size = self.nlp.batch_size if on_document is None else 1
            for i, chunk in enumerate(in_chunks(items, size)):
                if on_document is not None:
                    on_document(i)
                with memory_zone(self.nlp):
                    self._add(annotate_records(self.nlp, chunk), writer, receipt)
                on_progress(len(chunk))
            writer.close()
            pending.finish()
            # The receipt first: without its shard it does not count, but a shard without it would have lost its errors.
            write_receipt(self.folder, receipt)
            pending.commit()
        finally:
            pending.discard()
        return receipt

    def _add(self, results: "list[tuple[Record, Doc] | Failure]", writer: Writer, receipt: Receipt) -> None:
        model, prob_attr = get_model_name(self.nlp), get_prob_attr(self.nlp)
        for result in results:
            if isinstance(result, Failure):
                receipt.failures.append(result)
                continue
            record, doc = result
            try:
                annotated = Annotated(record.id, doc, read_entities(doc, prob_attr), record.fields, model)
                writer.add(annotated)
            except OSError:
                raise
            except Exception as error:
                receipt.failures.append(Failure(record.id, record.place, describe_error(error)))
                continue
            receipt.n_docs += 1
            receipt.n_tokens += len(doc)
            receipt.n_entities += len(annotated.entities)


def _leave_out(items: Iterator[Record | Failure], skip: Mapping[int, str]) -> Iterator[Record | Failure]:
    for i, item in enumerate(items):
        yield Failure(item.id, item.place, skip[i]) if i in skip else item
