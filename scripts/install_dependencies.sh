#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_dependencies.sh -- installs what building and testing need on Debian 12 and 13: only what is
# missing, as root or through sudo. Says nothing and takes no time when everything is there. The part for GPUs is built when
# the CUDA toolkit and cuDNN 9 are there; they come from NVIDIA (cuda-toolkit, libcudnn9-dev-cuda-13), not from here.
set -euo pipefail

packages=(
  g++ meson ninja-build pkg-config python3          # the build
  openmpi-bin libopenmpi-dev                        # processes and transport
  libdnnl-dev                                       # oneDNN: matrix products on the CPU
  libopenblas0-serial                               # OpenBLAS, which is loaded where it is faster
  libcli11-dev libfmt-dev libyaml-cpp-dev           # command line, text, YAML and JSON documents
  libjpeg-dev libpng-dev libzip-dev libexpat1-dev   # images, archives of them, mean images
  libhwloc-dev libxxhash-dev zlib1g-dev             # topology, checksums, gzip data
  libhdf5-dev                                       # HDF5 data
  protobuf-compiler libprotobuf-dev libonnx-dev     # ONNX files
  libgtest-dev libgmock-dev libbenchmark-dev        # tests and micro-benchmarks
  patchelf                                          # scripts/bundle.sh
)

command -v dpkg-query >/dev/null || {
  echo "error: this script knows the packages of Debian only; elsewhere install the counterparts of: ${packages[*]}" >&2
  exit 1
}

missing=()
installed=" $(dpkg-query -W -f='${Package}:${db:Status-Status} ' "${packages[@]}" 2>/dev/null || true)"
for package in "${packages[@]}"; do
  [[ $installed == *" $package:installed "* ]] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "error: installing packages needs root: run as root, install sudo, or install these yourself: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Containers have no terminal for questions, and another apt may hold the lock for a moment.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@" >>"$log" 2>&1
}
fail() {
  tail -n 20 "$log" >&2
  echo "error: $1" >&2
  exit 1
}

echo "Installing: ${missing[*]}"
# A fresh container has no package lists; one that has them is spared the download.
if ! apt install --no-install-recommends "${missing[@]}"; then
  apt update || { sleep 5; apt update; } || fail "the package lists cannot be fetched (see above); is there a network?"
  apt install --no-install-recommends "${missing[@]}" || fail "these packages could not be installed: ${missing[*]}"
fi
