# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# common.sh -- what quickstart.sh and test.sh share; sourced, not run. Sets $root and works from any directory.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

say() { printf '\n== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Open MPI refuses to run as root unless both are set; a container usually has no other user.
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# configure DIRECTORY [meson options]: sets a build directory up once; ninja itself notices changed meson files. A directory
# that a broken or older configuration left behind is set up anew.
configure() {
  local directory=$1
  shift
  if [ ! -f "$directory/build.ninja" ]; then
    if [ -d "$directory/meson-private" ]; then set -- --wipe "$@"; fi
    meson setup "$directory" -Dtogether=true "$@"
  fi
}

# on_ranks RANKS PROGRAM...: under mpiexec, with a core of its own for each rank where there are enough of them.
on_ranks() {
  local ranks=$1 binding=(--bind-to core)
  shift
  if [ "$ranks" -gt "$(nproc)" ]; then binding=(--oversubscribe --bind-to none); fi
  mpiexec -n "$ranks" "${binding[@]}" "$@"
}
