"""``python -m sparcl`` is the program `sparcl`."""

import os
import sys

from ._program import path_of_program


def main() -> None:
    program = path_of_program()
    if program is None:
        sys.exit("sparcl: this package was built without the program: install sparcl's tools")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
