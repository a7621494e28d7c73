#!/usr/bin/env python3
"""Keeps a .safetensors file at the newest version of a gateway (sparcl gateway).

It needs grpcio, grpcio-tools and numpy, and nothing of sparcl but sparcl_gateway.proto. The file changes as a whole. Its metadata says which
version it holds, so that a new start needs the changes alone.
"""

import argparse
import hashlib
import json
import os
import queue
import struct
import sys
import time
from pathlib import Path

import grpc
import numpy as np

PROTO = "sparcl_gateway.proto"
CHUNK_OVERHEAD = 1 << 20  # of a message beside its chunk; the list of tensors is a message, too
MODEL_BYTES = 64 << 20
FIRST_PAUSE, LAST_PAUSE = 0.2, 10.0  # seconds between two connections


class Refused(Exception):
    """What the gateway sent cannot be used."""


def load_messages(folder):
    """Compiles the .proto file: its messages, and the stub of its service."""
    sys.path.insert(0, str(folder))
    return grpc.protos_and_services(PROTO)


def proto_folder():
    """The source tree's, or that of an installed sparcl."""
    here = Path(__file__).resolve().parent
    folders = [here.parent.parent / "tools" / "gateway", *(Path(prefix) / "share" / "sparcl" for prefix in ("/usr", "/usr/local", "/opt/sparcl"))]
    return next((folder for folder in folders if (folder / PROTO).is_file()), here)


