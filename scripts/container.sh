#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# container.sh -- the image of the Dockerfile, from an archive of the last commit, and its first use: two ranks train in a
# container of it. Takes podman or docker.
#   scripts/container.sh            the base image comes from the registry
#   scripts/container.sh --local    it is made by debootstrap instead, with this host's source of packages; as root
# The image is named tutti, or as $IMAGE says.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/host_packages.sh
source scripts/host_packages.sh

base=debian:bookworm
case ${1:-} in
  '') ;;
  --local) base=localhost/debian:bookworm ;;
  -h | --help) sed -n '5,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  *) die "unknown option '$1'" ;;
esac
image=${IMAGE:-tutti}
engine=$(command -v podman || command -v docker) || die "there is neither podman nor docker; fix: apt install podman"
folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT

if [ $base = localhost/debian:bookworm ] && ! "$engine" image inspect $base >/dev/null 2>&1; then
  [ "$(id -u)" -eq 0 ] || die "making a system needs root"
  command -v debootstrap >/dev/null || die "the command debootstrap is missing: apt-get install debootstrap"
  say "Making $base"
  make_debian bookworm "$folder/debian"
  copy_settings "$folder/debian"
  tar -C "$folder/debian" -c . | "$engine" import - $base
fi

# Inside a virtual machine or another container, the engine may not raise limits, and crun may not know the host's cgroups.
run_options=() build_options=()
if ! "$engine" run --rm $base true 2>"$folder/why"; then
  [[ $engine == */podman ]] || { cat "$folder/why" >&2; die "$engine runs no container here"; }
  files=$(ulimit -Hn)
  run_options=(--runtime runc --ulimit "nofile=$files:$files" --ulimit nproc=32768:32768)
  build_options=(--isolation chroot)
  "$engine" run --rm "${run_options[@]}" $base true || { cat "$folder/why" >&2; die "$engine runs no container here"; }
fi

say "Building $image"
git archive HEAD | "$engine" build ${build_options[@]+"${build_options[@]}"} --network host --build-arg "BASE=$base" -t "$image" -

say "Training in it"
mkdir "$folder/work"
chmod 777 "$folder" "$folder/work" # the user of the image writes there
"$engine" run --rm ${run_options[@]+"${run_options[@]}"} --shm-size=1g -v "$folder/work:/work" "$image" \
  trainer launch -n 2 configFile=/usr/share/doc/tutti/samples/digits/digits.cntk 'Train=[SGD=[maxEpochs=1;epochSize=6400]]' 'Test=[epochSize=1000]'
grep -h 'Final Results' "$folder/work/output/digits/digits.log"
say "Done: $image"
