#!/usr/bin/env python3
"""docs/results/all-reduce-<date>.md from what sparcl-perf --json said: all_reduce_page.py COMMIT FILE..."""
import collections
import datetime
import json
import os
import sys

MI = 1 << 20
# Times MPI_Allreduce as it comes, and its best form: float32, (elements, ranks, density). Prototypes with a shared-memory window inside the
# node; point-to-point alone is to have 65, 80 and 85 % of them at 0.1, 1 and 10 %.
GOALS = {
    (4 * MI, 2, 0.001): (250, 90), (4 * MI, 2, 0.01): (40, 14), (4 * MI, 2, 0.1): (6.5, 2.6),
    (4 * MI, 4, 0.001): (90, 55), (4 * MI, 4, 0.01): (28, 17), (4 * MI, 4, 0.1): (2.2, 2.0),
    (4 * MI, 8, 0.001): (45, 40), (4 * MI, 8, 0.01): (22, 14), (4 * MI, 8, 0.1): (1.9, 1.8),
    (64 * MI, 2, 0.001): (300, 100), (64 * MI, 2, 0.01): (38, 12), (64 * MI, 2, 0.1): (6.5, 2.0),
    (64 * MI, 4, 0.001): (170, 65), (64 * MI, 4, 0.01): (38, 12), (64 * MI, 4, 0.1): (5.0, 1.8),
}


def processor():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "?"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def milliseconds(microseconds):
    return f"{microseconds / 1e3:.3g}"


def goals(rows):
    cells = []
    for row in rows:
        goal = GOALS.get((row["count"], row["ranks"], row["density"])) if row["op"] == "allreduce_sparse" else None
        name = row["op"].removeprefix("allreduce_") + (", mask drawn in the call" if row.get("redraw") else "")
        if row["op"] == "allreduce_sparse":
            name += f", {row['determinism']}"
        cells.append([name, f"{row['count'] / MI:g} Mi", row["ranks"], f"{100 * row['density']:g} %", row["algorithm"],
                      milliseconds(row["time_us_median"]), milliseconds(row["dense_time_us_median"]),
                      milliseconds(row["dense_best_time_us_median"]), f"**{row['speedup']:.1f} ({row['speedup_best']:.1f})**",
                      f"{goal[0]} ({goal[1]})" if goal else "-", row["wrong"]])
    return table(["call", "elements", "ranks", "density", "algorithm", "ms", "D1 ms", "D2 ms", "times D1 (D2)", "prototype's", "wrong"], cells)


def choice(rows):
    by_case = collections.defaultdict(dict)
    for row in rows:
        by_case[row["ranks"], row["density"], row["overlap"]][row["algo"]] = row
    cells, within, well_chosen = [], 0, 0
    for case, by_name in by_case.items():
        if len(by_name) < 4:
            continue
        best = min((name for name in by_name if name != "auto"), key=lambda name: by_name[name]["time_us_median"])
        ratio = by_name["auto"]["time_us_median"] / by_name[best]["time_us_median"]
        within += ratio <= 1.1
        taken = by_name.get(by_name["auto"]["algorithm"], by_name["auto"])
        well_chosen += taken["time_us_median"] <= 1.1 * by_name[best]["time_us_median"]
        cells.append([case[0], f"{case[1]:g}", f"{case[2]:g}", by_name["auto"]["algorithm"], best, f"{ratio:.2f}"]
                     + [f"{by_name[name]['time_us_median']:.0f}" for name in ("auto", "gather", "doubling", "split")])
    head = ["ranks", "density", "overlap", "auto took", "fastest", "auto / fastest", "auto us", "gather", "doubling", "split"]
    return (f"Within 10 % of the fastest: {within} of {len(cells)} cases; {well_chosen} if what was chosen counts as where it was forced "
            "(in each case they are timed in turn in one run, seven calls of each in a row).\n\n" + table(head, cells))


def without_others(row):
    """The exchange without what it waits for while others convert on the same core."""
    crowding = max(1, row["ranks"] / os.cpu_count())
    converting = row["time_us_median"] - row["exchange_time_us_median"]
    return max(0, row["exchange_time_us_median"] - (crowding - 1) * converting)


def dense(rows):
    cells = [[row["ranks"], f"{row['bytes_dense'] >> 10} KiB", f"{row['density']:g}", milliseconds(row["time_us_median"]),
              milliseconds(row["exchange_time_us_median"]), milliseconds(row["dense_time_us_median"]),
              f"{row['exchange_time_us_median'] / row['dense_time_us_median']:.2f}",
              f"{row['exchange_time_us_median'] / row['dense_best_time_us_median']:.2f}",
              f"{without_others(row) / row['dense_time_us_median']:.2f}"] for row in rows]
    return table(["ranks", "bytes if dense", "density", "call ms", "exchange ms", "D1 ms", "exchange of D1", "of D2",
                  "of D1 without others' converting"], cells)


def main():
    rows = collections.defaultdict(list)
    for path in sys.argv[2:]:
        with open(path) as file:
            for line in file:
                row = json.loads(line)
                rows[row["part"]].append(row)
    date = datetime.datetime.now(datetime.timezone.utc).date()
    print(f"# All-reduces, {date}\n")
    print(f"`bench/all_reduce/run` at {sys.argv[1]}, {processor()}, {os.cpu_count()} cores. float32, uniform sorted supports, medians of "
          "calls, 7 of one kind in a row (ours and MPI's in turn), all ranks' results checked. D1: MPI_Allreduce as it comes; D2: its best form here, also "
          "in pieces of 1 MiB. Times are of the last rank; cores are shared with others' work, so only ratios inside a row say much.\n")
    if rows["small"] or rows["large"]:
        print("## Sparse, top-k and masked\n")
        print(goals(rows["small"] + rows["large"]) + "\n")
    if rows["dense"]:
        print("## The exchange against the dense call\n")
        print("Exchange: the call without converting what the caller holds (indices in, indices and values out); where ranks share cores it "
              "still waits for the others' converting; the last column takes that out (ranks a core - 1 times the own converting).\n")
        print(dense(rows["dense"]) + "\n")
    if rows["choice"]:
        print("## The automatic choice, 1 Mi elements\n")
        print(choice(rows["choice"]))


main()
