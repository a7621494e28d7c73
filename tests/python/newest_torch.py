#!/usr/bin/env python3
"""Runs the PyTorch tests with PyPI's newest PyTorch: newest_torch.py FOLDER

FOLDER is a virtual environment, made if it is not there: some 7 GB. Exit code 77: it cannot be made.
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = ["torch", "numpy", "ml_dtypes", "pyyaml", "pytest"]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def main():
    folder = pathlib.Path(sys.argv[1])
    python = folder / "bin" / "python"
    if not python.exists() and subprocess.run([sys.executable, "-m", "venv", folder]).returncode:
        skip("this Python makes no virtual environments: install python3-venv")
    install = [python, "-m", "pip", "install", "-q", *PACKAGES]
    if subprocess.run(install, timeout=3000).returncode:
        skip("pip cannot install PyTorch")
    files = sorted(str(each) for each in HERE.glob("torch_*_test.py"))
    tests = [python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *files]
    sys.exit(subprocess.run(tests, env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode)


if __name__ == "__main__":
    main()
