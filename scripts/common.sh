# shellcheck shell=bash
# Shared by the scripts of this folder; sourced, not run. Leaves the caller in the repository's root folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# MPI's children on one machine: ranks share cores, containers run as root, nothing leaves the machine.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo

# OpenBLAS takes processors that are newer than it is for very old ones.
if [ -z "${OPENBLAS_CORETYPE:-}" ]; then
  case "$(grep -m 1 '^flags' /proc/cpuinfo 2>/dev/null)" in
    *avx512bw*) export OPENBLAS_CORETYPE=SkylakeX ;;
    *avx2*) export OPENBLAS_CORETYPE=Haswell ;;
  esac
fi

# A libsparcl that is installed somewhere must not take the place of the one that is built here.
without_installed_sparcl() {
  local folder kept=
  while IFS= read -r -d : folder; do
    [ -e "$folder/libsparcl.so" ] || kept=$kept${kept:+:}$folder
  done <<<"$1:"
  printf %s "$kept"
}
[ -z "${LD_LIBRARY_PATH:-}" ] || { LD_LIBRARY_PATH=$(without_installed_sparcl "$LD_LIBRARY_PATH") && export LD_LIBRARY_PATH; }

say() { printf '\n== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# One job a core, but not more than memory carries: the SIMD files need up to a gigabyte each.
jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
  echo $((memory > 0 && memory < cores ? memory : cores))
}

# The CUDA kernels take half of the library's compile time. Where there is no GPU to run them, the release build has them once, as code
# for A100 that later GPUs compile again when they load it; all_gpus=yes: for each.
all_gpus=no
[ ! -e /dev/nvidia0 ] || all_gpus=yes

# The Python package is built for Debian's Python, which has Debian's NumPy, torch and mpi4py, with what PyPI has in a venv of the build
# folder. with_python=yes: by the preset release, if that can be had.
with_python=no
python_venv() {
  local venv=build/venv python=/usr/bin/python3
  [ -x $python ] || python=python3
  "$venv/bin/python" -c 'import nanobind, pytest' 2>/dev/null || {
    $python -m venv --system-site-packages "$venv" && "$venv/bin/pip" install -q 'nanobind>=2.4' 'pytest<9' 'ml_dtypes<0.5'
  } >build/venv.log 2>&1 || {
    echo "the Python package is left out: no venv with nanobind and pytest could be made (build/venv.log)"
    return 1
  }
}

# configure PRESET, build PRESET [TARGET...]: cheap where nothing changed. All targets are there, also in a folder that was configured
# without some of them.
configure() {
  echo "cmake --preset $1"
  mkdir -p build
  local all=() architectures=80
  [ $all_gpus = no ] || architectures="80-real;90"
  [ "$1" != release ] || all=(-DCMAKE_CUDA_ARCHITECTURES="$architectures")
  if [ "$1" = release ] && [ $with_python = yes ] && python_venv; then
    all+=(-DSPARCL_PYTHON=ON -DPython_EXECUTABLE="$PWD/build/venv/bin/python")
  fi
  [ "$1" = bench ] || all+=(-DSPARCL_TESTS=ON -DSPARCL_BENCH=ON -DSPARCL_EXAMPLES=ON -DSPARCL_TOOLS=ON)
  cmake --preset "$1" "${all[@]}" >"build/configure-$1.log" 2>&1 || {
    cat "build/configure-$1.log"
    echo "configuring failed: see above, or build/configure-$1.log" >&2
    return 1
  }
  grep -h 'sparcl:' "build/configure-$1.log" || true
}
build() {
  local preset=$1 targets=()
  shift
  [ $# -eq 0 ] || targets=(--target "$@")
  echo "cmake --build --preset $preset ${targets[*]}"
  cmake --build --preset "$preset" -j "$(jobs)" "${targets[@]}"
}
