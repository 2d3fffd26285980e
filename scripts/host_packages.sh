# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# host_packages.sh -- a minimal Debian that takes packages from where this host takes them; sourced after common.sh, not
# run. Needs root and debootstrap.

# What this host needs to reach packages: proxies, passwords, certificates.
proxies=()
for name in http_proxy https_proxy ftp_proxy no_proxy; do
  [ -z "${!name-}" ] || proxies+=("$name=${!name}")
done
# shellcheck disable=SC2016
mirror_of_host() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -E '^https?://.*/debian/$' | head -n 1 || true
}
settings_of_host() {
  apt-config dump 2>/dev/null | grep -E '^Acquire::(http|https|Retries|ForceIPv|Check-Valid-Until|Check-Date)' | grep -v -- -Auto-Detect || true
}
# copy_settings FOLDER: what apt in the system there needs to reach packages.
copy_settings() {
  local system=$1
  settings_of_host >"$system/etc/apt/apt.conf.d/90host"
  cp -r /etc/apt/auth.conf /etc/apt/auth.conf.d "$system/etc/apt/" 2>/dev/null || true
  if [ -d "$system/usr/local/share/ca-certificates" ]; then
    cp -r /usr/local/share/ca-certificates/. "$system/usr/local/share/ca-certificates/"
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$system" update-ca-certificates >/dev/null
  fi
}

# make_debian RELEASE FOLDER: from $MIRROR, or from where this host's apt takes its packages.
make_debian() {
  local release=$1 system=$2
  mkdir -p "$system"
  env "${proxies[@]}" debootstrap --variant=minbase "$release" "$system" "${MIRROR:-$(mirror_of_host)}" >"$system.log" 2>&1 || {
    tail -n 20 "$system.log" >&2
    die "debootstrap could not make '$release'; its log is $system.log"
  }
  rm "$system.log"
}
