# SPDX-License-Identifier: Apache-2.0
# fetch.sh -- what the scripts that get data share: messages, downloads from one of several places, checksums.
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# checksum FILE: of the same bytes under any name
checksum() { sha256sum "$1" | cut -d' ' -f1; }

download() {  # URL FILE
  if command -v curl >/dev/null; then
    curl --fail --silent --show-error --location --retry 2 --connect-timeout 15 --max-time "${download_seconds:-300}" --output "$2" "$1"
  elif command -v wget >/dev/null; then
    wget --quiet --tries=2 --timeout=60 --output-document="$2" "$1"
  elif command -v python3 >/dev/null; then
    python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])' "$1" "$2"
  else
    die "curl, wget or python3 is needed to download"
  fi
}

# arguments DEFAULT_DIRECTORY "OPTIONS" "$@": reads the command line: -h shows the head of the script, --from sets $from, each of
# the OPTIONS sets an entry of the table `given` to the word after it, and the word without an option is $directory, which is made.
declare -A given=()
arguments() {
  local default=$1 options=" $2 "
  shift 2
  from=
  directory=
  while [ $# -gt 0 ]; do
    case $1 in
      -h | --help) awk 'NR > 2 && !/^#/ { exit } NR > 2 { sub(/^# ?/, ""); print }' "$0"; exit 0 ;;
      --from)
        [ $# -ge 2 ] || die "--from needs a file or directory"
        from=$2
        [ -e "$from" ] || die "there is no '$from'"
        shift ;;
      -*)
        [[ $options == *" $1 "* ]] || die "unknown option '$1'; ${0##*/} --help shows them all"
        [ $# -ge 2 ] || die "$1 needs a value"
        given[$1]=$2
        shift ;;
      *)
        [ -z "$directory" ] || die "more than one directory: '$directory' and '$1'"
        directory=$1 ;;
    esac
    shift
  done
  directory=${directory:-$default}
  mkdir -p "$directory" || die "cannot make the directory '$directory'"
}

partial=
trap '[ -z "$partial" ] || rm -f "$partial"' EXIT

# fetch TARGET SHA256 FROM TITLE URL...: puts a file in its place unless it is there and whole. FROM is a file to copy instead
# of downloading, or empty. Only a whole file ever has the final name.
fetch() {
  local target=$1 expected=$2 from=$3 title=$4 name=${1##*/} url whole=false
  shift 4
  if [ -f "$target" ] && [ "$(checksum "$target")" = "$expected" ]; then
    echo "$name: already there"
    return
  fi
  partial=$target.partial
  if [ -n "$from" ]; then
    [ -f "$from" ] || die "there is no file '$from'"
    cp "$from" "$partial"
    [ "$(checksum "$partial")" = "$expected" ] || die "$from is not the $title file (its SHA-256 differs)"
    echo "$name: copied"
  else
    for url in "$@"; do
      echo "$name: downloading $url"
      if ! download "$url" "$partial"; then
        echo "$name: that did not work" >&2
      elif [ "$(checksum "$partial")" != "$expected" ]; then
        echo "$name: what came is not the $title file (its SHA-256 differs)" >&2
      else
        whole=true
        break
      fi
    done
    $whole || die "$name could not be downloaded from any mirror; with a copy at hand use: scripts/${0##*/} --from ..."
  fi
  chmod u+w "$partial"  # what was copied may be read-only
  mv -f "$partial" "$target"
  partial=
}
