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

# shellcheck source=scripts/fetch.sh
. "$root/scripts/fetch.sh"
arguments "$root/data/mnist" "" "$@"
[ -z "$from" ] || [ -d "$from" ] || die "--from needs a directory, and '$from' is none"

for entry in "${files[@]}"; do
  expected=${entry%%:*}
  name=${entry#*:}
  urls=()
  for mirror in "${mirrors[@]}"; do urls+=("$mirror/$name"); done
  fetch "$directory/$name" "$expected" "${from:+$from/$name}" MNIST "${urls[@]}"
done
echo "MNIST is in $directory"
