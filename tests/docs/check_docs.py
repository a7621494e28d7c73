#!/usr/bin/env python3
"""Checks README.md and docs/: check_docs.py STEP ROOT, where STEP is

programs   every ```c and ```cpp block is a complete program: it is compiled and run, under mpirun with 2 ranks if it includes
           sparcl_mpi.h, and once more with a wrong setting, which it must name. A block after <!-- in: FILE --> is a part of a
           program: it is put in place of HERE into tests/docs/parts/FILE, and compiled. The environment gives WORK, LIBS (the folder of the libraries), CC, CXX, FLAGS, MPI_FLAGS, MPIEXEC (empty: no MPI), WITH_UCX,
           KOKKOS_FLAGS (empty: no Kokkos), CUDA_FLAGS (empty: no CUDA).
commands   every command of a ```console block exists, as do the presets, and the commands and options of `sparcl` that it names
           (SPARCL: the program).
links      every relative link leads to a file, and its #anchor to a heading of it; every page that a
           source names exists, and every file that a page names.
names      every function, type and constant of sparcl, and every SPARCL_ name, is in the public headers, the table of settings, CMake or python/sparcl/engines.
messages   every text in a heading of docs/troubleshooting.md is one that a source prints, and the entries of a part ascend.
errors     the public headers and docs/explanation/guarantees.md name the same errors as agreed, and the same as poisoning.
"""

import json
import os
import re
import shlex
import subprocess
import sys

FENCE = re.compile(r"(?:^<!-- in: ([\w.]+) -->\n)?^```(\w*)[^\n]*\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.+?)\s*$", re.M)


def documents(root):
    yield "README.md"
    for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
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
    """(document, line, language, text, the file that it is a part of or None) of each fenced block in one of the languages."""
    for path in documents(root):
        text = text_of(root, path)
        for match in FENCE.finditer(text):
            if match[2] in languages:
                yield path, text.count("\n", 0, match.start(2)) + 1, match[2], match[3], match[1]


def run(command):
    print("$", shlex.join(command), flush=True)
    return subprocess.run(command, timeout=240).returncode == 0


def whole(root, code, part):
    """A block as a program: it is one, or it stands where its file says HERE."""
    if not part:
        return code
    return text_of(root, "tests/docs/parts/" + part).replace("  HERE\n", code, 1)


def check_program(root, path, line, language, code, part):
    """Compiles and runs one block; says whether all went well."""
    env = os.environ
    code = whole(root, code, part)
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
    if "nccl.h" in code and not any(os.path.isfile(os.path.join(flag, "nccl.h")) for flag in ("/usr/include", *shlex.split(env["CUDA_FLAGS"]))):
        print(f"{path}:{line}: skipped: no nccl.h here")
        return True
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
    if part:
        return run([*compiler, *flags, f"-I{root}", "-fsyntax-only", source, *other_flags])
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
    return [f"{path}:{line}: the program failed" for path, line, *rest in found if not check_program(root, path, line, *rest)] or (
        [] if found else ["no programs found"]
    )


def command_fault(root, presets, words, page):
    """What is wrong with one command line of a page, or None."""
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    if not words:
        return None
    if words[0] == "cmake" or words[0] == "ctest":
        for option, name in zip(words, words[1:]):
            if option == "--preset" and name not in presets:
                return f"there is no preset {name}"
    elif words[0] == "sparcl" and len(words) > 1 and os.environ.get("SPARCL"):
        commands = [word for word in words[1:3] if not word.startswith("-")]  # the second may be a file
        asked = subprocess.run([os.environ["SPARCL"], *commands, "--help"], capture_output=True, timeout=60, text=True)
        if "is neither beside sparcl nor in PATH" in asked.stderr:  # a program that was not built
            return None
        if asked.returncode != 0:
            return f"sparcl knows no command {words[1]}"
        for word in words[2:]:
            if re.match(r"--?[a-z]", word) and not re.search(r"(?<![\w-])" + re.escape(word.split("=")[0]) + r"(?![\w-])", asked.stdout):
                return f"sparcl {words[1]} knows no option {word}"
    elif words[0].startswith("./"):
        if f"-o {words[0][2:]}\n" not in page:
            return f"no command of this page makes {words[0]}"
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
    for path, line, _, text, _ in blocks(root, ("console",)):
        for offset, command in enumerate(text.splitlines(), 1):
            if not command.startswith("$ "):
                continue
            count += 1
            for part in re.split(r"&&|\|", command[2:].split(" #")[0]):
                fault = command_fault(root, presets, shlex.split(part), text_of(root, path))
                if fault:
                    faults.append(f"{path}:{line + offset}: {fault}")
    print(f"{count} commands")
    return faults if count else ["no commands found"]


def anchors(text):
    """The anchors of a page's headings, as GitHub and the site make them."""
    found = set()
    for match in HEADING.finditer(FENCE.sub("", text)):
        title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.add(slug if slug not in found else slug + "-1")
    return found


