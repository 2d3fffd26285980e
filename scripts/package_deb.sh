#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package_deb.sh -- a Debian package of the trainer, with manual page and completion.
#   scripts/package_deb.sh               builds build/ and writes build/tutti_VERSION_ARCHITECTURE.deb
#   BUILD=DIR scripts/package_deb.sh     from another build directory
# The package depends on the libraries that the program was linked with and on Open MPI, so it belongs to the release of
# Debian on which it was made. Install it with `apt install ./build/tutti_....deb`.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

build=${BUILD:-build}
case ${1:-} in
  '') ;;
  -h | --help) sed -n '4,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  *) die "unknown option '$1'" ;;
esac
for tool in dpkg-deb dpkg-shlibdeps; do
  command -v "$tool" >/dev/null || die "there is no $tool; fix: apt install dpkg-dev"
done

scripts/install_dependencies.sh
say "Building ($build)"
configure "$build" --buildtype=release
targets=(trainer docs/trainer.1 docs/trainer docs/_trainer docs/trainer.fish)
libraries=()
if ninja -C "$build" -t targets all | grep -q '^libtutti_cuda.so:'; then libraries=(libtutti_cuda.so); fi
ninja -C "$build" "${targets[@]}" ${libraries[@]+"${libraries[@]}"}

version=$("$build/trainer" --version | sed 's/^Tutti \([^:]*\):.*/\1/')
architecture=$(dpkg --print-architecture)
package=$build/tutti_${version}_$architecture.deb
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/root
say "Collecting $package"
install -D -s "$build/trainer" "$root/usr/bin/trainer"
patchelf --remove-rpath "$root/usr/bin/trainer"  # a package's libraries lie where the system looks for them
for library in ${libraries[@]+"${libraries[@]}"}; do
  install -D "$build/$library" "$root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)/tutti/$library"
done
install -D -m 644 "$build/docs/trainer.1" "$root/usr/share/man/man1/trainer.1"
gzip -9n "$root/usr/share/man/man1/trainer.1"
install -D -m 644 "$build/docs/trainer" "$root/usr/share/bash-completion/completions/trainer"
install -D -m 644 "$build/docs/_trainer" "$root/usr/share/zsh/vendor-completions/_trainer"
install -D -m 644 "$build/docs/trainer.fish" "$root/usr/share/fish/vendor_completions.d/trainer.fish"
doc=$root/usr/share/doc/tutti
install -D -m 644 README.md "$doc/README.md"
install -D -m 644 CHANGELOG.md "$doc/changelog"
gzip -9n "$doc/changelog"
cp -r docs configs samples "$doc/"
{
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Tutti\n\n'
  printf 'Files: *\nCopyright: The Tutti authors\nLicense: Apache-2.0\n On Debian systems: /usr/share/common-licenses/Apache-2.0\n'
} >"$doc/copyright"
find "$root" -type d -exec chmod 755 {} +
find "$doc" -type f -exec chmod u=rwX,go=rX {} +

# dpkg-shlibdeps reads the name of a source package beside it.
mkdir "$stage/debian"
printf 'Source: tutti\n\nPackage: tutti\nArchitecture: any\n' >"$stage/debian/control"
depends=$(cd "$stage" && dpkg-shlibdeps -O root/usr/bin/trainer 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || die "dpkg-shlibdeps finds no libraries of the program"
mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<END
Package: tutti
Version: $version
Architecture: $architecture
Maintainer: The Tutti authors <tutti@localhost>
Section: science
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: $depends, openmpi-bin
Recommends: libopenblas0-serial
Description: trains neural networks on many workers at once
 One program, trainer, that is started by mpiexec. A config file in the language
 of CNTK describes the network, the data and how the ranks work together.
END
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
say "Done"
echo "$package, $(du -h "$package" | cut -f1)"
