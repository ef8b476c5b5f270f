"""What was found while reading a file, for the reader of the summary and for tests."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from spacy.tokens import Doc

from ..errors import Errors


class Finding(str, Enum):
    """Something a file should not have, and what becomes of it unless reading is strict."""

    ILLEGAL_TAG = "tag that may not stand there, read as conlleval does"
    UNREADABLE_TAG = "tag that is none of the scheme, read as not annotated"
    NO_TAG = "line without a tag, read as not annotated"
    EXTRA_COLUMNS = "line with too many columns"
    BLANK_TOKEN = "empty token, read as a space"
    OVERLAPPING_SPAN = "span nested in or overlapping a longer one, left out"
    MISALIGNED_SPAN = "span that begins or ends inside of a token, its tokens read as not annotated"
    INVALID_SPAN = "span that is none, left out"
    PADDED_SPAN = "span with white space at its edges, trimmed"


@dataclass
class ReadReport:
    """Counts of what was read, complete once the reader is exhausted.

    path (str): The file.
    format (str): Its format, as in `ReadOptions`.
    scheme (str): The tag scheme, as in `ReadOptions`, or "".
    n_docs (int): Number of Docs.
    n_sents (int): Number of sentences in the file.
    n_tokens (int): Number of tokens.
    n_unknown (int): Number of tokens without entity annotation.
    n_comments (int): Number of comment lines.
    n_skipped (int): Number of lines left out because they say that their annotation was rejected.
    labels (Counter[str]): Number of entities of each label.
    findings (dict[Finding, list[str]]): Everything that was repaired or left out: "file:line: what was found".
    notes (list[str]): What was guessed about the file.
    """

    path: str = ""
    format: str = ""
    scheme: str = ""
    n_docs: int = 0
    n_sents: int = 0
    n_tokens: int = 0
    n_unknown: int = 0
    n_comments: int = 0
    n_skipped: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    findings: dict[Finding, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def n_ents(self) -> int:
        """RETURNS (int): Number of entities of all labels."""
        return sum(self.labels.values())

    def n_findings(self, finding: Finding) -> int:
        """Count one kind of finding.

        finding (Finding): The kind.
        RETURNS (int): How often it was found.
        """
        return len(self.findings.get(finding, ()))

    def add(self, finding: Finding, line: int, found: str, *, strict: bool) -> None:
        """Keep a finding, or raise it.

        finding (Finding): The kind.
        line (int): Line of the file, from 1.
        found (str): What was found there.
        strict (bool): Whether to raise it.
        RAISES (ValueError): CRF403 if reading is strict.
        """
        if strict:
            raise ValueError(Errors.CRF403.format(path=self.path, line=line, finding=finding.value, found=found))
        self.findings.setdefault(finding, []).append(f"{self.path}:{line}: {found}")

    def count_doc(self, doc: Doc) -> Doc:
        """Count a Doc that is handed out.

        doc (Doc): The Doc.
        RETURNS (Doc): The same Doc.
        """
        self.n_docs += 1
        self.n_tokens += len(doc)
        self.labels.update(ent.label_ for ent in doc.ents)
        self.n_unknown += sum(token.ent_iob == 0 for token in doc)
        return doc
