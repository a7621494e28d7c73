"""Each ```python block of the documents is a program that runs."""

import pathlib
import re

import pytest

from conftest import run_python

ROOT = pathlib.Path(__file__).resolve().parents[2]


def programs():
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text()
        for block in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S):
            line = text.count("\n", 0, block.start()) + 1
            yield pytest.param(block[1], id=f"{path.relative_to(ROOT)}:{line}")


@pytest.mark.parametrize("program", list(programs()))
def test_a_program_runs(program, tmp_path):
    for package in ("torch", "mpi4py"):
        if re.search(rf"^(import|from) {package}|sparcl\.{package}", program, re.M):
            pytest.importorskip(package, reason=f"needs {package}")
    path = tmp_path / "program.py"  # processes that it spawns import it
    path.write_text(program)
    run = run_python(path, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
