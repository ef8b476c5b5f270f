"""What docs/probabilities.md says, run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from spacy_bilstm_crf.cli import COMMANDS

DOCS = (Path(__file__).resolve().parents[1] / "docs" / "probabilities.md").read_text(encoding="utf8")


def test_the_python_runs():
    (block,) = re.findall(r"^```python\n(.*?)^```$", DOCS, flags=re.MULTILINE | re.DOTALL)
    result = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Anna Kaya PERSON 0.")
    assert lines[-1] == "(6, 9)"


def test_the_commands_exist():
    commands = re.findall(r"^python -m spacy crf (.+)$", DOCS, flags=re.MULTILINE)
    assert {shlex.split(command)[0] for command in commands} == {"calibrate", "rank", "report", "explain"}
    assert all(shlex.split(command)[0] in COMMANDS for command in commands)
