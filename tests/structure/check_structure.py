#!/usr/bin/env python3
"""Checks that the tree keeps to its architecture: rooms, backends, namespaces, names, READMEs. The rules are in rooms.py.

check_structure.py ROOT prints each offence as FILE:LINE: RULE: text, and exits with 1 if there is any.
"""

import os
import re
import sys

from rooms import (BACKEND_HEADERS, BODIES, INCLUDE_ROOTS, MAY_NAME_BODIES, NAMESPACES, ONE_NAMESPACE_A_FOLDER, README_FOLDERS, README_MAX_LINES,
                   ROOMS, TOP_FOLDERS)

SOURCES = (".c", ".cc", ".cpp", ".cu")
HEADERS = (".h", ".hpp", ".cuh")
PARTS = (".inl",)  # parts of one source, compiled several times: named as the contract they implement, and without a guard
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
# What reads or writes by the process's locale, or by another's language. std::from_chars, fmt and error_text() do not.
LOCALE_CALL = re.compile(
    r"\b(?:strto(?:d|f|ld|l|ul|ll|ull)|sto(?:d|f|ld|i|l|ul|ll|ull)|ato[fil]|is(?:space|digit|x?digit|alpha|alnum|upper|lower|punct|print)"
    r"|to(?:lower|upper)|sscanf|setlocale|strcoll|strerror)\s*\("
)
LOCALE_FOLDERS = ["src", "collectives", "kernels", "include", "tools", "bench", "examples"]
# The programs' own main(), which sets the locale back; an example's "48x4", and the system's words in examples and benches.
MAY_USE_LOCALE = ["tools/sparcl/sparcl_main.cpp", "tools/gateway/gateway_main.cpp", "tools/perf/perf_main.cpp", "examples/language_model/model_size.cpp",
                  "examples/rl_weight_sync/rollout_channel.cpp", "examples/rl_weight_sync/worker_fleet.cpp", "bench/replication/bare_chain.cpp"]  # fmt: skip
# Checks of CLI11 that take -1 for the largest number and let "nan" pass, and checks that may not write the number anew.
NUMBER_CHECK = re.compile(r"\bCLI::(?:Range|Bound|Number|PositiveNumber|NonNegativeNumber)\b|check\((?:\w+::)*(?:whole_number|real_number|size_with_unit)\(")
ROOM_CALL = re.compile(r"sparcl_room\(([^)]*)\)")


def inside(path, folder):
    return path == folder or path.startswith(folder + "/")


def room_of(path):
    """The room that owns a path; None for what stands above the rooms or outside them."""
    for name, (folders, _) in ROOMS.items():
        if any(inside(path, folder) for folder in folders):
            return name
    return None


def files_below(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "build")) and f != "__pycache__")
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def resolve(root, path, included):
    """The path in the tree that an include names, or None. Programs and tests may also name files of their own folder so."""
    is_program = any(inside(path, top) for top in ["examples", *TOP_FOLDERS])
    own_folder = [os.path.dirname(path) + "/" + included] if is_program else []
    for candidate in (*(top + included for top in INCLUDE_ROOTS), *own_folder):
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def check_include(root, path, included, quoted):
    """Yields (rule, text) for one include line."""
    for pattern, allowed in BACKEND_HEADERS:
        if re.fullmatch(pattern, included) and not any(inside(path, place) for place in allowed):
            yield "backend-header", f"<{included}> belongs to {allowed[0]}"
    target = resolve(root, path, included)
    if target is None:
        if quoted:
            yield "include-path", f'"{included}" is no file: includes are relative to the root of the tree'
        return
    source_room, target_room = room_of(path), room_of(target)
    if source_room is None:
        return
    if any(inside(target, top) for top in TOP_FOLDERS):
        yield "upward-include", f"room {source_room} includes {target}, which stands above all rooms"
    elif target_room not in (None, source_room) and target_room not in ROOMS[source_room][1]:
        yield "upward-include", f"room {source_room} must not include {target} of room {target_room}"
    elif target_room != source_room and source_room not in MAY_NAME_BODIES and any(inside(target, b) for b in BODIES):
        yield "body-include", f"room {source_room} uses the contract, not the body {target}"


def namespace_of(path):
    """What the room of a file is called in C++; None above the rooms, and for what has C names."""
    folder = os.path.dirname(path)
    room = room_of(path)
    if room in (None, "include", "examples"):
        return None
    for top in ONE_NAMESPACE_A_FOLDER:
        if inside(folder, top) and folder != top and folder not in NAMESPACES:
            return "sparcl::" + folder.replace("/", "::")
    best = max((f for f in NAMESPACES if inside(folder, f)), key=len, default=None)
    return NAMESPACES[best] if best else f"sparcl::{room}"


def check_namespaces(path, lines):
    """Folder = namespace. A block that only declares classes of another room is no offence."""
    expected = namespace_of(path)
    for number, line in enumerate(lines, 1):
        match = re.match(r"namespace (sparcl[\w:]*) \{", line)
        if not match or expected is None or match[1] == expected or match[1].startswith(expected + "::"):
            continue
        block = []
        for each in lines[number:]:
            if each.startswith("}"):
                break
            block.append(each)
        if not all(re.match(r"(class|struct) \w+;$|$", each) for each in block):
            yield number, "namespace", f"this folder is {expected}, not {match[1]}"


