#!/usr/bin/env python3
"""Folders of the makers' own packages, both directions: makers_exchange.py PROGRAM FOLDER

Installs the packages into FOLDER/venv, writes versions with them and reads these with PROGRAM, and the reverse. Exit code 77: they cannot be installed.
"""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

# Their dependencies are listed here, because they ask for a newer Python than they need.
PACKAGES = ["cwtrain==1.0.2", "modelexpress==0.7.0", "fireworks-delta-compression==0.1.0"]
NEEDS = ["numpy", "zstandard", "zstd", "safetensors", "packaging", "httpx", "boto3", "pydantic", "grpcio", "protobuf", "huggingface_hub", "torch"]
INDEX = "model.safetensors.index.json"


def install(folder):
    python = folder / "venv" / "bin" / "python"
    ready = folder / "venv" / "ready"
    if ready.exists():
        return python
    steps = [[sys.executable, "-m", "venv", str(folder / "venv")],
             [str(python), "-m", "pip", "install", "-q", *NEEDS],
             [str(python), "-m", "pip", "install", "-q", "--no-deps", "--ignore-requires-python", *PACKAGES]]  # fmt: skip
    for step in steps:
        if subprocess.run(step).returncode != 0:
            print(f"skipped: {' '.join(step)} failed")
            sys.exit(77)
    ready.write_text("")
    return python


def sparcl(program, *arguments):
    run = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, f"{arguments}: {run.stderr}"


