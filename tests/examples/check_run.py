#!/usr/bin/env python3
"""Runs replicate_training briefly and checks what it leaves: check_run.py WORK RANKS COMMAND...

The command is run twice, with --json, --checkpoint-dir and --grads-dir added; the second run must repeat the first. Where the environment's
SPARCL names the sparcl program, it must read the checkpoints and find the same hash in the last one.
"""

import json
import os
import shutil
import struct
import subprocess
import sys

STEPS, FINETUNE = 4, 3
ELEMENT_BYTES = {"BF16": 2, "F32": 4}


def check(condition, text):
    if not condition:
        sys.exit(f"check_run: {text}")


def run(command, folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    command = [*command, "--steps", str(STEPS), "--finetune-steps", str(FINETUNE), "--model-size", "tiny", "--batch", "2",
               "--finetune-learning-rate", "1e-6", "--json", f"{folder}/run.json", "--checkpoint-dir", f"{folder}/weights",
               "--grads-dir", f"{folder}/grads", "--grads-ranks", "2"]  # fmt: skip
    print("$", *command, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    print(done.stdout, done.stderr, sep="\n", flush=True)
    check(done.returncode == 0, f"exit code {done.returncode}")
    check("\r" not in done.stdout and "\033" not in done.stdout, "progress was written although this is no terminal")
    with open(f"{folder}/run.json", encoding="utf-8") as file:
        return json.load(file), done.stdout


def tensors(path):
    """name -> bytes, by the rules of the format."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    found, at = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        size = ELEMENT_BYTES[entry["dtype"]]
        for dimension in entry["shape"]:
            size *= dimension
        check(begin == at and end == begin + size, f"{path}: wrong offsets of {name}")
        found[name] = data[8 + length + begin : 8 + length + end]
        at = end
    check(len(data) == 8 + length + at, f"{path}: wrong length")
    return found


def changed_elements(before, after):
    return sum(
        before[name][i : i + 2] != after[name][i : i + 2] for name in before for i in range(0, len(before[name]), 2)
    )


def check_figures(result, ranks):
    check(result["equal"] is True, "the replicas differ")
    check(len(result["replicas"]) == ranks == result["ranks"], "not one line a rank")
    check(len({rank["hash"] for rank in result["replicas"]}) == 1, "the hashes differ")
    check(len(result["replicas"][0]["hash"]) == 32, "the hash is not of 16 bytes")
    steps = result["steps"]
    check([step["step"] for step in steps] == list(range(STEPS + FINETUNE + 1)), "steps are missing")
    check(steps[0]["changed_share"] == 1, "the first update did not send everything")
    for phase, count in (("pretrain", STEPS), ("finetune", FINETUNE)):
        totals = result["phases"][phase]
        rows = [step for step in steps if step["phase"] == phase]
        check(len(rows) == totals["steps"] == count, f"{phase}: {len(rows)} rows")
        for key in ("changed", "bytes", "bytes_dense"):
            check(sum(row[key] for row in rows) == totals[key], f"{phase}: the total of {key} is wrong")
    fine = result["phases"]["finetune"]
    check(0 < fine["changed_share"] < 0.1, f"fine-tuning changed {100 * fine['changed_share']} %")
    check(fine["factor"] > 5, f"fine-tuning saved only a factor of {fine['factor']}")
    received = fine["bytes"] + result["phases"]["pretrain"]["bytes"]
    check(all(rank["bytes_received"] >= received for rank in result["replicas"][1:]), "replicas received less than the updates hold")


def check_files(result, folder):
    states = [tensors(f"{folder}/weights/weights_{step:02}.safetensors") for step in range(FINETUNE + 1)]
    fine = [step for step in result["steps"] if step["phase"] == "finetune"]
    for step, (before, after) in enumerate(zip(states, states[1:])):
        check(changed_elements(before, after) == fine[step]["changed"], f"the files of step {step + 1} differ otherwise than reported")
    grads = [tensors(f"{folder}/grads/rank_{rank}.safetensors") for rank in range(2)]
    check(grads[0].keys() == states[0].keys() and grads[0] != grads[1], "the gradients are not those of two ranks")


def check_by_program(result, folder):
    program = os.environ.get("SPARCL")
    if not program:
        print("SPARCL is not set: the checkpoints were not read by the sparcl program")
        return
    before, after = (f"{folder}/weights/weights_{step:02}.safetensors" for step in (FINETUNE - 1, FINETUNE))
    delta, rebuilt = f"{folder}/delta", f"{folder}/rebuilt.safetensors"
    made = subprocess.run([program, "diff", before, after, "-o", delta, "--json"], capture_output=True, text=True, timeout=60, check=True)
    subprocess.run([program, "apply", before, delta, "-o", rebuilt], capture_output=True, timeout=60, check=True)
    check(tensors(rebuilt) == tensors(after), "diff and apply do not give the checkpoint back")
    figures = json.loads(made.stdout)
    check(figures["changed"] == result["steps"][-1]["changed"], "the program counts other changes")
    # The program prints the hash as one number, the C interface gives its bytes, lowest first.
    held = bytes.fromhex(result["replicas"][-1]["hash"])
    check(bytes.fromhex(figures["target_hash"]) in (held, held[::-1]), "the checkpoint's hash is not that which the ranks hold")


def without_times(result):
    return json.loads(json.dumps(result), object_hook=lambda entry: {k: v for k, v in entry.items() if not k.endswith("_seconds")})


def main():
    work, ranks, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    result, output = run(command, f"{work}/first")
    check_figures(result, ranks)
    check_files(result, f"{work}/first")
    check_by_program(result, f"{work}/first")
    check(result["replicas"][0]["hash"] in output and result["sample"] in output, "the table does not show what the JSON says")
    again, _ = run(command, f"{work}/second")
    check(without_times(again) == without_times(result), "the second run with the same seed went otherwise")
    print("ok")


if __name__ == "__main__":
    main()
