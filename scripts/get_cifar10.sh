#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# get_cifar10.sh -- fetches CIFAR-10 (60,000 colour photographs of 32x32 pixels in ten classes), checks it and unpacks it into class
# folders of images with the map files train_map.txt and test_map.txt (path<TAB>class) and the pixel mean mean.xml.
#   scripts/get_cifar10.sh                     into data/cifar10 of the project, as PNG files
#   scripts/get_cifar10.sh DIRECTORY           into DIRECTORY
#   scripts/get_cifar10.sh --from FILE [...]   takes FILE instead of downloading: cifar-10-binary.tar.gz, or a tar (plain, gzip, xz,
#                                              zstd) of train/CLASS/ and test/CLASS/ folders of images
#   scripts/get_cifar10.sh --form idx [...]    two pairs of IDX files for readerType = "IDXReader" instead of images; "both": both
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/fetch.sh
. "$root/scripts/fetch.sh"
arguments "$root/data/cifar10" "--form" "$@"

archive=$from
name=cifar-10-binary.tar.gz
if [ -z "$archive" ] || [ "${archive##*/}" = "$name" ]; then
  download_seconds=3600
  fetch "$directory/$name" c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd "$from" CIFAR-10 \
    "https://www.cs.toronto.edu/~kriz/$name" \
    "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/$name" \
    "https://mindspore-website.obs.cn-north-4.myhuaweicloud.com/notebook/datasets/$name"
  archive=$directory/$name
fi
python3 "$root/scripts/prepare_cifar10.py" "$archive" "$directory" --form "${given[--form]:-images}"
echo "CIFAR-10 is in $directory"
