"""The rooms, bottom first: the one place that says who may include whom (docs/explanation/architecture.md has the picture)."""

# room: (folders, the rooms that it may include besides itself). The kernels on Kokkos views are public headers: users compile them.
ROOMS = {
    "include": (["include", "kernels/kokkos"], []),
    "base": (["src/base"], []),
    "kernels": (["kernels"], ["base"]),
    "gpu": (["src/gpu"], ["base"]),
    "trust": (["src/trust"], ["base"]),
    "net": (["src/net"], ["base", "trust"]),
    "codec": (["src/codec"], ["base", "kernels"]),
    "model": (["src/model"], ["base", "kernels", "gpu", "trust", "codec"]),
    "device": (["src/device"], ["base", "kernels", "gpu", "codec", "model"]),
    "transport": (["src/transport"], ["base", "gpu", "trust", "net"]),
    "comm": (["src/comm"], ["base", "kernels", "gpu", "codec", "transport"]),
    "sparse": (["src/sparse"], ["base", "kernels", "gpu", "codec", "model", "device"]),
    "aggregate": (["src/aggregate"], ["base", "kernels", "gpu", "codec", "model", "device", "sparse"]),
    "collectives": (
        ["collectives"],
        ["base", "kernels", "gpu", "codec", "model", "device", "comm", "sparse", "aggregate", "transport"],
    ),
    "replication": (["src/replication"], ["base", "kernels", "gpu", "trust", "net", "codec", "model", "device"]),
    "elastic": (
        ["src/elastic"],
        ["base", "kernels", "gpu", "trust", "net", "codec", "model", "device", "sparse", "aggregate", "replication"],
    ),
    "store": (["src/store"], ["base", "kernels", "trust", "net", "codec", "model"]),
    "api": (
        ["src/api"],
        ["include", "base", "kernels", "gpu", "trust", "net", "codec", "model", "device", "transport", "comm", "sparse", "aggregate",
         "collectives", "replication", "elastic", "store"],
    ),
    "examples": (["examples"], ["include"]),
}  # fmt: skip
# What includes are relative to.
INCLUDE_ROOTS = ["", "include/", "kernels/kokkos/include/"]
# Above the rooms: these may include everything.
TOP_FOLDERS = ["tools", "bench", "slurm", "tests"]

# Room = namespace, with these exceptions. src/base is the namespace that all others are in.
NAMESPACES = {
    "src/base": "sparcl",
    "src/base/flight": "sparcl::flight",
    "collectives/table": "sparcl::collectives",
}
# Each folder in these is a namespace of its own.
ONE_NAMESPACE_A_FOLDER = ["collectives"]

# Bodies behind a contract. Outside their own room only the composition root and the top folders name them.
BODIES = [
    "kernels/ref", "kernels/cpu", "kernels/cuda",
    "src/transport/loopback", "src/transport/fault", "src/transport/mpi", "src/transport/ucx", "src/transport/nccl",
    "src/net/bootstrap",
]  # fmt: skip
MAY_NAME_BODIES = ["api"]

# Headers of a backend: (pattern, folders or files where it may appear). Tests, benches, tools and examples may use MPI for baselines.
BACKEND_HEADERS = [
    (r"mpi\.h", ["src/transport/mpi", "src/api/mpi", "include/sparcl/sparcl_mpi.h", "examples", *TOP_FOLDERS]),
    (r"uc[ps]/.*", ["src/transport/ucx", "src/api/ucx", *TOP_FOLDERS]),
    (r"nccl\.h", ["src/transport/nccl", "src/api/nccl", *TOP_FOLDERS]),
    (r"(cuda|cub/|thrust/).*", ["kernels/cuda", "src/transport/nccl", "src/api/cuda", *TOP_FOLDERS]),
    (r"curl/.*", ["src/net/http", *TOP_FOLDERS]),
    (r"nvtx3/.*", ["src/base/stage_range.cpp", *TOP_FOLDERS]),
    (r"sodium(\.h|/.*)", ["src/trust", *TOP_FOLDERS]),
    (r"Kokkos_.*", ["kernels/kokkos", "include/sparcl/sparcl_kokkos.hpp", "examples", *TOP_FOLDERS]),
]

README_MAX_LINES = 30
# Folders that say in a README what they own, what they may include, and how to add one.
README_FOLDERS = [folder for folders, _ in ROOMS.values() for folder in folders] + ["tools", "bench", "tests", "scripts"]
