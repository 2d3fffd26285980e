#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# reproduce.sh -- the published experiments of the programs that Tutti follows, at the size of this machine: prints the published tables
# with our figures beside them and writes docs/results/SOURCE.md with plots. docs/reproduce.md says how it works and what it cannot show.
#   scripts/reproduce.sh theano-mpi|campos|mpi-learn|neon|cntk|all     at most 30 minutes for each on two cores
#   scripts/reproduce.sh SOURCE --quick                                at most five
#   scripts/reproduce.sh --help                                        every option
# Builds build/trainer first if neither that nor --trainer FILE is there. Hosts with slow links need root and iproute2; without them the
# ranks are processes of one host, and the page says so.
set -euo pipefail
# shellcheck source=scripts/common.sh
here=$PWD
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

need() {  # COMMAND PACKAGE
  command -v "$1" >/dev/null || die "the command $1 is missing: apt-get install $2, or scripts/install_dependencies.sh"
}

need python3 python3
need mpiexec openmpi-bin
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || die "reproduce.sh needs Python 3.9 or newer"

build=1
for word in "$@"; do
  case $word in --trainer | --trainer=*) build=0 ;; -h | --help | --check) exec python3 scripts/reproduce "$@" ;; esac
done
# A wrong word is an error before anything is built.
python3 scripts/reproduce "$@" --check
if [ $build -eq 1 ] && [ ! -x build/trainer ]; then
  need meson meson
  need ninja ninja-build
  say "Building trainer in build/"
  configure build --buildtype=release
  ninja -C build trainer
fi
cd "$here"
exec python3 "$root/scripts/reproduce" "$@"
