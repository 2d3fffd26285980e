#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_distribution.sh -- the two commands of README.md on a fresh Debian, made by debootstrap in a folder, from an archive
# of the last commit; says how long each took. Needs root, debootstrap, git and a network.
#   scripts/test_distribution.sh RELEASE           trixie, bookworm, ...; as root
#   scripts/test_distribution.sh RELEASE --user    as an ordinary user without sudo, in a path with a space
# The system lies in $FOLDER (/var/tmp/tutti-RELEASE by default) and is removed when all went well. Packages come from
# $MIRROR, by default from where this host's apt takes them, and with its settings. Tests find real data in
# $TUTTI_TEST_DATA or ../shared/data; without, they are skipped.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() { sed -n '5,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
release=
account=root
for argument in "$@"; do
  case $argument in
    --user) account=tester ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; die "unknown option '$argument'" ;;
    *) [ -z "$release" ] || die "one release at a time, not '$release' and '$argument'"; release=$argument ;;
  esac
done
[[ $release =~ ^[a-z]+$ ]] || { usage >&2; die "the name of a release is missing"; }
[ "$(id -u)" -eq 0 ] || die "making a system needs root"
for tool in debootstrap git; do command -v $tool >/dev/null || die "the command $tool is missing: apt-get install $tool"; done
system=${FOLDER:-/var/tmp/tutti-$release}
data=${TUTTI_TEST_DATA:-$root/../shared/data}

# Mounts and processes of the system are in namespaces of their own and end with them, so nothing but files is removed.
if [ "${TUTTI_INSIDE-}" != "$system" ]; then
  [ ! -e "$system" ] || die "$system is there already: remove it, or say FOLDER=ANOTHER"
  TUTTI_INSIDE=$system unshare --mount --pid --fork --kill-child --mount-proc --propagation private "$root/scripts/test_distribution.sh" "$@" || {
    status=$?
    echo "The system stays in $system" >&2
    exit $status
  }
  rm -rf --one-file-system "$system"
  exit
fi

# shellcheck source=scripts/host_packages.sh
source scripts/host_packages.sh

# inside ACCOUNT COMMAND...: in the system, with what a fresh login has.
inside() {
  local who=$1 home=/root
  shift
  [ "$who" = root ] || home=/home/$who
  chroot --userspec="$who:$who" --groups= "$system" env -i HOME="$home" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    "${proxies[@]}" "$@"
}

times=()
# timed TEXT COMMAND...: runs it, and keeps how long it took.
timed() {
  local text=$1 start=$SECONDS
  shift
  doing=$text
  "$@"
  times+=("$(printf '%-31s %3d min %2d s' "$text" $(((SECONDS - start) / 60)) $(((SECONDS - start) % 60)))")
}

make_system() {
  make_debian "$release" "$system"
  mount --bind "$system" "$system" # some commands want their / to be a mount
  mount -t proc proc "$system/proc"
  mount --rbind /sys "$system/sys"
  mount --rbind /dev "$system/dev"
  mount -t tmpfs tmpfs "$system/dev/shm"
  copy_settings "$system"
  cp -L /etc/resolv.conf /etc/hosts "$system/etc/"
}

# run_inside ACCOUNT SCRIPT: one of the commands, where the sources lie.
run_inside() {
  # shellcheck disable=SC2016
  inside "$1" TUTTI_TEST_DATA=/mnt sh -c 'cd "$1" && exec "$2"' - "$folder" "$2"
}

say "Making a fresh $release in $system"
trap 'echo "error: $doing failed on $release" >&2' EXIT
trap 'exit 130' INT TERM
timed debootstrap make_system
folder=/root/tutti
if [ $account != root ]; then
  inside root useradd --create-home $account
  folder="/home/$account/a folder/tutti"
fi
mkdir -p "$system$folder"
commit=$(git rev-parse --short HEAD)
git archive "$commit" | tar -x -C "$system$folder"
[ $account = root ] || inside root chown -R $account:$account "/home/$account"
if [ -d "$data" ]; then mount --bind -o ro "$data" "$system/mnt"; fi

if [ $account != root ]; then timed scripts/install_dependencies.sh run_inside root scripts/install_dependencies.sh; fi
for command in scripts/quickstart.sh scripts/test.sh; do timed $command run_inside $account $command; done

doing="looking at its versions"
# shellcheck disable=SC2016
versions=$(inside root sh -c '. /etc/os-release && echo "$PRETTY_NAME"; g++ --version | head -n 1; mpiexec --version | head -n 1')
trap - EXIT
say "$release passed"
printf '%s\n' "$versions" "commit $commit, $(nproc) cores, as $account in $folder" "${times[@]}" | sed 's/^/  /'
