#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# get_tinyshakespeare.sh -- fetches 1.1 MB of Shakespeare, checks it and prepares it for a model of characters: train.ctf and
# valid.ctf (sequences of one-hot characters |x and the characters that follow them |y) and vocabulary.txt.
#   scripts/get_tinyshakespeare.sh                     into data/tinyshakespeare of the project
#   scripts/get_tinyshakespeare.sh DIRECTORY           into DIRECTORY
#   scripts/get_tinyshakespeare.sh --from FILE [...]   takes FILE instead of downloading
#   scripts/get_tinyshakespeare.sh --length 100 [...]  characters per sequence; 0 = each file is one sequence
#   scripts/get_tinyshakespeare.sh --valid 0.1 [...]   the share at the end of the text that validates
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/fetch.sh
. "$root/scripts/fetch.sh"
arguments "$root/data/tinyshakespeare" "--length --valid" "$@"

fetch "$directory/input.txt" 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed "$from" "tiny Shakespeare" \
  https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt
python3 "$root/scripts/prepare_characters.py" "$directory/input.txt" "$directory" --length "${given[--length]:-100}" \
  --valid "${given[--valid]:-0.1}"
echo "Tiny Shakespeare is in $directory"
