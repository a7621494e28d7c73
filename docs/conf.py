"""The documentation site. scripts/docs builds it and sets SPARCL_DOXYGEN_XML, the folder of Doxygen's XML."""

import os
import re
import sys

DOCS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(DOCS)

project = "sparcl"
author = "the sparcl authors"
with open(os.path.join(ROOT, "VERSION"), encoding="utf-8") as file:
    version = release = file.read().strip()

sys.path.insert(0, os.path.join(ROOT, "python"))  # it need not be built
autodoc_mock_imports = ["sparcl._core", "numpy", "torch", "mpi4py"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"

extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

breathe_projects = {"sparcl": os.environ.get("SPARCL_DOXYGEN_XML", "")}
breathe_default_project = "sparcl"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
# MPI's and NCCL's types have no page here.
nitpicky = False

html_theme = "furo"
html_title = f"sparcl {version}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["sparcl.css"]

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
LISTS = {"decisions/README": "0*", "results/README": "*"}  # pages that are read from their list


def out_of_site(page):
    """A link to a file of the repository that is no page becomes its text and its path."""

    def replaced(match):
        target = os.path.normpath(os.path.join(DOCS, os.path.dirname(page), match[3]))
        if match[1] or target.startswith(DOCS + os.sep) and not os.path.isdir(target):
            return match[0]
        path = os.path.relpath(target, ROOT)
        return f"`{path}`" if match[2].strip("`") == path else f"{match[2]} (`{path}`)"

    return replaced


def prepare(_, page, source):
    parts = re.split(r"(^```.*?^```[^\S\n]*$)", source[0], flags=re.M | re.S)
    parts[::2] = [LINK.sub(out_of_site(page), part) for part in parts[::2]]
    source[0] = "".join(parts)
    if page in LISTS:
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{LISTS[page]}\n```\n"


def setup(app):
    app.connect("source-read", prepare)
    return {"parallel_read_safe": True}
