#!/usr/bin/env python3
"""The check of the structure catches what it should: each test makes a small tree with one fault."""

import os
import tempfile
import unittest

from check_structure import check_tree
from rooms import README_FOLDERS, ROOMS



def readme_of(folder):
    for room, (folders, allowed) in ROOMS.items():
        if folder == folders[0] and room not in ("include", "examples"):
            return f"One line.\n\nMay include: {'all' if room == 'api' else ', '.join(allowed) or 'nothing'}\n"
    return "One line.\n"



class Structure(unittest.TestCase):
    def offences(self, files):
        with tempfile.TemporaryDirectory() as root:
            for folder in README_FOLDERS:
                if any(path.startswith(folder + "/") for path in files):
                    files = {folder + "/README.md": readme_of(folder), **files}
            for path, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return [rule for _, _, rule, _ in check_tree(root)[1]]

    def test_accepts_a_good_tree(self):
        files = {
            "src/base/a.hpp": "#pragma once\n#include <vector>\n",
            "kernels/b.hpp": '#pragma once\n#include "src/base/a.hpp"\n',
            "src/codec/c.cpp": '#include "kernels/b.hpp"\n',
            "include/sparcl/d.h": "#ifndef D_H\n#define D_H\n#endif\n",
            "src/api/e.cpp": '#include "sparcl/d.h"\n#include "src/base/a.hpp"\n',
            "CMakeLists.txt": "sparcl_room(base src/base)\nsparcl_room(kernels kernels LINK base)\n",
        }
        self.assertEqual(self.offences(files), [])

    def test_refuses_upward_includes(self):
        for low, high in [
            ("src/base", "kernels"),
            ("src/base", "src/codec"),
            ("src/codec", "src/model"),
            ("src/codec", "collectives"),
            ("src/model", "collectives"),
            ("collectives", "src/replication"),
            ("src/replication", "src/api"),
            ("src/replication", "collectives"),
            ("src/base", "include/sparcl"),
            ("src/api", "tools"),
        ]:
            files = {f"{high}/high.hpp": "#pragma once\n", f"{low}/low.cpp": f'#include "{high}/high.hpp"\n'}
            self.assertEqual(self.offences(files), ["upward-include"], f"{low} -> {high}")

    def test_refuses_another_namespace_than_the_folders(self):
        bad = {"src/net/a.hpp": "#pragma once\nnamespace sparcl::transport {\nint x();\n}\n"}
        self.assertEqual(self.offences(bad), ["namespace"])
        bad = {"collectives/dense/a.hpp": "#pragma once\nnamespace sparcl::collectives {\nint x();\n}\n"}
        self.assertEqual(self.offences(bad), ["namespace"])
        good = {
            "src/base/a.hpp": "#pragma once\nnamespace sparcl {\nint x();\n}\n",
            "src/net/b.hpp": "#pragma once\nnamespace sparcl::net {\nint y();\n}\n",
            "src/transport/mpi/c.hpp": "#pragma once\nnamespace sparcl::net {\nclass B;\n}\nnamespace sparcl::transport {\nint z();\n}\n",
            "collectives/dense/d.hpp": "#pragma once\nnamespace sparcl::collectives::dense {\nint u();\n}\n",
        }
        self.assertEqual(self.offences(good), [])

    def test_refuses_folders_that_include_each_other(self):
        files = {
            "src/net/a.hpp": '#pragma once\n#include "src/net/heartbeat/b.hpp"\n',
            "src/net/heartbeat/b.hpp": '#pragma once\n#include "src/net/c.hpp"\n',
            "src/net/c.hpp": "#pragma once\n",
        }
        self.assertEqual(self.offences(files), ["cycle", "cycle"])

    def test_holds_each_readme_to_the_table(self):
        files = {"src/codec/a.cpp": "", "src/codec/README.md": "One line.\n\nMay include: base, model\n"}
        self.assertEqual(self.offences(files), ["may-include"])
        files = {"src/codec/a.cpp": "", "src/codec/README.md": "One line.\n"}
        self.assertEqual(self.offences(files), ["may-include"])

    def test_refuses_checks_that_take_negative_numbers(self):
        for call in ("check(CLI::Range(1, 2))", "check(CLI::PositiveNumber)", "check(tool::whole_number(1))"):
            self.assertEqual(self.offences({"tools/x.cpp": f"  ->{call};\n"}), ["number-check"], call)
        self.assertEqual(self.offences({"tools/x.cpp": "  ->transform(whole_number(1));\n"}), [])

    def test_refuses_what_depends_on_the_locale(self):
        for call in ["std::strtod(text, &end)", "std::stod(text)", "std::tolower(c)", "std::strerror(errno)", "isspace (c)"]:
            self.assertEqual(self.offences({"src/base/x.cpp": f"double y = {call};\n"}), ["locale"], call)
        self.assertEqual(self.offences({"src/base/x.cpp": "std::from_chars(a, b, x);  // not strtod()\n", "tests/y.cpp": "std::stod(text);\n"}), [])

    def test_keeps_kernels_and_transport_apart(self):
        for one, other in [("kernels", "src/transport"), ("src/transport", "kernels")]:
            files = {f"{other}/x.hpp": "#pragma once\n", f"{one}/y.cpp": f'#include "{other}/x.hpp"\n'}
            self.assertEqual(self.offences(files), ["upward-include"])

    def test_keeps_examples_to_the_public_headers(self):
        files = {"src/base/x.hpp": "#pragma once\n", "examples/y/z.cpp": '#include "src/base/x.hpp"\n'}
        self.assertEqual(self.offences(files), ["upward-include"])

    def test_keeps_collectives_to_contracts(self):
        files = {"src/transport/loopback/x.hpp": "#pragma once\n", "collectives/y.cpp": '#include "src/transport/loopback/x.hpp"\n'}
        self.assertEqual(self.offences(files), ["body-include"])

    def test_keeps_backend_headers_in_their_folders(self):
        for header in ["mpi.h", "ucp/api/ucp.h", "nccl.h", "cuda_runtime.h", "sodium.h", "Kokkos_Core.hpp"]:
            self.assertEqual(self.offences({"collectives/x.cpp": f"#include <{header}>\n"}), ["backend-header"], header)
        files = {"src/transport/mpi/x.cpp": "#include <mpi.h>\n"}
        self.assertEqual(self.offences(files), [])

    def test_refuses_includes_that_are_not_relative_to_the_root(self):
        files = {"src/base/a.hpp": "#pragma once\n", "src/base/b.cpp": '#include "a.hpp"\n'}
        self.assertEqual(self.offences(files), ["include-path"])
        files = {"examples/mine/a.hpp": "#pragma once\n", "examples/mine/b.cpp": '#include "a.hpp"\n'}
        self.assertEqual(self.offences(files), [], "an example stands by itself, as a user's program")

    def test_refuses_a_stem_twice(self):
        files = {"src/base/same.cpp": "", "src/base/same.hpp": "#pragma once\n", "kernels/same.cpp": ""}
        self.assertEqual(set(self.offences(files)), {"file-stem"})
        files = {"examples/one/main.c": "", "examples/two/main.c": "", "src/base/main.cpp": ""}
        self.assertEqual(self.offences(files), [])

    def test_refuses_headers_without_a_guard(self):
        self.assertEqual(self.offences({"src/base/a.hpp": "int x;\n"}), ["include-guard"])
        self.assertEqual(self.offences({"src/base/a.h": "#ifndef A_H\n#define B_H\n#endif\n"}), ["include-guard"])

    def test_refuses_missing_and_long_readmes(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "tools"))
            self.assertEqual([rule for _, _, rule, _ in check_tree(root)[1]], ["readme"])
        self.assertEqual(self.offences({"src/base/a.cpp": "", "src/base/README.md": "line\n" * 30 + "May include: nothing\n"}), ["readme"])

    def test_refuses_links_that_the_table_does_not_allow(self):
        cmake = "sparcl_room(base src/base LINK kernels)\nsparcl_room(kernels kernels)\n"
        self.assertEqual(self.offences({"src/base/a.cpp": "", "CMakeLists.txt": cmake}), ["cmake-room"])


if __name__ == "__main__":
    unittest.main()
