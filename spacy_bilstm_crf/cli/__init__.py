"""Subcommands of spaCy's command line: `python -m spacy crf ...`.

spaCy loads this module on every start of its command line, so commands import what they need when they are called. To
add a command, write a function with spaCy's `Arg` and `Opt` in a module of this folder and name it in `COMMANDS`.
"""

from collections.abc import Callable

import typer
from spacy.cli._util import app as spacy_app

from .annotate import annotate_cli
from .calibrate import calibrate_cli
from .convert import convert_cli
from .debug_data import debug_data_cli
from .explain import explain_cli
from .init_config import init_config_cli
from .rank import rank_cli
from .report import report_cli

__all__ = ["COMMANDS", "app"]

COMMANDS: dict[str, Callable[..., None]] = {
    "annotate": annotate_cli,
    "calibrate": calibrate_cli,
    "convert": convert_cli,
    "debug-data": debug_data_cli,
    "explain": explain_cli,
    "init-config": init_config_cli,
    "rank": rank_cli,
    "report": report_cli,
}
# These take settings of a config as further arguments, as `spacy train` does.
_SETTINGS = {"debug-data": {"allow_extra_args": True, "ignore_unknown_options": True}}

app = typer.Typer(name="crf", help="Commands for BiLSTM-CRF pipelines.", no_args_is_help=True, rich_markup_mode=None)
for _name, _command in COMMANDS.items():
    app.command(_name, context_settings=_SETTINGS.get(_name))(_command)
spacy_app.add_typer(app)
