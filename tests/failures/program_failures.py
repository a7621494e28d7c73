"""Each command of the program, with failing calls: program_failures.py SHIM SPARCL [CASE...]"""
import functools
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from failing_runs import Case, Runner


def write_model(path, tensors, metadata=None):
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def model(seed, changed):
    """A few small tensors; a seed's models differ in `changed` bytes of 16,000."""
    draw = random.Random(seed)
    tensors = {"a": ("BF16", [80, 50], bytearray(draw.randbytes(8000))), "b": ("F32", [1500], bytearray(draw.randbytes(6000))),
               "c": ("I8", [2000], bytearray(draw.randbytes(2000)))}
    for i in range(changed):
        data = tensors["abc"[i % 3]][2]
        data[(37 * i) % len(data) & ~3] ^= 1
    return tensors


def write_folder(path, tensors, step):
    os.mkdir(path)
    names = list(tensors)
    shards = {"model-00001-of-00002.safetensors": names[:1], "model-00002-of-00002.safetensors": names[1:]}
    for file, held in shards.items():
        write_model(os.path.join(path, file), {name: tensors[name] for name in held}, {"format": "pt"})
    with open(os.path.join(path, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": {name: shard for shard, held in shards.items() for name in held}}, file)
    with open(os.path.join(path, "config.json"), "w") as file:
        json.dump({"step": step, "sizes": [1] * 50}, file)


def write_inputs(folder, sparcl):
    def run(*arguments):
        subprocess.run([sparcl, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=folder)

    for step, changed in enumerate((0, 120, 900)):
        write_model(os.path.join(folder, f"m{step}.safetensors"), model(1, changed), {"step": str(step)})
        write_folder(os.path.join(folder, f"folder{step}"), model(2, changed), step)
    run("diff", "m0.safetensors", "m1.safetensors", "-o", "m01.delta")
    run("diff", "m0.safetensors", "m1.safetensors", "--mode", "flat", "-o", "flat01.delta")
    run("diff", "m1.safetensors", "m2.safetensors", "--mode", "flat", "-o", "flat12.delta")
    run("diff", "folder0", "folder1", "-o", "f01.delta")
    for layout in ("coo_zstd", "deltas"):
        run("convert", "m01.delta", "-o", layout, "--to", layout, "--base", "m0.safetensors")


def cases(sparcl, inputs):
    def path(name):
        return os.path.join(inputs, name)

    def case(name, *arguments, **options):
        return Case(name, [sparcl, *arguments], **options)

    m0, m1, f0, f1 = path("m0.safetensors"), path("m1.safetensors"), path("folder0"), path("folder1")
    copy_model = functools.partial(shutil.copy, m0, "held")
    copy_folder = functools.partial(shutil.copytree, f0, "held")
    return [
        case("info", "info"),
        case("info --json", "info", "--json"),
        case("diff", "diff", m0, m1, "-o", "out", outputs=["out"]),
        case("diff of folders", "diff", f0, f1, "-o", "out", outputs=["out"]),
        case("diff with int8", "diff", m0, m1, "--values", "int8", "--json", "-o", "out", outputs=["out"]),
        case("diff of the largest", "diff", m0, m1, "--largest", "20", "-o", "out", outputs=["out"]),
        case("apply", "apply", m0, path("m01.delta"), "-o", "out", outputs=["out"]),
        case("apply in place", "apply", "held", path("m01.delta"), "-o", "held", fresh=copy_model, outputs=["held"]),
        case("apply to a folder", "apply", f0, path("f01.delta"), "--json", "-o", "out", outputs=["out"]),
        case("apply in a folder", "apply", "held", path("f01.delta"), "-o", "held", fresh=copy_folder, outputs=["held"]),
        case("inspect", "inspect", path("m01.delta")),
        case("inspect --json", "inspect", "--json", path("f01.delta")),
        case("inspect of a folder", "inspect", "--json", f0),
        case("hash", "hash", m0),
        case("hash by sha256", "hash", "--kind", "sha256", f0),
        case("verify", "verify", path("m01.delta")),
        case("verify --json", "verify", "--json", f0),
        case("compose", "compose", path("flat01.delta"), path("flat12.delta"), "-o", "out", outputs=["out"]),
        case("invert", "invert", m0, path("m01.delta"), "-o", "out", outputs=["out"]),
        case("convert to coo_zstd", "convert", path("m01.delta"), "-o", "out", "--to", "coo_zstd", "--base", m0, outputs=["out"]),
        case("convert to deltas", "convert", path("coo_zstd"), "-o", "out", "--to", "deltas", "--json", "--base", m0,
             outputs=["out"]),
        case("convert from deltas", "convert", path("deltas"), "-o", "out", "--to", "sparcl", "--base", m0, outputs=["out"]),
        case("advise", "advise", m0, m1),
        case("advise --json", "advise", "--json", f0, f1),
        case("status", "status"),
        case("status --json", "status", "--json", "--all"),
        case("keygen", "keygen", "-o", "key", outputs=["key", "key.pub"],
             seen=lambda content: content is not None and len(content)),  # it is random
        case("help", "diff", "--help"),
        case("usage", "diff", m0, may_exit=(1, 2), normal=2),
    ]


def main(shim, sparcl, *wanted):
    with tempfile.TemporaryDirectory() as folder:
        inputs, work, records = (os.path.join(folder, name) for name in ("inputs", "work", "records"))
        for each in (inputs, work, records):
            os.mkdir(each)
        write_inputs(inputs, sparcl)
        os.chdir(work)
        runner = Runner(shim, records)
        for case in cases(sparcl, inputs):
            if not wanted or case.name in wanted:
                runner.try_case(case, 5)
        os.chdir("/")
        return runner.report()


sys.exit(main(*sys.argv[1:]))
