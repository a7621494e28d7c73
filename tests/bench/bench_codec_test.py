"""Runs bench_codec with small inputs: each suite gives rows, sizes stay near their limits, the page can be written of them.

    bench_codec_test.py BENCH_CODEC CODEC_PAGE
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BENCH, PAGE = sys.argv[1], sys.argv[2]
# Bits of (suite, input, coder) against the entropy given what the receiver holds; headers weigh more here than at full size.
MOST_OVER_LIMIT = {
    ("density", "iid 1 %", "sparcl"): 1.03,
    ("density", "iid 5 %", "sparcl"): 1.03,
    ("density", "iid 50 %", "sparcl"): 1.02,
    ("density", "masters 1 % bfloat16", "sparcl classes"): 1.09,
    ("density", "masters 5 % bfloat16", "sparcl classes"): 1.08,
    ("clusters", "5 % in runs of 512, 0.3 inside", "sparcl"): 1.06,
}


def run(suite, elements, *more):
    words = [BENCH, "--suite", suite, "--elements", str(elements), "--rounds", "1", "--kernels", "best", "--json", *more]
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


class BenchCodec(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lines = {
            "density": run("density", 1_500_000, "--density", "0.001", "0.01", "0.05", "0.5"),
            "clusters": run("clusters", 1_000_000),
        }
        for suite in ("speed", "masters", "blocks", "trace", "types", "peers", "outer"):
            cls.lines[suite] = run(suite, 30_000)

    def rows(self, suite):
        return [line for line in self.lines[suite] if "coder" in line]

    def test_every_suite_has_rows(self):
        for suite, lines in self.lines.items():
            self.assertEqual(lines[0]["about"], "bench_codec")
            if suite == "trace":  # no folder was given
                self.assertTrue(any("skipped" in line.get("note", "") for line in lines))
            else:
                self.assertGreater(len(self.rows(suite)), 4, suite)

    def test_sizes_are_near_their_limits(self):
        for (suite, name, coder), most in MOST_OVER_LIMIT.items():
            found = [r for r in self.rows(suite) if r["input"] == name and r["coder"] == coder]
            self.assertEqual(len(found), 1, name)
            self.assertGreaterEqual(found[0]["over_limit"], 0.99, name)
            self.assertLessEqual(found[0]["over_limit"], most, name)

    def test_ends_of_the_scale(self):
        for row in self.rows("density"):
            if row["kind"] == "random":
                self.assertLessEqual(row["bytes"], 1.001 * row["elements"] * 2 if row["changed"] else 199, row["coder"])

    def test_nobody_else_is_smaller_from_a_thousandth_on(self):
        rows = [r for r in self.rows("density") if r["density"] > 5e-4 and r["changed"] > 1000]
        for name in {r["input"] for r in rows}:
            sizes = {r["coder"]: r["bytes"] for r in rows if r["input"] == name}
            others = [size for coder, size in sizes.items() if not coder.startswith("sparcl")]
            if others:
                self.assertLess(sizes["sparcl"], min(others), name)

    def test_the_page_can_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                for lines in self.lines.values():
                    file.writelines(json.dumps(line) + "\n" for line in lines)
            page = subprocess.run([sys.executable, "-B", PAGE, path], check=True, capture_output=True, text=True).stdout
        self.assertIn("## What it must show", page)
        self.assertGreater(page.count("\n|"), 200)
        self.assertIn("| nothing changes: bytes |", page)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