def source_files(root):
    """Sources, scripts and READMEs outside of docs, but for the tests of these checks themselves."""
    for folder in ("bench", "cmake", "collectives", "examples", "include", "kernels", "scripts", "slurm", "src", "tests", "tools"):
        for place, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(each for each in folders if each != "__pycache__")
            for name in sorted(names):
                path = os.path.relpath(os.path.join(place, name), root)
                is_text = name.endswith((".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".inl", ".py", ".md", ".txt")) or folder == "scripts"
                if is_text and not name.startswith(("check_prose", "char_text")):
                    yield path


def check_links(root):
    faults = []
    count = 0
    for path in documents(root):
        for match in LINK.finditer(FENCE.sub("", text_of(root, path))):
            if "://" in match[1]:
                continue
            count += 1
            target = os.path.normpath(os.path.join(os.path.dirname(path), match[1])) if match[1] else path
            if not os.path.exists(os.path.join(root, target)):
                faults.append(f"{path}: the link {match[1]} leads nowhere")
            elif match[2] and target.endswith(".md") and match[2] not in anchors(text_of(root, target)):
                faults.append(f"{path}: the link {match[1]}#{match[2]} leads to no heading")
        if path.startswith(("docs/decisions/", "docs/results/", "CHANGELOG")):
            continue
        for place in re.findall(r"`((?:src|collectives|kernels|include|tests|scripts|tools)/[\w/.-]*\w)`", text_of(root, path)):
            count += 1
            if not os.path.exists(os.path.join(root, place)):
                faults.append(f"{path}: there is no {place}")
    for path in source_files(root):
        for number, line in enumerate(text_of(root, path).splitlines(), 1):
            for page in re.findall(r"(?<![\w/])docs/[\w./-]+\.md\b", line):
                count += 1
                if not os.path.exists(os.path.join(root, page)):
                    faults.append(f"{path}:{number}: {page} is no page")
    print(f"{count} links")
    return faults if count else ["no links found"]


def texts_below(root, folders, endings):
    for folder in folders:
        for place, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                if name.endswith(endings):
                    with open(os.path.join(place, name), encoding="utf-8") as file:
                        yield file.read()


def check_names(root):
    """Names in the pages that are written for users; decisions and results keep the names of their day."""
    code = "\n".join(texts_below(root, ("include", "kernels/kokkos/include"), (".h", ".hpp")))
    known = set(re.findall(r"\b(?:sparcl[A-Z]\w*|SPARCL_\w+)", code))
    known |= set(re.findall(r"`(SPARCL_\w+)`", text_of(root, "docs/reference/settings.md")))
    known |= set(re.findall(r"\bSPARCL_\w+", text_of(root, "CMakeLists.txt")))
    known |= set(re.findall(r"\bSPARCL_ENGINES_\w+", "\n".join(texts_below(root, ("python/sparcl/engines",), (".py",)))))
    known |= set(re.findall(r"\bSPARCL_\w+", "\n".join(texts_below(root, ("tests/support", "tests/random"), (".hpp", ".cpp")))))
    faults = []
    count = 0
    for path in documents(root):
        if path.startswith(("docs/decisions/", "docs/results/", "CHANGELOG")):
            continue
        for number, line in enumerate(text_of(root, path).splitlines(), 1):
            for name in re.findall(r"(?<![\w/\"])(?:sparcl[A-Z]\w+|SPARCL_[A-Z]\w*)(?!\.\.\.|\w)", line):
                count += 1
                if name not in known and not name.endswith("_"):
                    faults.append(f"{path}:{number}: there is no {name}")
    print(f"{count} names")
    return faults if count else ["no names found"]


def check_messages(root):
    """Sources print their messages with fmt: a placeholder is {...} there and ... in the page."""
    printed = []
    for text in texts_below(root, ("src", "collectives", "tools"), (".cpp", ".hpp")):
        text = re.sub(r"//[^\n]*", "", text)
        joined = re.sub(r'"\s*"', "", text)
        printed.append(re.sub(r"\{[\w:.<>]*\}", "...", joined))
    corpus = re.sub(r"\s+", " ", "\n".join(printed)).replace('\\"', '"')
    path = "docs/troubleshooting.md"
    faults = []
    count = 0
    for part in re.split(r"^## ", text_of(root, path), flags=re.M)[1:]:
        titles = re.findall(r"^### `(.+)`$", part, re.M)
        count += len(titles)
        order = [re.sub(r"^[. /]+", "", title).lower() for title in titles]
        if order != sorted(order):
            faults.append(f"{path}: the texts of '{part.splitlines()[0]}' are not in order")
        for title in titles:
            if title.strip(". ") not in corpus:
                faults.append(f"{path}: no source prints '{title}'")
    print(f"{count} messages")
    return faults if count else ["no messages found"]


def check_errors(root):
    def names(path, begin, end):
        match = re.search(re.escape(begin) + "(.*?)" + re.escape(end), text_of(root, path), re.S)
        return set(re.findall(r"sparcl[A-Z]\w+", match[1])) if match else set()

    header, guarantees = "include/sparcl/core.h", "docs/explanation/guarantees.md"
    faults = []
    for kind, in_header, in_guarantees in (
        ("agreed", ("The agreed errors are", "An agreed error"), ("**Agreed**", "Every rank returns")),
        ("poisoning", ("Poisoning errors:", "poison the"), ("**Poisoning**", "Every later call")),
    ):
        declared, promised = names(header, *in_header), names(guarantees, *in_guarantees)
        if not declared or declared != promised:
            faults.append(f"{kind} errors: {header} names {sorted(declared)}, {guarantees} {sorted(promised)}")
    return faults


def main():
    steps = {"programs": check_programs, "commands": check_commands, "links": check_links, "names": check_names, "messages": check_messages,
             "errors": check_errors}  # fmt: skip
    if len(sys.argv) != 3 or sys.argv[1] not in steps:
        sys.exit(__doc__)
    faults = steps[sys.argv[1]](sys.argv[2])
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
