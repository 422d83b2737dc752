"""``kubectl gpu`` out of an archive: the libraries are beside this file, and nowhere else.

The first argument is the folder with the libraries that are compiled for this Python.
"""

import sys
from pathlib import Path

sys.path[:0] = [sys.argv.pop(1), str(Path(__file__).resolve().parent / "lib")]

from admission.cli.kubectl import main  # noqa: E402 - found by the line above

main()
