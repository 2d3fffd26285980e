#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make_site.sh -- the pages of docs/ and those that they link to as a site of HTML files, by MkDocs (Debian's package mkdocs).
#   scripts/make_site.sh            into build-site/html; open build-site/html/index.html
#   scripts/make_site.sh FOLDER     into FOLDER/html
# The site needs no network and no server. A link that leads nowhere is an error.
set -euo pipefail
# shellcheck source=scripts/common.sh
here=$PWD
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  -h | --help) sed -n '3,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  -*) die "unknown option '$1'" ;;
esac
[ $# -le 1 ] || die "one folder, not $#"
command -v mkdocs >/dev/null || die "there is no mkdocs; fix: apt install mkdocs"

folder=$root/build-site
[ $# -eq 0 ] || folder=$(cd "$here" && realpath -m "$1")
mkdir -p "$folder"
python3 scripts/site_pages.py collect "$folder"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/scripts mkdocs build --quiet --strict --clean --config-file "$folder/mkdocs.yml" --site-dir "$folder/html"
python3 scripts/site_pages.py check "$folder/html"
echo "$folder/html/index.html"
