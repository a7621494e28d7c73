#!/usr/bin/env python3
"""check_output.py EXIT_CODE TEXT... -- COMMAND...: the command ends with this code, and what it prints holds each text."""

import subprocess
import sys


def main():
    cut = sys.argv.index("--")
    code, texts, command = int(sys.argv[1]), sys.argv[2:cut], sys.argv[cut + 1 :]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    print(done.stdout, end="")
    if done.returncode != code:
        sys.exit(f"check_output: exit code {done.returncode} instead of {code}")
    missing = [text for text in texts if text not in done.stdout]
    if missing:
        sys.exit(f"check_output: not printed: {missing}")


if __name__ == "__main__":
    main()
