"""Put WNUT-17 where the project looks for it: from a local folder, or from its public repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import typer
from wasabi import msg

PARTS = ("train", "dev", "test")
REMEDY = "If this machine cannot reach the repository: weasel run wnut17 . --vars.wnut17_dir FOLDER"


def main(
    output: Path = typer.Argument(..., help="Folder to put train.iob, dev.iob and test.iob in", file_okay=False),
    local: str = typer.Option("", help="Folder with train.conll, dev.conll and test.conll; empty to download them"),
) -> None:
    """Copy or download the three files, and stop with an error if one of them cannot be had."""
    if local:
        copy(Path(local), output)
    else:
        download(output)
    msg.good(f"WNUT-17 is in {output}")


def copy(source: Path, output: Path) -> None:
    """Copy the corpus from a folder under the names that the project uses.

    source (Path): Folder with train.conll, dev.conll and test.conll.
    output (Path): Folder to copy to.
    """
    for part in PARTS:
        if not (source / f"{part}.conll").is_file():
            msg.fail(f"There is no {source / part}.conll", "wnut17_dir names a folder with three such files", exits=1)
    output.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        shutil.copyfile(source / f"{part}.conll", output / f"{part}.iob")


def download(output: Path) -> None:
    """Fetch the project's extra assets and check that they arrived.

    output (Path): Folder that project.yml names as their destination.
    """
    command = [sys.executable, "-m", "weasel", "assets", "--extra"]
    env = {**os.environ, "_TYPER_STANDARD_TRACEBACK": "1"}
    result = subprocess.run(command, env=env, check=False, stderr=subprocess.PIPE, text=True, encoding="utf8")
    if result.returncode != 0:
        reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        msg.fail("Could not download WNUT-17", f"{reason}\n{REMEDY}", exits=1)
    # A checksum that does not match is reported by weasel, but does not change its exit code.
    missing = [f"{output / part}.iob" for part in PARTS if not (output / f"{part}.iob").is_file()]
    if missing:
        msg.fail(f"Could not download {', '.join(missing)}", REMEDY, exits=1)


if __name__ == "__main__":
    typer.run(main)
