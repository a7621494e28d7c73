#!/usr/bin/env python3
"""Writes one change in the layouts of other programs, as they are described, without any code of ours: make_exchange_files.py FOLDER

base.safetensors, target.safetensors; coo.safetensors, coo.safetensors.zst; indices/, deltas/, deltas_zstd/ with one file a data type.
"""

import json
import os
import random
import struct
import sys

TORCH = {"BF16": "bfloat16", "F32": "float32", "F8_E4M3": "float8_e4m3fn"}
WIDTH = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "I32": 4, "I64": 8, "U8": 1}


def safetensors(tensors, metadata=None):
    """tensors: name -> (dtype, shape, bytes), in the order of the file."""
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


def zstd(data):
    """A frame of raw blocks (RFC 8878): no content size, no checksum, a window of 1 MiB."""
    out = struct.pack("<I", 0xFD2FB528) + bytes([0x00, 10 << 3])
    for at in range(0, len(data), 1 << 16):
        block = data[at : at + (1 << 16)]
        last = at + len(block) == len(data)
        out += struct.pack("<I", (len(block) << 3) | last)[:3] + block
    return out


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def changes(base, target):
    """name -> (dtype, shape, indices, values)"""
    out = {}
    for name, (dtype, shape, old) in base.items():
        new, w = target[name][2], WIDTH[dtype]
        indices = [i for i in range(len(old) // w) if old[i * w : i * w + w] != new[i * w : i * w + w]]
        if indices:
            out[name] = (dtype, shape, indices, b"".join(new[i * w : i * w + w] for i in indices))
    return out


def coo(changed):
    tensors = {}
    for name, (dtype, _, indices, values) in changed.items():
        index_type, code = ("I64", "q") if name == "wide" else ("I32", "i")
        tensors[name + ".values"] = (dtype, [len(indices)], values)
        tensors[name + ".indices"] = (index_type, [len(indices)], struct.pack(f"<{len(indices)}{code}", *indices))
    return safetensors(tensors)


def packed(changed, dtype, encoding):
    positions, values, params, count = b"", b"", [], 0
    for name, (kind, shape, indices, data) in changed.items():
        if kind != dtype:
            continue
        if encoding == "indices":
            width, blob = 4, struct.pack(f"<{len(indices)}i", *indices)
        else:
            gaps = [b - a - 1 for a, b in zip([-1] + indices, indices)]
            width = 2 if max(gaps) < 65536 else 4
            blob = struct.pack(f"<{len(gaps)}{'H' if width == 2 else 'I'}", *gaps)
        params.append(
            {"name": name, "dtype": TORCH[dtype], "shape": shape, "pos_start": len(positions), "pos_end": len(positions) + len(blob),
             "pos_width": width, "val_start": count, "val_end": count + len(indices)}
        )  # fmt: skip
        positions, values, count = positions + blob, values + data, count + len(indices)
    tensors = {"__positions__": ("U8", [len(positions)], positions), "__values__": (dtype, [count], values)}
    metadata = {"encoding": encoding, "params": json.dumps(params), "prev_version": "default", "current_version": "12"}
    return safetensors(tensors, metadata)


def main(folder):
    rng = random.Random(11)
    base = {}
    for name, dtype, shape in [("a.weight", "BF16", [300, 250]), ("wide", "BF16", [200000]), ("norm", "F32", [64]),
                               ("still", "F32", [10]), ("scale", "F8_E4M3", [5, 7, 3])]:  # fmt: skip
        count = 1
        for dimension in shape:
            count *= dimension
        base[name] = (dtype, shape, rng.randbytes(count * WIDTH[dtype]))
    target = {}
    for name, (dtype, shape, data) in base.items():
        new, w = bytearray(data), WIDTH[dtype]
        count = len(data) // w
        hits = [] if name == "still" else [0, count - 1] if name == "wide" else sorted(rng.sample(range(count), max(2, count // 50)))
        for i in hits:
            new[i * w] ^= rng.randrange(1, 256)
        target[name] = (dtype, shape, bytes(new))
    write(f"{folder}/base.safetensors", safetensors(base))
    write(f"{folder}/target.safetensors", safetensors(target))
    changed = changes(base, target)
    write(f"{folder}/coo.safetensors", coo(changed))
    write(f"{folder}/coo.safetensors.zst", zstd(coo(changed)))
    for encoding in ["indices", "deltas", "deltas_zstd"]:
        for i, dtype in enumerate(["BF16", "F32", "F8_E4M3"]):
            data = packed(changed, dtype, encoding)
            write(f"{folder}/{encoding}/rank0000_flush{i:06}.safetensors", zstd(data) if encoding == "deltas_zstd" else data)
        write(f"{folder}/{encoding}/DONE", b"")


if __name__ == "__main__":
    main(sys.argv[1])
