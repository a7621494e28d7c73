#!/usr/bin/env python3
"""Writes the results page of train_topk from what its --json left:
training_page.py --run RUN.json... [--seeds RUN.json...] [--ranks RUN.json...] --plot PLOT.svg --title T --about TEXT > page.md
--run: the variants may lie in several files, of runs that had all else in common."""
import argparse
import json
import statistics

from plot_training import label, points, read_merged

ROWS = 5  # of each variant, of loss against steps, bytes and time
GOAL = 1.02


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def table(headings, rows):
    print("\n| " + " | ".join(headings) + " |\n" + "|---" * len(headings) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def variants_of(run):
    return {variant["variant"]: variant for variant in run["variants"]}


def title(name, variant):
    return "`MPI_Allreduce`" if name == "mpi" else label(variant)


def over_dense(run, name, loss):
    found = variants_of(run)
    return found[name][loss] / found["dense"][loss]


def print_goals(runs):
    """What the example must show, in each run of the whole training and in their mean."""

    def row(goal, name, loss, is_met):
        ratios = [over_dense(run, name, loss) for run in runs if name in variants_of(run)]
        mean = statistics.mean(ratios)
        each = f" ({', '.join(f'{ratio:.3f}' for ratio in ratios)})" if len(ratios) > 1 else ""
        verdict = "met" if all(map(is_met, ratios)) else "**by the mean only**" if is_met(mean) else "**missed**"
        return (goal, f"{mean:.3f}{each}", verdict)

    held_out, training = "held_out_loss", "loss"
    print("\n## What it must show\n\nLosses over that of dense in the same run; of several runs (seeds) the mean, and in brackets each.")
    table(
        ("goal", "measured", ""),
        [
            row("top-k 1 % with feedback, held-out loss: within 2 %", "topk:0.01", held_out, lambda mean: mean <= GOAL),
            row("the same, of the training batches in the last tenth of the steps", "topk:0.01", training, lambda mean: mean <= GOAL),
            row("top-k 1 % without feedback, held-out loss: visibly worse", "topk:0.01:forget", held_out, lambda mean: mean > GOAL),
        ],
    )


def print_comparison(run):
    print("\n## At the end")
    elements, found = run["elements"], variants_of(run)
    rows = []
    for name, variant in found.items():
        sent = variant["bytes_sent"]
        rows.append(
            (
                title(name, variant),
                f"{variant['held_out_loss']:.4f}",
                f"{over_dense(run, name, 'held_out_loss'):.3f}",
                f"{variant['loss']:.4f}",
                f"{over_dense(run, name, 'loss'):.3f}",
                "not told" if sent is None else f"{sent / 1000:.2f}",
                "-" if sent is None else f"{100 * sent / found['dense']['bytes_sent']:.1f} %",
                f"{100 * variant['elements'] / elements:.2f} %",
                f"{1000 * variant['exchange_seconds']:.1f}",
                f"{1000 * variant['step_seconds']:.1f}",
            )
        )
    table(
        ("variant", "held-out loss", "of dense", "training loss", "of dense", "kB sent a step", "of dense", "elements exchanged", "exchange ms", "step ms"), rows
    )


def print_course(run, plot):
    print("\n## Loss against steps, bytes and time\n\nMB and seconds are those of the busiest rank up to that step, without evaluations.")
    rows = []
    for name, variant in variants_of(run).items():
        of_variant = [row for row in run["steps"] if row["variant"] == name]
        course = points(run, name)
        every = max(1, len(course) // ROWS)
        for step, sent, seconds, loss in course[-1::-every][::-1]:
            past = [row for row in of_variant if row["step"] <= step]
            rows.append(
                (
                    title(name, variant),
                    str(step),
                    f"{loss:.4f}",
                    "not told" if variant["bytes_sent"] is None else f"{sent / 1e6:.2f}",
                    f"{sum(row['exchange_seconds'] for row in past):.1f}",
                    f"{seconds:.1f}",
                )
            )
    table(("variant", "step", "held-out loss", "MB sent", "seconds in exchanges", "seconds in steps"), rows)
    print(f"\n![losses over steps, bytes and time]({plot})")


def print_ranks(runs):
    if not runs:
        return
    print("\n## One process up to eight\n\nShort trainings, after each of which all ranks held the same weights, bit for bit.")
    rows = []
    for run in sorted(runs, key=lambda run: run["ranks"]):
        for name, variant in variants_of(run).items():
            first = next(row["loss"] for row in run["steps"] if row["variant"] == name)
            steps = sum(row["variant"] == name for row in run["steps"])
            rows.append(
                (
                    str(run["ranks"]),
                    title(name, variant),
                    str(steps),
                    f"{first:.3f}",
                    f"{variant['held_out_loss']:.3f}",
                    f"{variant['bytes_sent'] / 1000:.2f}",
                    f"{1000 * variant['step_seconds']:.1f}",
                    "yes" if variant["equal"] else "**no**",
                )
            )
    table(("processes", "variant", "steps", "first loss", "held-out loss", "kB sent a step", "step ms", "weights equal"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="*", default=[])
    parser.add_argument("--ranks", nargs="*", default=[])
    parser.add_argument("--plot", required=True)
    parser.add_argument("--title", required=True)
    parser.add_argument("--about", required=True)
    options = parser.parse_args()
    run = read_merged(options.run)
    print(f"# {options.title}\n\n{options.about}\n\n{run['run']}.")
    print_goals([run, *map(read, options.seeds)])
    print_comparison(run)
    print_course(run, options.plot)
    print_ranks([read(path) for path in options.ranks])


if __name__ == "__main__":
    main()
