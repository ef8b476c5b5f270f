"""Install a packaged model into a fresh environment and try it there."""

import subprocess
import sys
from pathlib import Path

import typer
from wasabi import msg


def main(
    package: str = typer.Argument(..., help="Name of the model package"),
    version: str = typer.Argument(..., help="Version of the model package"),
    metrics: Path = typer.Argument(..., help="JSON file that `spacy evaluate` wrote", exists=True, dir_okay=False),
    text: str = typer.Argument(..., help="Text to find entities in"),
    wheels: list[Path] = typer.Option(..., help="Folder with wheels, can be given more than once", exists=True),
    constraints: Path = typer.Option(..., help="Constraints file for pip", exists=True, dir_okay=False),
    env: Path = typer.Option(..., help="Folder of the environment; what is in it is deleted", file_okay=False),
) -> None:
    """Make an environment with nothing but the model and what it requires, and run try_model.py with its Python."""
    msg.info(f"Installing {package} {version} into a fresh environment: {env}")
    python = create_environment(env)
    install(python, f"{package}=={version}", wheels, constraints)
    run(python, Path(__file__).with_name("try_model.py"), package, metrics, text)


def create_environment(path: Path) -> Path:
    """Create an empty virtual environment.

    path (Path): Folder of the environment; what is in it is deleted.
    RETURNS (Path): Its Python executable.
    """
    run(sys.executable, "-m", "venv", "--clear", path)
    return path / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def install(python: Path, requirement: str, wheels: list[Path], constraints: Path) -> None:
    """Install a requirement with pip.

    python (Path): Python executable of the environment.
    requirement (str): What to install.
    wheels (list[Path]): Folders to look for wheels in before the package index is asked.
    constraints (Path): Constraints file for pip.
    """
    links = [part for folder in wheels for part in ("--find-links", folder)]
    # Compiling what is never imported would take longer than everything that follows.
    run(python, "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", constraints, *links, requirement)


def run(*command: str | Path) -> None:
    """Run a command and stop with its exit code if it fails.

    command (str | Path): The program and its arguments.
    """
    result = subprocess.run([str(part) for part in command], check=False)
    if result.returncode != 0:
        raise typer.Exit(result.returncode)


if __name__ == "__main__":
    typer.run(main)