class Weights:
    """Tensors as rows of bytes, one row an element, and the version that they are."""

    def __init__(self):
        self.tensors = {}  # by index: the gateway's description
        self.rows = {}  # by index; of a file that was read, by name until the description comes
        self.kinds = []
        self.version = None  # (number, hash)

    def describe(self, model):
        """Makes room for the tensors. What is held already must be of the same model."""
        if self.rows and [(t.name, t.dtype, list(t.shape)) for t in model.tensors] != self.kinds:
            raise SystemExit("the file holds another model, or other tensors: remove it, or give another one")
        held = self.rows.values() or [np.zeros(t.elements * t.element_bytes, np.uint8) for t in model.tensors]
        self.tensors = {t.index: t for t in model.tensors}
        self.rows = {t.index: bytes_.reshape(t.elements, t.element_bytes) for t, bytes_ in zip(model.tensors, held)}
        self.kinds = [(t.name, t.dtype, list(t.shape)) for t in model.tensors]

    def apply(self, chunks, version):
        """All chunks of an offer, which were checked."""
        for chunk in chunks:
            rows = self.rows[chunk.tensor]
            values = np.frombuffer(chunk.values, np.uint8).reshape(-1, rows.shape[1])
            if chunk.positions:
                rows[positions_of(chunk, len(rows))] = values
            else:
                rows[chunk.first : chunk.first + len(values)] = values
        self.version = version

    def write(self, path):
        header = {"__metadata__": {"sparcl_version": str(self.version[0]), "sparcl_hash": self.version[1].hex()}}
        end = 0
        for index, tensor in self.tensors.items():
            begin, end = end, end + self.rows[index].nbytes
            header[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [begin, end]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        beside = path.with_name(f".{path.name}.new")
        with open(beside, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for rows in self.rows.values():
                file.write(rows.data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)

    def read(self, path):
        """What an earlier life has written."""
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            metadata = header.pop("__metadata__", {})
            if "sparcl_hash" not in metadata:
                raise SystemExit(f"{path}: no file of this program: give another one")
            self.kinds = [(name, t["dtype"], t["shape"]) for name, t in header.items()]
            for name, tensor in header.items():
                begin, end = tensor["data_offsets"]
                self.rows[name] = np.frombuffer(file.read(end - begin), np.uint8).copy()
        self.version = (int(metadata["sparcl_version"]), bytes.fromhex(metadata["sparcl_hash"]))


def positions_of(chunk, elements):
    return np.frombuffer(chunk.positions, "<u4" if elements <= 1 << 32 else "<u8")


def check(chunk, expected, weights):
    """Before anything is kept: the digest, and that all of it lies inside its tensor."""
    head = struct.pack("<IQQ", chunk.tensor, chunk.first, len(chunk.positions))
    if hashlib.sha256(head + chunk.positions + chunk.values).digest() != chunk.digest:
        raise Refused(f"chunk {chunk.index} is damaged")
    if chunk.index != expected or chunk.tensor not in weights.rows:
        raise Refused(f"chunk {chunk.index} of tensor {chunk.tensor} came, expected is {expected}")
    elements, width = weights.rows[chunk.tensor].shape
    count, rest = divmod(len(chunk.values), width)
    positions = positions_of(chunk, elements)
    inside = (len(positions) == count and positions[-1] < elements) if len(positions) else chunk.first + count <= elements
    if rest or not inside:
        raise Refused(f"chunk {chunk.index} does not fit its tensor")


class Follower:
    """One stream after the other, until the wanted version is there."""

    def __init__(self, options, messages):
        self.options = options
        self.messages = messages
        self.weights = Weights()
        self.offered = None  # what the chunks are of
        self.chunks = []  # they outlive a stream that is cut

    def hello(self):
        hello = self.messages.Hello(name=self.options.name, model_id=self.options.model_id, tensors=self.options.tensors)
        if self.weights.version:
            hello.held.number, hello.held.hash = self.weights.version
        return self.messages.ClientMessage(hello=hello)

    def follow(self, stub):
        """True: the wanted version is there. The stream's end is an error of gRPC."""
        answers = queue.SimpleQueue()
        answers.put(self.hello())
        stream = stub.Follow(iter(answers.get, None))
        done = False
        try:
            for message in stream:
                try:
                    answer = self.take(message)
                except Refused as why:
                    print(f"NACK: {why}", file=sys.stderr)
                    self.chunks = []
                    answer = self.messages.ClientMessage(nack=self.messages.Nack(offer=self.offer, reason=str(why)))
                if answer:
                    answers.put(answer)
                done = bool(self.options.until and self.weights.version and self.weights.version[0] >= self.options.until)
                if done:
                    answers.put(None)  # the gateway then ends the stream
        finally:
            answers.put(None)
            stream.cancel()
        return done

    def take(self, message):
        """The answer to a message, or None."""
        kind = message.WhichOneof("content")
        content = getattr(message, kind)
        if kind == "model":
            self.weights.describe(content)
        if kind == "offer":
            return self.take_offer(content)
        if kind == "chunk":
            check(content, len(self.chunks), self.weights)
            self.chunks.append(content)
        if kind == "commit":
            return self.take_commit(content)
        return None

    def take_offer(self, offer):
        self.offer = offer.number
        offered = (offer.version.SerializeToString(), offer.base.SerializeToString(), offer.chunks, offer.bytes)
        if offered != self.offered:
            self.chunks = []
        self.offered = offered
        self.received_before = len(self.chunks)
        return self.messages.ClientMessage(request=self.messages.Request(offer=offer.number, first_chunk=len(self.chunks)))

    def take_commit(self, commit):
        received = hashlib.sha256(b"".join(chunk.digest for chunk in self.chunks[self.received_before :]))
        if received.digest() != commit.digest:
            raise Refused("chunks are missing")
        self.weights.apply(self.chunks, (commit.version.number, commit.version.hash))
        print(json.dumps({"version": commit.version.number, "hash": commit.version.hash.hex(), "chunks": len(self.chunks)}), flush=True)
        self.chunks = []
        self.weights.write(self.options.out)
        return self.messages.ClientMessage(ack=self.messages.Ack(offer=self.offer))


def channel_of(options):
    limits = [("grpc.max_receive_message_length", max(options.chunk_bytes + CHUNK_OVERHEAD, MODEL_BYTES))]
    if not options.certificates:
        return grpc.insecure_channel(options.gateway, limits)
    files = [(options.certificates / name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt")]
    return grpc.secure_channel(options.gateway, grpc.ssl_channel_credentials(*files), limits)


def run(options):
    messages, services = load_messages(options.proto)
    follower = Follower(options, messages)
    if options.out.exists():
        follower.weights.read(options.out)
    pause = FIRST_PAUSE
    while True:
        before = follower.weights.version, len(follower.chunks)
        with channel_of(options) as channel:
            try:
                if follower.follow(services.WeightGatewayStub(channel)):
                    return
            except grpc.RpcError as error:
                print(f"the stream has ended: {error.code().name}: {error.details()}", file=sys.stderr)
                if error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.FAILED_PRECONDITION):
                    raise SystemExit(1) from error
        pause = FIRST_PAUSE if before != (follower.weights.version, len(follower.chunks)) else min(2 * pause, LAST_PAUSE)
        time.sleep(pause)


def main():
    parser = argparse.ArgumentParser(description="Keeps a .safetensors file at the newest version of a gateway.")
    parser.add_argument("gateway", help="HOST:PORT, as sparcl gateway prints it")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the .safetensors file")
    parser.add_argument("--name", default=f"grpc_client.py, pid {os.getpid()}")
    parser.add_argument("--model-id", default="")
    parser.add_argument("--tensors", action="append", default=[], metavar="REGEX", help="only these; always give the same for one file")
    parser.add_argument("--certificates", type=Path, metavar="FOLDER", help="with ca.crt, tls.crt and tls.key")
    parser.add_argument("--until", type=int, default=0, metavar="VERSION", help="end once the file holds it")
    parser.add_argument("--chunk-bytes", type=int, default=1 << 20, help="of the gateway, if it was started with more than 64 MiB")
    parser.add_argument("--proto", type=Path, default=proto_folder(), metavar="FOLDER", help=f"of {PROTO}")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