def write_models(folder):
    """base/ and new/: two shards, an index, a configuration."""
    from safetensors.numpy import save_file
    import numpy as np

    rng = random.Random(5)
    shapes = {"a.weight": (300, 250), "a.bias": (250,), "b.weight": (64, 40), "still": (9,), "empty": (0, 4), "scalar": ()}
    base = {name: np.frombuffer(rng.randbytes(2 * int(np.prod(shape))), np.uint16).reshape(shape).copy() for name, shape in shapes.items()}
    new = {name: array.copy() for name, array in base.items()}
    for name, array in new.items():
        if name in ("still", "empty"):
            continue
        flat = array.reshape(-1)
        for at in rng.sample(range(flat.size), max(1, flat.size // 40)):
            flat[at] ^= rng.randrange(1, 65536)
    shards = {"model-00001-of-00002.safetensors": list(shapes)[:2], "model-00002-of-00002.safetensors": list(shapes)[2:]}
    for name, state in (("base", base), ("new", new)):
        (folder / name).mkdir()
        for shard, names in shards.items():
            save_file({n: state[n] for n in names}, str(folder / name / shard))
        weight_map = {n: shard for shard, names in shards.items() for n in names}
        (folder / name / INDEX).write_text(json.dumps({"metadata": {"total_size": sum(a.nbytes for a in state.values())}, "weight_map": weight_map}))
        (folder / name / "config.json").write_text('{"hidden_size": 8}')
    return base, new


def tensors_of(folder):
    from safetensors.numpy import load_file

    return {name: array.tobytes() for path in sorted(Path(folder).glob("*.safetensors")) for name, array in load_file(str(path)).items()}


def expect_reads(program, work, change):
    """PROGRAM makes the new state of base/ and the maker's folder."""
    for name in ("read.delta", "read"):
        path = work / name
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    sparcl(program, "convert", change, "-o", work / "read.delta", "--to", "sparcl", "--base", work / "base")
    sparcl(program, "apply", work / "base", work / "read.delta", "-o", work / "read")
    assert tensors_of(work / "read") == tensors_of(work / "new"), change


def check_cwtrain(program, work):
    from cwtrain.hotload.delta import checkpoint_checksums, write_delta, write_full_snapshot
    from cwtrain.hotload.mirror import WeightMirror
    from cwtrain.hotload.snapshot import inspect_snapshot

    for shard_bytes in (1 << 30, 1000):
        write_delta(work / "base", work / "new", work / "theirs" / "weight_v000007", version="000007", base_version="000006", shard_bytes=shard_bytes)
        expect_reads(program, work, work / "theirs" / "weight_v000007")
    write_full_snapshot(work / "new", work / "theirs" / "full")
    expect_reads(program, work, work / "theirs" / "full")

    ours = work / "ours" / "weight_v000007"
    sparcl(program, "convert", work / "delta", "-o", ours, "--to", "hf-xor", "--base", work / "base")
    info = inspect_snapshot(ours)
    assert info.incremental.previous_snapshot_identity == "weight_v000006", info
    mirror = WeightMirror.create(work / "base", work / "mirror", version="000006")
    report = mirror.apply_delta(ours)
    assert report.version == "000007" and tensors_of(work / "mirror") == tensors_of(work / "new")
    theirs = tensors_of(work / "theirs" / "weight_v000007")
    assert sorted(theirs) == sorted(tensors_of(ours)), "the same tensors have changed"

    sparcl(program, "convert", work / "delta", "-o", work / "ours" / "full", "--to", "hf-full", "--base", work / "base")
    assert inspect_snapshot(work / "ours" / "full").type.name == "FULL"
    assert checkpoint_checksums(work / "ours" / "full") == checkpoint_checksums(work / "new")


def check_modelexpress(program, work, base, new):
    import numpy as np
    from modelexpress_rl.inference.receiver import _LocalCheckpoint
    from modelexpress_rl.utils import checksum_factory, compress_delta, compute_delta, index_checkpoint_tensors
    from safetensors.numpy import save_file

    encoded, checksums = {}, {}
    for name, array in new.items():
        current = np.frombuffer(array.tobytes(), np.uint8)
        delta, _ = compute_delta(current, np.frombuffer(base[name].tobytes(), np.uint8))
        if delta is None:
            continue
        encoded[name] = compress_delta(delta)
        checksum = checksum_factory("adler32")
        checksum.update(current)
        checksums[name] = checksum.hexdigest()
    folder = work / "theirs" / "express"
    folder.mkdir()
    save_file(encoded, str(folder / "model-00001-of-00001.safetensors"), metadata=checksums)
    index = {"metadata": {"version": "u-2", "base_version": "u-1", "delta_encoding": "xor", "compression_format": "zstd", "checksum_format": "adler32"},
             "weight_map": dict.fromkeys(encoded, "model-00001-of-00001.safetensors")}  # fmt: skip
    (folder / INDEX).write_text(json.dumps(index))
    expect_reads(program, work, folder)

    ours = work / "ours" / "weight_v000007"
    shutil.copytree(work / "base", work / "express")
    _, locations, _ = index_checkpoint_tensors(work / "express")
    index = json.loads((ours / INDEX).read_text())
    by_shard = {}
    for name, shard in index["weight_map"].items():
        by_shard.setdefault(shard, []).append(name)
    shards = {shard: ((ours / shard).read_bytes(), names) for shard, names in by_shard.items()}
    _LocalCheckpoint._apply_shards(SimpleNamespace(locations=locations), shards, index_metadata=index["metadata"])
    assert tensors_of(work / "express") == tensors_of(work / "new")


def check_fireworks(program, work):
    from fireworks_delta_compression import decompress_delta_into_source, delta_compress_dirs

    delta_compress_dirs(str(work / "base"), str(work / "new"), str(work / "theirs" / "arc2"), "arc_v2")
    expect_reads(program, work, work / "theirs" / "arc2")
    sparcl(program, "convert", work / "delta", "-o", work / "ours" / "arc2", "--to", "arc2", "--base", work / "base")
    shutil.copytree(work / "base", work / "fireworks")
    for shard in sorted((work / "base").glob("*.safetensors")):
        decompress_delta_into_source(str(work / "ours" / "arc2" / shard.name), str(work / "fireworks" / shard.name), "arc_v2")
    assert tensors_of(work / "fireworks") == tensors_of(work / "new")

    # arc_v3 chooses for each tensor: an envelope is a pickle, which is refused by name.
    delta_compress_dirs(str(work / "base"), str(work / "new"), str(work / "theirs" / "arc3"), "arc_v3")
    if any(data.startswith(b"ARC3_ENVELOPE") for data in tensors_of(work / "theirs" / "arc3").values()):
        run = subprocess.run([program, "convert", str(work / "theirs" / "arc3"), "-o", str(work / "x"), "--to", "sparcl", "--base", str(work / "base")],
                             capture_output=True, text=True)  # fmt: skip
        assert run.returncode != 0 and "pickle" in run.stderr, run
    else:
        expect_reads(program, work, work / "theirs" / "arc3")


def main(program, folder):
    program, folder = str(Path(program).resolve()), Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) == 3:
        python = install(folder)
        sys.exit(subprocess.run([str(python), __file__, program, str(folder), "inside"]).returncode)
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    for name in ("theirs", "ours"):
        (work / name).mkdir(parents=True)
    base, new = write_models(work)
    sparcl(program, "diff", work / "base", work / "new", "-o", work / "delta")
    check_cwtrain(program, work)
    check_modelexpress(program, work, base, new)
    check_fireworks(program, work)
    print("all packages read ours, and the reverse")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
