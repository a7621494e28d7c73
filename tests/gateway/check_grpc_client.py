#!/usr/bin/env python3
"""Runs examples/grpc_client against `sparcl gateway`: check_grpc_client.py SPARCL ROOT FOLDER

Installs grpcio, grpcio-tools and numpy into FOLDER/venv; 77: that cannot be done. The client is killed and started again while versions come,
in the clear behind a publisher, and over TLS behind another one.
"""

import json
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 60.0  # seconds; then the test fails
VERSIONS = 8
SHAPES = {"a.weight": ("BF16", (2000, 1500)), "a.bias": ("F32", (1500,)), "empty": ("F32", (0, 3)), "step": ("I64", ()), "codes": ("F4", (64, 4))}
BYTES = {"BF16": 2, "F32": 4, "I64": 8, "F4": 0.5}


def install(folder):
    python = folder / "venv" / "bin" / "python"
    if (folder / "venv" / "ready").exists():
        return python
    for step in ([sys.executable, "-m", "venv", folder / "venv"], [python, "-m", "pip", "install", "-q", "grpcio", "grpcio-tools", "numpy"]):
        if subprocess.run(step).returncode != 0:
            print(f"skipped: {step} failed")
            sys.exit(77)
    (folder / "venv" / "ready").write_text("")
    return python


def write_model(path, tensors):
    header, end = {}, 0
    for name, data in tensors.items():
        header[name] = {"dtype": SHAPES[name][0], "shape": list(SHAPES[name][1]), "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    beside = path.with_suffix(".new")
    beside.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(tensors.values()))
    beside.rename(path)


def elements(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


class Background:
    """A program that goes on beside the test, and its lines of JSON."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(each) for each in command], stdout=subprocess.PIPE, text=True)

    def line_with(self, key):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            line = self.process.stdout.readline()
            assert line, f"{self.process.args} has ended: {self.process.wait()}"
            found = json.loads(line)
            if key in found:
                return found
        raise AssertionError(f"no {key} came")

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def make_certificates(folder):
    """ca.crt, tls.crt and tls.key for both sides, by OpenSSL."""
    folder.mkdir()
    openssl = lambda *words: subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)  # noqa: E731
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test authority", "-keyout", folder / "ca.key", "-out", folder / "ca.crt", "-days", "2")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=worker", "-keyout", folder / "tls.key", "-out", folder / "tls.csr")
    (folder / "names").write_text("subjectAltName=URI:sparcl:replicate,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", folder / "tls.csr", "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", folder / "names", "-out", folder / "tls.crt")  # fmt: skip
    (folder / "tls.key").chmod(0o600)
    return folder


def check(sparcl, python, client, folder, certificates):
    """The client's file holds the last version, whenever the client was killed."""
    watched, out = folder / "watched", folder / "out.safetensors"
    watched.mkdir(parents=True)
    rng = random.Random(11)
    tensors = {name: rng.randbytes(int(elements(shape) * BYTES[dtype])) for name, (dtype, shape) in SHAPES.items()}
    write_model(watched / "v1.safetensors", tensors)
    publisher = Background(sparcl, "publish", "--json", "--watch", watched, "--state", folder / "state")
    gateway = Background(sparcl, "gateway", "--json", "--publisher", publisher.line_with("address")["address"], "--chunk-bytes", "65536",
                         *(["--certificates", certificates] if certificates else []))  # fmt: skip
    address = gateway.line_with("address")["address"]
    follow = [str(python), str(client), address, "-o", str(out), "--until", str(VERSIONS), *(["--certificates", str(certificates)] if certificates else [])]
    for version in range(2, VERSIONS + 1):
        run = subprocess.Popen(follow, stdout=subprocess.PIPE, text=True)
        if version % 2 == 0:
            run.stdout.readline()  # it has written a version
        else:
            time.sleep(rng.random())
        run.send_signal(signal.SIGKILL)
        run.wait()
        for name, data in tensors.items():
            changed = bytearray(data)
            for _ in range(len(data) // 200):
                changed[rng.randrange(len(data))] ^= rng.randrange(1, 256)
            tensors[name] = bytes(changed)
        write_model(watched / f"v{version}.safetensors", tensors)
        while publisher.line_with("version")["version"] != version:
            continue
    subprocess.run(follow, check=True, timeout=PATIENCE)
    assert state_hash(sparcl, out) == state_hash(sparcl, watched / f"v{VERSIONS}.safetensors")
    assert gateway.end() == 0
    publisher.end()


def state_hash(sparcl, path):
    return subprocess.run([sparcl, "hash", path], check=True, capture_output=True, text=True).stdout.split()[0]


def main():
    sparcl, root, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    python = install(folder)
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    client = root / "examples" / "grpc_client" / "grpc_client.py"
    check(sparcl, python, client, work / "clear", None)
    check(sparcl, python, client, work / "tls", make_certificates(work / "certificates"))
    print("the client's file held the last version, in the clear and over TLS")


if __name__ == "__main__":
    main()
