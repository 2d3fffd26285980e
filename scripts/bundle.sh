#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bundle.sh -- the trainer with all it needs in one archive, for hosts where nothing can be installed.
#   scripts/bundle.sh                    builds build/ and writes build/tutti-VERSION-MACHINE.tar.xz
#   scripts/bundle.sh --folder           leaves the folder build/tutti-VERSION-MACHINE and makes no archive
#   scripts/bundle.sh --gpu-checks       also with what `BUILD=FOLDER scripts/check_gpu.sh` runs
#   BUILD=DIR scripts/bundle.sh [...]    from another build directory
# Unpack it under the same path on every host; bin/trainer and bin/mpiexec (Open MPI over TCP, shared memory and what
# else this system's has) run from there. The C library, the GPU's driver, CUDA and cuDNN are those of the host.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

build=${BUILD:-build}
usage() { sed -n '4,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
programs=(trainer)
archived=true
for argument in "$@"; do
  case $argument in
    --folder) archived=false ;;
    --gpu-checks) mapfile -t -O 1 programs < <(scripts/check_gpu.sh --programs) ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown option '$argument'" ;;
  esac
done

scripts/install_dependencies.sh
say "Building ($build)"
configure "$build" --buildtype=release
libraries=()
if ninja -C "$build" -t targets all | grep -q '^libtutti_cuda.so:'; then libraries=(libtutti_cuda.so); fi
ninja -C "$build" "${programs[@]}" ${libraries[@]+"${libraries[@]}"}

version=$("$build/trainer" --version | sed 's/^Tutti \([^:]*\):.*/\1/')
name=tutti-$version-$(uname -m)
bundle=$build/$name
say "Collecting $bundle"
rm -rf "$bundle"
mkdir -p "$bundle"/{bin,etc,lib/openmpi,share/openmpi}

# Programs of a build lie as they do there, so that a bundle can take its place.
for program in "${programs[@]}" ${libraries[@]+"${libraries[@]}"}; do
  mkdir -p "$bundle/$(dirname "$program")"
  cp "$build/$program" "$bundle/$program"
done
ln -s ../trainer "$bundle/bin/trainer"

# Open MPI: what it starts, its plugins, settings and texts. Since version 5 PRRTE starts the ranks. Each of its parts
# finds its folders by variables that begin with a name of its own.
ompi() { ompi_info --path "$1" --parsable | cut -d: -f3; }
bin=$(ompi bindir)
if [ -x "$bin/prterun" ]; then
  launcher=mpirun started=(prterun prted) parts="OPAL:openmpi PRTE:prte PMIX:pmix"
  cp -r "$(ompi datadir)/prte" "$bundle/share/"
else
  launcher=orterun started=(orted) parts="OPAL:openmpi"
fi
for program in $launcher "${started[@]}"; do cp -L "$bin/$program" "$bundle/bin/"; done
cp "$(ompi pkglibdir)"/*.so "$bundle/lib/openmpi/"
cp -r "$(ompi pkgdatadir)"/. "$bundle/share/openmpi/"
cp "$(ompi sysconfdir)"/*-params.conf "$bundle/etc/"
cat >"$bundle/bin/mpiexec" <<END
#!/bin/sh
# Open MPI of this folder, wherever it lies; hosts that it goes to have it under the same path.
here=\$(cd "\$(dirname "\$0")/.." && pwd)
for part in $parts; do
  name=\${part%:*} package=\${part#*:}
  export "\${name}_PREFIX=\$here" "\${name}_LIBDIR=\$here/lib" "\${name}_PKGLIBDIR=\$here/lib/\$package" \\
    "\${name}_PKGDATADIR=\$here/share/\$package" "\${name}_SYSCONFDIR=\$here/etc"
  set -- -x "\${name}_PREFIX" -x "\${name}_LIBDIR" -x "\${name}_PKGLIBDIR" -x "\${name}_PKGDATADIR" -x "\${name}_SYSCONFDIR" "\$@"
done
export OMPI_PRTERUN="\$here/bin/prterun" PMIX_MCA_pcompress_base_silence_warning=1
# Open MPI 4 does not start at all without a way to other hosts, needed or not.
command -v ssh >/dev/null || command -v rsh >/dev/null || export OMPI_MCA_plm_rsh_agent="\${OMPI_MCA_plm_rsh_agent:-false}"
exec "\$here/bin/$launcher" --prefix "\$here" "\$@"
END
chmod +x "$bundle/bin/mpiexec"

# Libraries, but those that belong to a host: the C library, and what comes with CUDA.
ours() { grep -vE '/(ld-linux|libc\.so|libm\.so|libdl\.so|libpthread\.so|librt\.so|libresolv\.so|libcuda|libcublas|libcudnn|libnccl|libnvidia)'; }
elf=()
while IFS= read -r file; do elf+=("$file"); done < <(find "$bundle" -type f \( -name '*.so' -o -perm -u+x \) ! -name mpiexec)
ldd "${elf[@]}" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | ours | sort -u | xargs cp -L -t "$bundle/lib"
strip --strip-unneeded "${elf[@]}" "$bundle"/lib/*.so*
for file in "${elf[@]}" "$bundle"/lib/*.so*; do
  patchelf --set-rpath "\$ORIGIN/$(realpath --relative-to="$(dirname "$file")" "$bundle/lib"):/usr/local/cuda/lib64" "$file"
done

cp -r LICENSE configs samples "$bundle/"

say "Done"
if $archived; then
  tar -C "$build" -c "$name" | xz -T0 >"$bundle.tar.xz"
  echo "$bundle.tar.xz, $(du -h "$bundle.tar.xz" | cut -f1)"
else
  echo "$bundle, $(du -sh "$bundle" | cut -f1)"
fi
