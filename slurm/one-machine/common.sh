# shellcheck shell=bash
# Shared by `up` and `down`; sourced, not run.
set -euo pipefail

readonly node_names="n1 n2 n3 n4"
readonly marker=sparcl-one-machine-slurm # what has no such file is not ours to remove

die() {
  printf 'slurm/one-machine/%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# set_folder FOLDER: where this Slurm lives; empty: the default.
set_folder() {
  folder=${1:-${SPARCL_SLURM_FOLDER:-${TMPDIR:-/tmp}/sparcl-slurm-$(id -u)}}
  folder=$(realpath -m -- "$folder")
  conf=$folder/slurm.conf
  [[ $folder =~ ^[A-Za-z0-9_./+-]+$ ]] || die "$folder: Slurm's configuration cannot hold such a path; give another folder"
  # The longest socket in it is spool.n1/n1_<job>.<step>; the kernel's limit is 107 bytes.
  [ ${#folder} -le 70 ] || die "$folder: the path is too long for sockets (more than 70 bytes); give another folder"
}

# One `up` or `down` at a time for a folder; daemons must not inherit descriptor 9.
lock_folder() {
  while :; do
    mkdir -p -m 700 -- "$folder"
    [ -O "$folder" ] || die "$folder belongs to another user; give another folder"
    exec 9<"$folder"
    flock 9
    # `down` may have removed it in between.
    [ "$(stat -Lc %i /proc/self/fd/9)" != "$(stat -c %i "$folder" 2>/dev/null)" ] || return 0
  done
}
