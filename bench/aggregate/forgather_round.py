#!/usr/bin/env python3
"""A round of Forgather's DiLoCo server (github.com/jdinalt/forgather, branch dev), as bench_elastic's: W workers are threads of
one process, each sends float32 of all elements, and gets the new weights.

    forgather_round.py SOURCES [--workers W] [--elements N] [--rounds R]

SOURCES: the folder `src` of a checkout. Needs torch (CPU) and safetensors. Prints a line of JSON: medians in seconds, and the
server's largest memory in MiB."""
import argparse
import json
import multiprocessing
import resource
import statistics
import sys
import tempfile
import threading
import time
import types


def use(sources):
    package = types.ModuleType("forgather")  # its own __init__ needs the whole of Forgather
    package.__path__ = [f"{sources}/forgather"]
    sys.modules["forgather"] = package


def serve(options, port, ends):
    use(options.sources)
    import torch
    from forgather.ml.diloco.server import DiLoCoServer

    torch.set_num_threads(1)

    class Server(DiLoCoServer):
        def load_state(self, *_, **__):
            self._initialize({"w": torch.zeros(options.elements)})

    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, options.workers, port=None, save_every_n_rounds=10**9, dashboard_enabled=False)
        server.start()
        port.put(server.port)
        ends.wait()
        port.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sources")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--elements", type=int, default=1 << 24)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    told, ends = context.Queue(), context.Event()
    server = context.Process(target=serve, args=(options, told, ends), daemon=True)
    server.start()
    port = told.get(timeout=120)
    use(options.sources)
    import torch
    from forgather.ml.diloco.client import DiLoCoClient

    torch.set_num_threads(1)
    meeting, seconds, begun = threading.Barrier(options.workers), [], [0.0]

    def work(number):
        client = DiLoCoClient(f"127.0.0.1:{port}", timeout=600)
        client.register(f"worker {number}")
        step = {"w": torch.full((options.elements,), 0.001)}
        for _ in range(options.rounds):
            meeting.wait()
            if number == 0:
                begun[0] = time.monotonic()
            meeting.wait()
            client.submit_pseudogradients(f"worker {number}", step)
            meeting.wait()
            if number == 0:
                seconds.append(time.monotonic() - begun[0])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(options.workers)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    ends.set()
    print(json.dumps({"workers": options.workers, "elements": options.elements, "bytes_up": 4 * options.elements,
                      "round_s": round(statistics.median(seconds), 4), "server_rss_mib": told.get(timeout=60)}))


if __name__ == "__main__":
    main()
