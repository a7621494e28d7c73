#!/usr/bin/env python3
"""Checks README.md and docs/: check_docs.py STEP ROOT, where STEP is

programs   every ```c and ```cpp block is a complete program: it is compiled and run, under mpirun with 2 ranks if it includes
           sparcl_mpi.h, and once more with a wrong setting, which it must name. The environment gives WORK, LIBS (the folder of the libraries), CC, CXX, FLAGS, MPI_FLAGS, MPIEXEC (empty: no MPI), WITH_UCX,
           KOKKOS_FLAGS (empty: no Kokkos), CUDA_FLAGS (empty: no CUDA).
commands   every command of a ```console block exists, as do the presets and the commands of `sparcl` that it names (SPARCL: the program).
links      every relative link leads to a file.
errors     include/sparcl/sparcl.h and docs/explanation/guarantees.md name the same errors as agreed, and the same as poisoning.
"""

import json
import os
import re
import shlex
import subprocess
import sys

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def documents(root):
    yield "README.md"
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        if os.path.isfile(os.path.join(root, name)):
            yield name
    for folder, _, names in os.walk(os.path.join(root, "docs")):
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), root)


def text_of(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def blocks(root, languages):
    """(document, line, language, text) of each fenced block in one of the languages."""
    for path in documents(root):
        text = text_of(root, path)
        for match in FENCE.finditer(text):
            if match[1] in languages:
                yield path, text.count("\n", 0, match.start()) + 1, match[1], match[2]


def run(command):
    print("$", shlex.join(command), flush=True)
    return subprocess.run(command, timeout=240).returncode == 0


def check_program(path, line, language, code):
    """Compiles and runs one block; says whether all went well."""
    env = os.environ
    mpi = "sparcl_mpi.h" in code
    if mpi and not env["MPIEXEC"]:
        print(f"{path}:{line}: skipped: built without MPI")
        return True
    if ("sparclCommInitRank" in code or "unique_id" in code) and env["WITH_UCX"] != "1":
        print(f"{path}:{line}: skipped: built without UCX")
        return True
    kokkos = "sparcl_kokkos.hpp" in code
    if kokkos and not env["KOKKOS_FLAGS"]:
        print(f"{path}:{line}: skipped: built without Debian's Kokkos")
        return True
    cuda = "cuda_runtime_api.h" in code
    if cuda and not env["CUDA_FLAGS"]:
        print(f"{path}:{line}: skipped: built without CUDA")
        return True
    print(f"{path}:{line}: {language} program{' under mpirun' if mpi else ''}", flush=True)
    stem = os.path.join(env["WORK"], f"{os.path.basename(path).replace('.', '_')}_{line}")
    source = f"{stem}.{language}"
    with open(source, "w", encoding="utf-8") as file:
        file.write(code)
    compiler = [env["CC"], "-std=c99"] if language == "c" else [env["CXX"], "-std=c++20"]
    flags = ["-Wall", "-Wextra", "-Werror", *shlex.split(env["FLAGS"])]
    libraries = ["-L" + env["LIBS"], "-Wl,-rpath," + env["LIBS"], *(["-lsparcl_mpi"] if mpi else []), "-lsparcl", "-pthread"]
    other_flags = [*(shlex.split(env["MPI_FLAGS"]) if mpi else []), *(shlex.split(env["KOKKOS_FLAGS"]) if kokkos else []),
                   *(shlex.split(env["CUDA_FLAGS"]) if cuda else [])]
    program = [*([env["MPIEXEC"], "-n", "2"] if mpi else []), stem]
    return run([*compiler, *flags, source, "-o", stem, *libraries, *other_flags]) and run(program) and names_its_error(path, line, program)


def names_its_error(path, line, program):
    """A program that is shown prints the library's own text where a call fails, its first one, too."""
    failed = subprocess.run(program, timeout=240, capture_output=True, env={**os.environ, "SPARCL_VERIFY": "nonsense"})
    if failed.returncode != 0 and b"SPARCL_VERIFY=nonsense" in failed.stderr:
        return True
    print(f"{path}:{line}: with SPARCL_VERIFY=nonsense it exits with {failed.returncode} and says:\n{failed.stderr.decode(errors='replace')}")
    return False


def check_programs(root):
    os.makedirs(os.environ["WORK"], exist_ok=True)
    found = list(blocks(root, ("c", "cpp")))
    return [f"{path}:{line}: the program failed" for path, line, *rest in found if not check_program(path, line, *rest)] or (
        [] if found else ["no programs found"]
    )


def command_fault(root, presets, words):
    """What is wrong with one command line, or None."""
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    if not words:
        return None
    if words[0] == "cmake" or words[0] == "ctest":
        for option, name in zip(words, words[1:]):
            if option == "--preset" and name not in presets:
                return f"there is no preset {name}"
    elif words[0] == "sparcl" and len(words) > 1 and os.environ.get("SPARCL"):
        if subprocess.run([os.environ["SPARCL"], words[1], "--help"], capture_output=True, timeout=60).returncode != 0:
            return f"sparcl knows no command {words[1]}"
    elif "/" in words[0] and not words[0].startswith(("/", "build/")):
        if not os.access(os.path.join(root, words[0]), os.X_OK):
            return f"{words[0]} is no program"
    return None


def check_commands(root):
    with open(os.path.join(root, "CMakePresets.json"), encoding="utf-8") as file:
        loaded = json.load(file)
    presets = {preset["name"] for kind in ("configurePresets", "testPresets") for preset in loaded[kind]}
    faults = []
    count = 0
    for path, line, _, text in blocks(root, ("console",)):
        for offset, command in enumerate(text.splitlines(), 1):
            if not command.startswith("$ "):
                continue
            count += 1
            for part in re.split(r"&&|\|", command[2:].split(" #")[0]):
                fault = command_fault(root, presets, shlex.split(part))
                if fault:
                    faults.append(f"{path}:{line + offset}: {fault}")
    print(f"{count} commands")
    return faults if count else ["no commands found"]


def check_links(root):
    faults = []
    count = 0
    for path in documents(root):
        for match in LINK.finditer(text_of(root, path)):
            if "://" in match[1]:
                continue
            count += 1
            if not os.path.exists(os.path.join(root, os.path.dirname(path), match[1])):
                faults.append(f"{path}: the link {match[1]} leads nowhere")
    print(f"{count} links")
    return faults if count else ["no links found"]


def check_errors(root):
    def names(path, begin, end):
        match = re.search(re.escape(begin) + "(.*?)" + re.escape(end), text_of(root, path), re.S)
        return set(re.findall(r"sparcl[A-Z]\w+", match[1])) if match else set()

    header, guarantees = "include/sparcl/sparcl.h", "docs/explanation/guarantees.md"
    faults = []
    for kind, in_header, in_guarantees in (
        ("agreed", ("are agreed:", "sparclTimeout"), ("**Agreed**", "Every rank returns")),
        ("poisoning", ("coded or checked.", "poison it"), ("**Poisoning**", "Every later call")),
    ):
        declared, promised = names(header, *in_header), names(guarantees, *in_guarantees)
        if not declared or declared != promised:
            faults.append(f"{kind} errors: {header} names {sorted(declared)}, {guarantees} {sorted(promised)}")
    return faults


def main():
    steps = {"programs": check_programs, "commands": check_commands, "links": check_links, "errors": check_errors}
    if len(sys.argv) != 3 or sys.argv[1] not in steps:
        sys.exit(__doc__)
    faults = steps[sys.argv[1]](sys.argv[2])
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
