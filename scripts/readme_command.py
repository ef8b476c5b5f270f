"""Print a command of the README. Needs nothing but Python, so that it can run before anything is installed."""

import argparse
import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def read_command(name: str) -> str:
    """Read a command from the README: the one line of the code block after its marker.

    name (str): What the marker calls it: `<!-- command: NAME -->`.
    RETURNS (str): The command.
    """
    pattern = rf"^<!-- command: {re.escape(name)} -->\n```bash\n(.+)\n```$"
    found = re.findall(pattern, README.read_text(encoding="utf8"), flags=re.MULTILINE)
    if len(found) != 1:
        raise SystemExit(f"README.md must have one block of one line after <!-- command: {name} -->, has {len(found)}")
    return str(found[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="Name of the command in the README: run or test")
    print(read_command(parser.parse_args().name))
