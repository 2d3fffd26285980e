#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# get_mnist.sh -- fetches the four files of the MNIST handwritten digits and checks them. Files that are already there and
# whole are left alone, so the script can be run again at any time.
#   scripts/get_mnist.sh                     into data/mnist of the project
#   scripts/get_mnist.sh DIRECTORY           into DIRECTORY
#   scripts/get_mnist.sh --from DIR [...]    copies them from DIR instead of downloading
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

mirrors=(
  https://ossci-datasets.s3.amazonaws.com/mnist
  https://storage.googleapis.com/cvdf-datasets/mnist
  https://raw.githubusercontent.com/fgnt/mnist/master
)
files=(
  db8f937d487057fb14a9f0fbe97f0bc8d311ab41b750d41e1ff37c43b9e55e19:train-images-idx3-ubyte.gz
  51fc562b6747b666fbf6e84ce29d43c3cb5f9c388c664d43b33f02095313405a:train-labels-idx1-ubyte.gz
  cfeddb84311ecf044fc6a5b0f6ee8a24d265d4e83e388400186eb114082f4209:t10k-images-idx3-ubyte.gz
  e41c74e484045d39b462a7790a4af51301bd9b0b24f0154798d713ec68c45920:t10k-labels-idx1-ubyte.gz
)

usage() { sed -n '3,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

from=
directory=
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --from)
      [ $# -ge 2 ] || die "--from needs a directory"
      from=$2
      [ -d "$from" ] || die "there is no directory '$from'"
      shift ;;
    -*) usage >&2; die "unknown option '$1'" ;;
    *)
      [ -z "$directory" ] || die "more than one directory: '$directory' and '$1'"
      directory=$1 ;;
  esac
  shift
done
directory=${directory:-$root/data/mnist}
mkdir -p "$directory" || die "cannot make the directory '$directory'"

# checksum FILE: of the same bytes under any name
checksum() { sha256sum "$1" | cut -d' ' -f1; }

download() {  # URL FILE
  if command -v curl >/dev/null; then
    curl --fail --silent --show-error --location --retry 2 --connect-timeout 15 --max-time 300 --output "$2" "$1"
  elif command -v wget >/dev/null; then
    wget --quiet --tries=2 --timeout=60 --output-document="$2" "$1"
  elif command -v python3 >/dev/null; then
    python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])' "$1" "$2"
  else
    die "curl, wget or python3 is needed to download"
  fi
}

partial=
trap '[ -z "$partial" ] || rm -f "$partial"' EXIT

for entry in "${files[@]}"; do
  expected=${entry%%:*}
  name=${entry#*:}
  target=$directory/$name
  if [ -f "$target" ] && [ "$(checksum "$target")" = "$expected" ]; then
    echo "$name: already there"
    continue
  fi
  partial=$target.partial
  if [ -n "$from" ]; then
    [ -f "$from/$name" ] || die "'$from' has no $name"
    cp "$from/$name" "$partial"
    [ "$(checksum "$partial")" = "$expected" ] || die "$from/$name is not the MNIST file (its SHA-256 differs)"
    echo "$name: copied"
  else
    done=false
    for mirror in "${mirrors[@]}"; do
      echo "$name: downloading from $mirror"
      if ! download "$mirror/$name" "$partial"; then
        echo "$name: that did not work" >&2
      elif [ "$(checksum "$partial")" != "$expected" ]; then
        echo "$name: what came is not the MNIST file (its SHA-256 differs)" >&2
      else
        done=true
        break
      fi
    done
    $done || die "$name could not be downloaded from any mirror; with a copy at hand use: scripts/get_mnist.sh --from DIRECTORY"
  fi
  # Only a whole file ever has the final name. What was copied may be read-only.
  chmod u+w "$partial"
  mv -f "$partial" "$target"
  partial=
done
echo "MNIST is in $directory"
