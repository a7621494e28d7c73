#!/usr/bin/env python3
"""Checks that the tree keeps to its architecture: layers, backends, names, READMEs. The rules are in layers.py.

check_structure.py ROOT prints each offence as FILE:LINE: RULE: text, and exits with 1 if there is any.
"""

import os
import re
import sys

from layers import (BACKEND_HEADERS, BODIES, INCLUDE_ROOTS, LAYERS, MAY_NAME_BODIES, README_FOLDERS, README_MAX_LINES, TOP_FOLDERS)

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
MAY_USE_LOCALE = ["tools/sparcl/sparcl_main.cpp", "tools/perf/perf_main.cpp", "examples/language_model/model_size.cpp",
                  "examples/rl_weight_sync/rollout_channel.cpp", "examples/rl_weight_sync/worker_fleet.cpp", "bench/replication/bare_chain.cpp"]  # fmt: skip
LAYER_CALL = re.compile(r"sparcl_layer\(([^)]*)\)")


def inside(path, folder):
    return path == folder or path.startswith(folder + "/")


def layer_of(path):
    """The layer that owns a path; None for what stands above the layers or outside them."""
    for name, (folders, _) in LAYERS.items():
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
    source_layer, target_layer = layer_of(path), layer_of(target)
    if source_layer is None:
        return
    if any(inside(target, top) for top in TOP_FOLDERS):
        yield "upward-include", f"layer {source_layer} includes {target}, which stands above all layers"
    elif target_layer not in (None, source_layer) and target_layer not in LAYERS[source_layer][1]:
        yield "upward-include", f"layer {source_layer} must not include {target} of layer {target_layer}"
    elif target_layer != source_layer and source_layer not in MAY_NAME_BODIES and any(inside(target, b) for b in BODIES):
        yield "body-include", f"layer {source_layer} uses the contract, not the body {target}"


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
        if path.endswith("/README.md"):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                count = len(file.readlines())
            if count > README_MAX_LINES:
                yield path, count, "readme", f"{count} lines; {README_MAX_LINES} are enough, the rest belongs into docs/"


def check_cmake(root):
    """A layer's target links what the layer may include, no more."""
    path = "CMakeLists.txt"
    if not os.path.isfile(os.path.join(root, path)):
        return
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = re.sub(r"#.*", "", file.read())
    targets = {}
    calls = []
    for match in LAYER_CALL.finditer(text):
        words = match[1].split()
        cut = words.index("LINK") if "LINK" in words else len(words)
        calls.append((text.count("\n", 0, match.start()) + 1, words[0], words[1:cut], words[cut + 1 :]))
        targets[words[0]] = layer_of(words[1]) if len(words) > 1 else None
    for line, name, folders, links in calls:
        for folder in folders:
            if layer_of(folder) != targets[name]:
                yield path, line, "cmake-layer", f"{folder} is not of the layer of {name}"
        for link in links:
            layer = targets.get(link)
            if layer not in (None, targets[name]) and layer not in LAYERS[targets[name]][1]:
                yield path, line, "cmake-layer", f"{name} must not link {link}"


def check_tree(root):
    """All offences, as (path, line, rule, text)."""
    paths = list(files_below(root))
    code = [path for path in paths if path.endswith(SOURCES + HEADERS)]
    offences = []
    for path in code + [path for path in paths if path.endswith(PARTS)]:
        offences += [(path, *rest) for rest in check_source(root, path)]
    offences += check_stems(code)
    offences += check_readmes(root, set(paths))
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
