#!/usr/bin/env python3
"""Checks what ptxas made of the kernels: loads of 16 bytes are under way together, and nothing is spilt to local memory.

loads_check.py ROOT compiles the launchers below ROOT for each kind of GPU, and reads them back. It prints each offence and exits with
1 if there is any; with 77, and a reason, where nvcc or nvdisasm is not found.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

ARCHITECTURES = ("sm_80", "sm_90")
# Of kernels whose mangled name is found here first: how many loads of 16 bytes come before the first use of one.
LEAST_LOADS = (
    (r"11diff_kernel|17large_diff_kernel", 8),
    (r"11hash_kernel", 4),
    (r"14combine_kernel.*DataTypeE9E", 3),
    (r"14combine_kernel.*DataTypeE(2|3|4|5|6|7|8)E", 4),
    (r"19rank_changes_kernel|20place_classes_kernel", 4),
    (r"(12large|17candidates)_kernelI.*TopKTypeE[1-4]E", 4),  # values of 1 and 2 bytes: their own loads are narrower
    (r"(12large|17candidates)_kernelI", 8),
)


def find_program(name):
    return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")


def disassemble(nvcc, nvdisasm, root, launcher, architecture, folder):
    cubin = os.path.join(folder, f"{launcher}.{architecture}")
    subprocess.run([nvcc, "-cubin", f"-arch={architecture}", "-O3", "-DNDEBUG", "-std=c++20", "--expt-relaxed-constexpr", f"-I{root}",
                    f"-I{root}/include", "-o", cubin, f"{root}/kernels/cuda/{launcher}"], check=True)
    return subprocess.run([nvdisasm, "-c", cubin], check=True, capture_output=True, text=True).stdout


def kernels_of(listing):
    """Yields (name, instructions) for each kernel."""
    name, instructions = None, []
    for line in listing.splitlines():
        label = re.match(r"\s*\.text\.(\S+):", line)
        if label:
            if name:
                yield name, instructions
            name, instructions = label[1], []
        instruction = re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(\S+)\s*(.*?);", line)
        if instruction:
            instructions.append(instruction.groups())
    if name:
        yield name, instructions


def most_loads_at_once(instructions):
    most, pending, count = 0, set(), 0
    for operation, operands in instructions:
        registers = [int(number) for number in re.findall(r"\bR(\d+)\b", operands)]
        is_load = operation.startswith("LDG") and ".128" in operation
        if pending.intersection(registers):
            pending, count = set(), 0
        if is_load:
            pending.update(range(registers[0], registers[0] + 4))
            count += 1
            most = max(most, count)
    return most


def offences_of(listing):
    """Yields (kernel, text)."""
    for name, instructions in kernels_of(listing):
        if any(re.match(r"(LDL|STL)\b", operation) for operation, _ in instructions):
            yield name, "has values in local memory"
        least = next((loads for pattern, loads in LEAST_LOADS if re.search(pattern, name)), 0)
        found = most_loads_at_once(instructions) if least else 0
        if found < least:
            yield name, f"has {found} loads of 16 bytes under way at once, expected {least}"


def main():
    nvcc, nvdisasm = find_program("nvcc"), find_program("nvdisasm")
    if not nvcc or not nvdisasm:
        print(f"skipped: {'nvdisasm' if nvcc else 'nvcc'} is not found")
        return 77
    root = sys.argv[1]
    launchers = sorted(name for name in os.listdir(f"{root}/kernels/cuda") if name.endswith("_launcher.cu"))
    wrong, names = 0, set()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(max_workers=2) as workers:
        listings = {(launcher, architecture): workers.submit(disassemble, nvcc, nvdisasm, root, launcher, architecture, folder)
                    for launcher in launchers for architecture in ARCHITECTURES}
        for (launcher, architecture), listing in listings.items():
            names.update(name for name, _ in kernels_of(listing.result()))
            for kernel, text in offences_of(listing.result()):
                print(f"{launcher}, {architecture}: {kernel} {text}")
                wrong += 1
    for pattern, _ in LEAST_LOADS:
        if not any(re.search(pattern, name) for name in names):
            print(f"no kernel is named {pattern}")
            wrong += 1
    print(f"{len(launchers)} launchers, {wrong} offences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
