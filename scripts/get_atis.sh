#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# get_atis.sh -- fetches the ATIS questions (4,978 to train, 893 to test, a label for each word) in CNTK's text format, and checks them.
#   scripts/get_atis.sh                     into data/atis of the project
#   scripts/get_atis.sh DIRECTORY           into DIRECTORY
#   scripts/get_atis.sh --from DIR [...]    copies them from DIR instead of downloading
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/fetch.sh
. "$root/scripts/fetch.sh"
arguments "$root/data/atis" "" "$@"

for entry in train:832b59349e4ccb2ca04005aba9dffaa16a214e328e272e0cfd9c8ec09218ecf0 \
  test:73b3c9414d8242c547fc9188f8212eed8b0a17748e636939748250dcea95914e; do
  name=atis.${entry%%:*}.ctf
  fetch "$directory/$name" "${entry#*:}" "${from:+$from/$name}" ATIS \
    "https://raw.githubusercontent.com/microsoft/CNTK/v2.7/Tutorials/SLUHandsOn/$name" \
    "https://raw.githubusercontent.com/microsoft/CNTK/master/Tutorials/SLUHandsOn/$name"
done
echo "ATIS is in $directory"
