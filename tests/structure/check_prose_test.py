#!/usr/bin/env python3
"""scripts/check-prose counts as a reader would, and catches what it should: each test gives it one small text."""

import importlib.machinery
import importlib.util
import os
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/check-prose")
loader = importlib.machinery.SourceFileLoader("check_prose", SCRIPT)
prose = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_prose", loader))
loader.exec_module(prose)


def words(count, last="end."):
    return " ".join(["word"] * (count - 1) + [last])


class CheckProse(unittest.TestCase):
    def lengths(self, text, path="page.md", strings=False):
        return [count for count, _, _ in prose.check_file(path, text.splitlines(), 35, strings)[0]]

    def found(self, text, path="page.md", strings=False):
        return [(line, what) for line, what, _, _ in prose.check_file(path, text.splitlines(), 35, strings)[1]]

    def test_joins_lines_of_a_paragraph_and_splits_it_into_sentences(self):
        self.assertEqual(self.lengths("One two\nthree. Four five? Six.\n\nSeven eight.\n"), [3, 2, 1, 2])

    def test_counts_code_and_links_as_they_are_read(self):
        self.assertEqual(self.lengths("Call `sparcl diff A B` now. See [the page](a/long/path.md#there).\n"), [3, 3])
        self.assertEqual(self.lengths("It takes 1.5 s, e.g. on two cores.\n"), [8])

    def test_passes_over_code_headings_quotes_and_comments(self):
        self.assertEqual(self.lengths("# Of what\n\n```c\nOf what.\n```\n> Of what.\n\n<!-- Of\nwhat. -->\nOne.\n"), [1])
        self.assertEqual(self.lengths("````\n```\nOne.\n````\nTwo.\n"), [1])
        self.assertEqual(self.lengths("One.\n\n    Of what.\n\nTwo.\n\n- three\n\n    four\n"), [1, 1, 1, 1])

    def test_takes_each_list_item_as_a_text(self):
        self.assertEqual(self.lengths("Intro:\n- one two\n  three\n- four\n1. five\n"), [1, 3, 1, 1])

    def test_finds_long_sentences_at_their_line(self):
        self.assertEqual(self.found("Short one.\n" + words(36) + "\n"), [(2, "sentence of 36 words (at most 35)")])
        self.assertEqual(self.found(words(35) + "\n"), [])

    def test_finds_full_table_cells(self):
        table = "| head | " + words(40) + " |\n|---|---|\n| a | {} |\n"
        self.assertEqual(self.found(table.format(words(26))), [(3, "table cell of 26 words (at most 25)")])
        self.assertEqual(self.found(table.format(words(25))), [])
        self.assertEqual(self.found(table.format("`a | b` and \\| " + words(22))), [], "bars in code are no borders")

    def test_finds_banned_beginnings_in_statements_only(self):
        for begin in ("Of", "Who", "What", "Whom", "Whose"):
            self.assertEqual(self.found(f"{begin} ranks die is known.\n"), [(1, f"begins with {begin}")], begin)
            self.assertEqual(self.found(f"{begin} ranks die?\n"), [], begin)
        self.assertEqual(self.found("Offers come. Whatever happens, it works.\n"), [])

    def test_finds_banned_words(self):
        for text, name in [("It goes by way of the host.", "way of"), ("At nobody's expense.", "nobody"), ("It stops for want of memory.", "want of"),
                           ("A rank who waits is named.", "who"), ("Take that one.", "that one"), ("It is fast as ever.", "as ever"),
                           ("It works so far.", "so far"), ("A stranger connects.", "stranger")]:  # fmt: skip
            self.assertEqual(self.found(text), [(1, f'"{name}"')], text)
        self.assertEqual(self.found("# By way of the host\n"), [], "headings are exempt")

    def test_finds_names_also_in_code(self):
        self.assertEqual(self.found("```c\nint most_bytes = kLeastBytes;\n```\n"), [(2, "name"), (2, "name")])
        self.assertEqual(self.found("`almost_there` and `at_least`.\n"), [])

    def test_takes_consecutive_comment_lines_as_one_text(self):
        code = "// One two\n// three. Four.\nint x;  // five\n/* six\n * seven\n */\n"
        self.assertEqual(self.lengths(code, "a.hpp"), [3, 1, 1, 2])

    def test_begins_a_text_at_each_doxygen_tag(self):
        code = "/** Sums the array.\n * @param count elements of the array\n * @return the sum\n */\n"
        self.assertEqual(self.lengths(code, "a.h"), [3, 4, 2])
        self.assertEqual(self.lengths("/** Before.\n * @code\n * int of_what;\n * @endcode\n * After it.\n */\n", "a.h"), [1, 2])

    def test_finds_what_is_wrong_in_comments(self):
        self.assertEqual(self.found("// Of what is held.\n", "a.h"), [(1, "begins with Of")])

    def test_reads_string_literals_on_request(self):
        code = 'fail("rank {} of {} is "\n     "by way of the host");\n#include "a b c d.h"\nf("x");\n'
        self.assertEqual(self.found(code, "a.cpp"), [])
        self.assertEqual(self.found(code, "a.cpp", strings=True), [(1, '"way of"')])
        self.assertEqual(self.lengths('g("http://x");  // one two\n', "a.cpp"), [2], "a string holds no comment")

    def test_measures_the_ninetieth_percentile_of_a_group(self):
        with tempfile.TemporaryDirectory() as root:
            with open(os.path.join(root, "README.md"), "w", encoding="utf-8") as file:
                file.write("\n\n".join([words(5)] * 8 + [words(23)] * 2) + "\n")
            docs = prose.measure(root)["docs"]
            self.assertEqual((docs["p90"], docs["max"]), (23, 23))
            self.assertEqual([what for _, _, what, _, _ in docs["findings"]], ["ninetieth percentile of 23 words (at most 22)"])

    def test_leaves_records_alone(self):
        for path in ("docs/results/long-2026-11-20.md", "docs/decisions/0007-linear-state-hash.md"):
            self.assertTrue(prose.EXEMPT.fullmatch(path), path)
        for path in ("docs/results/README.md", "docs/decisions/0029-a-new-record.md", "docs/guides/faults.md"):
            self.assertFalse(prose.EXEMPT.fullmatch(path), path)


if __name__ == "__main__":
    unittest.main()
