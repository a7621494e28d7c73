"""The layers, bottom first: the one place that says who may include whom (docs/architecture.md has the picture)."""

# layer: (folders, the layers it may include besides itself). The kernels on Kokkos views are public headers: users compile them.
LAYERS = {
    "include": (["include", "kernels/kokkos"], []),
    "base": (["src/base"], []),
    "kernels": (["kernels"], ["base"]),
    "transport": (["src/transport"], ["base"]),
    "codec": (["src/codec"], ["base", "kernels"]),
    "model": (["src/model"], ["base", "kernels", "codec"]),
    "collectives": (["collectives"], ["base", "kernels", "transport", "codec", "model"]),
    "replication": (["src/replication"], ["base", "kernels", "transport", "codec", "model"]),
    "control": (["src/control"], ["base", "kernels", "transport", "codec", "model", "collectives", "replication"]),
    "api": (
        ["src/api"],
        ["include", "base", "kernels", "transport", "codec", "model", "collectives", "replication", "control"],
    ),
    "examples": (["examples"], ["include"]),
}
# What includes are relative to.
INCLUDE_ROOTS = ["", "include/", "kernels/kokkos/include/"]
# Above the layers: these may include everything.
TOP_FOLDERS = ["tools", "bench", "slurm", "tests"]

# Bodies behind a contract. Outside their own layer only the composition root and the top folders name them.
BODIES = [
    "kernels/ref", "kernels/cpu", "kernels/cuda",
    "src/transport/loopback", "src/transport/fault", "src/transport/mpi", "src/transport/ucx", "src/transport/nccl",
    "src/transport/bootstrap", "src/transport/liveness",
]  # fmt: skip
MAY_NAME_BODIES = ["api"]

# Headers of a backend: (pattern, folders or files where it may appear). Tests, benches, tools and examples may use MPI for baselines.
BACKEND_HEADERS = [
    (r"mpi\.h", ["src/transport/mpi", "src/api/mpi", "include/sparcl/sparcl_mpi.h", "examples", *TOP_FOLDERS]),
    (r"uc[ps]/.*", ["src/transport/ucx", "src/api/ucx", *TOP_FOLDERS]),
    (r"nccl\.h", ["src/transport/nccl", "src/api/nccl", *TOP_FOLDERS]),
    (r"(cuda|cub/|thrust/).*", ["kernels/cuda", "src/transport/nccl", "src/api/cuda", *TOP_FOLDERS]),
    (r"nvtx3/.*", ["src/base/stage_range.cpp", *TOP_FOLDERS]),
    (r"sodium(\.h|/.*)", ["src/replication", *TOP_FOLDERS]),
    (r"Kokkos_.*", ["kernels/kokkos", "include/sparcl/sparcl_kokkos.hpp", "examples", *TOP_FOLDERS]),
]

README_MAX_LINES = 30
# Folders that say in a README what they own, what they may include, and how to add one.
README_FOLDERS = [folder for folders, _ in LAYERS.values() for folder in folders] + ["tools", "bench", "tests", "scripts"]