def check_cycles(root, code):
    """No folder of the rooms includes one that includes it, by way of any others."""
    graph = {}
    for path in code:
        if room_of(path) is None:
            continue
        own = os.path.dirname(path)
        with open(os.path.join(root, path), encoding="utf-8") as file:
            included = [match[1] for match in map(INCLUDE.match, file) if match and match[1]]
        targets = {os.path.dirname(target) for target in (resolve(root, path, each) for each in included) if target}
        graph.setdefault(own, set()).update(targets - {own})

    def reached(start):
        seen, open_ends = set(), [start]
        while open_ends:
            for target in graph.get(open_ends.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    open_ends.append(target)
        return seen

    for folder in sorted(graph):
        if folder in reached(folder):
            yield folder, 1, "cycle", "this folder includes one that includes it"


def check_source(root, path):
    """Yields (line, rule, text) for one C or C++ file."""
    with open(os.path.join(root, path), encoding="utf-8") as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match:
            for rule, text in check_include(root, path, match[1] or match[2], match[1] is not None):
                yield number, rule, text
        if LOCALE_CALL.search(line.split("//")[0]) and path not in MAY_USE_LOCALE and any(inside(path, top) for top in LOCALE_FOLDERS):
            yield number, "locale", "this depends on the locale: use std::from_chars, fmt or error_text()"
        if NUMBER_CHECK.search(line) and inside(path, "tools"):
            yield number, "number-check", "give numeric options transform() with a check of tools/number_checks.hpp"
    yield from check_namespaces(path, lines)
    if path.endswith(HEADERS):
        text = "\n".join(lines)
        if not re.search(r"^#pragma once", text, re.M) and not re.search(r"^#ifndef (\w+)\n#define \1\b", text, re.M):
            yield 1, "include-guard", "a header needs #pragma once or an include guard"


def check_stems(paths):
    """Stems are unique; one header and one source in one folder are one thing. Each example is a tree of its own, as a user's is."""
    seen = {}
    for path in paths:
        folder, name = os.path.split(path)
        stem = name.split(".")[0]
        tree = folder if inside(path, "examples") else ""
        first = seen.setdefault((tree, stem), folder)
        if first != folder:
            yield path, 1, "file-stem", f"the stem {stem} is taken by {first}/"


def check_readmes(root, paths):
    for folder in README_FOLDERS:
        if os.path.isdir(os.path.join(root, folder)) and folder + "/README.md" not in paths:
            yield folder, 1, "readme", "this folder needs a README.md: what it owns, what it may include, how to add one"
    for path in paths:
        if path.endswith("/README.md") and path != "docs/decisions/README.md":  # that is an index, which grows
            with open(os.path.join(root, path), encoding="utf-8") as file:
                count = len(file.readlines())
            if count > README_MAX_LINES:
                yield path, count, "readme", f"{count} lines; {README_MAX_LINES} are enough, the rest belongs into docs/"


def check_may_include(root):
    """Each room's README names the rooms that the table lets it include."""
    for room, (folders, allowed) in ROOMS.items():
        path = folders[0] + "/README.md"
        if room in ("include", "examples") or not os.path.isfile(os.path.join(root, path)):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            lines = file.read().splitlines()
        named = [(number, line[len("May include: ") :]) for number, line in enumerate(lines, 1) if line.startswith("May include: ")]
        expected = "all" if room == "api" else ", ".join(allowed) or "nothing"
        if [text for _, text in named] != [expected]:
            yield path, named[0][0] if named else 1, "may-include", f'the line "May include: {expected}" belongs here'


def check_cmake(root):
    """A room's target links what the room may include, no more."""
    path = "CMakeLists.txt"
    if not os.path.isfile(os.path.join(root, path)):
        return
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = re.sub(r"#.*", "", file.read())
    targets = {}
    calls = []
    for match in ROOM_CALL.finditer(text):
        words = match[1].split()
        cut = words.index("LINK") if "LINK" in words else len(words)
        calls.append((text.count("\n", 0, match.start()) + 1, words[0], words[1:cut], words[cut + 1 :]))
        targets[words[0]] = room_of(words[1]) if len(words) > 1 else None
    for line, name, folders, links in calls:
        for folder in folders:
            if room_of(folder) != targets[name]:
                yield path, line, "cmake-room", f"{folder} is not of the room of {name}"
        for link in links:
            room = targets.get(link)
            if room not in (None, targets[name]) and room not in ROOMS[targets[name]][1]:
                yield path, line, "cmake-room", f"{name} must not link {link}"


def check_tree(root):
    """All offences, as (path, line, rule, text)."""
    paths = list(files_below(root))
    code = [path for path in paths if path.endswith(SOURCES + HEADERS)]
    offences = []
    for path in code + [path for path in paths if path.endswith(PARTS)]:
        offences += [(path, *rest) for rest in check_source(root, path)]
    offences += check_stems(code)
    offences += check_readmes(root, set(paths))
    offences += check_may_include(root)
    offences += check_cycles(root, code)
    offences += check_cmake(root)
    return len(code), offences


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_structure.py ROOT")
    count, offences = check_tree(sys.argv[1])
    for path, line, rule, text in offences:
        print(f"{path}:{line}: {rule}: {text}")
    print(f"{count} source files checked, {len(offences)} offences")
    sys.exit(1 if offences or count == 0 else 0)


if __name__ == "__main__":
    main()
