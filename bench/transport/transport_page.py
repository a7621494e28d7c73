#!/usr/bin/env python3
"""Writes the results page of the transports: transport_page.py COMMIT shm.jsonl tcp.jsonl > transport-<date>.md"""
import datetime
import json
import os
import platform
import statistics
import sys

LANES = {"shm": "Shared memory (UCX_TLS=all, btl self,vader)", "tcp": "TCP over loopback (UCX_TLS=tcp, btl self,tcp)"}
BARE_UCX = "ucp_tag_send_nbx"
OURS = ("sparcl ucx", "sparcl mpi")


def model_name():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def read(path):
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.startswith("{")]
    return [r for r in rows if r["link"] != "ucx_perftest"], [r for r in rows if r["link"] == "ucx_perftest"]


def perftest(rows, what, size, key):
    found = [r[key] for r in rows if r["what"] == what and r["bytes"] == size]
    return statistics.median(found) if found else None


def goals(lane, rows, tests):
    at = {(r["what"], r["bytes"], r["link"]): r for r in rows}
    own, bare = at["ping-pong", 8, "sparcl ucx"]["time_us_median"], at["ping-pong", 8, BARE_UCX]["time_us_median"]
    yield f"{lane}: 8 bytes one way, of bare UCX's time in the same run", "<= 2", own / bare, own / bare <= 2
    theirs = perftest(tests, "tag_lat", 8, "time_us_median")
    if theirs:
        yield f"{lane}: the same, of ucx_perftest's", "<= 2", own / theirs, own / theirs <= 2
    for link in OURS:
        large = [r["of_best_peer"] for r in rows if r["link"] == link and r["what"] == "stream" and r["bytes"] >= 1 << 20]
        yield f"{lane}: bandwidth of {link} from 1 MiB, of the better peer, least", ">= 0.85", min(large), min(large) >= 0.85


def main():
    commit, *paths = sys.argv[1:]
    lanes = {os.path.basename(path).split(".")[0]: read(path) for path in paths}
    print(f"# Transports, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}\n")
    print(f"Written by `bench/transport/run`: two ranks, {os.cpu_count()} cores, {model_name()}, commit {commit}. Medians; ratios are medians of")
    print("ratios within one round. ping-pong: half a round trip; stream: 8 messages one way, then an answer. Peers: `MPI_Isend` of the")
    print(f"MPI that started the ranks, and UCX as it comes (`{BARE_UCX}`, what ucx_perftest measures); ucx_perftest itself ran right before")
    print("and after.\n\n## What it must show\n\n| goal | asked | measured | |\n|---|---|---|---|")
    for lane, (rows, tests) in lanes.items():
        for text, asked, value, met in goals(lane, rows, tests):
            print(f"| {text} | {asked} | {value:.2f} | {'met' if met else '**missed**'} |")
    for lane, (rows, tests) in lanes.items():
        print(f"\n## {LANES[lane]}")
        for what, key, unit, digits in (("ping-pong", "time_us_median", "microseconds", 2), ("stream", "gbyte_s", "GB/s", 3)):
            own = [r for r in rows if r["what"] == what]
            links = list(dict.fromkeys(r["link"] for r in own))
            print(f"\n{what}, {unit} (of the better peer)\n\n| bytes | {' | '.join(links)} |\n|---|{'---|' * len(links)}")
            for size in dict.fromkeys(r["bytes"] for r in own):
                cells = {r["link"]: f"{r[key]:.{digits}f} ({r['of_best_peer']:.2f})" for r in own if r["bytes"] == size}
                print(f"| {size} | {' | '.join(cells.get(link, '-') for link in links)} |")
        for what, size, key, unit in (("tag_lat", 8, "time_us_median", "us"), ("tag_bw", 1 << 20, "gbyte_s", "GB/s"), ("tag_bw", 8 << 20, "gbyte_s", "GB/s")):
            value = perftest(tests, what, size, key)
            if value is not None:
                print(f"\nucx_perftest {what}, {size} bytes: {value:.3f} {unit}")


if __name__ == "__main__":
    main()
