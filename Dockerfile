# SPDX-License-Identifier: Apache-2.0
# The trainer in a container. The first stage builds the Debian package, the second one installs it.
#   docker build -t tutti .
#   docker run --rm --shm-size=1g --user "$(id -u):$(id -g)" -v "$PWD:/work" tutti trainer launch -n 2 configFile=my.cntk
# scripts/container.sh does both, with podman or docker. Ranks of one container share memory in /dev/shm: more than 1g
# for large networks.
ARG BASE=debian:bookworm
FROM ${BASE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends dpkg-dev
COPY . /tutti
RUN /tutti/scripts/package_deb.sh

FROM ${BASE}
COPY --from=build /tutti/build/tutti_*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/tutti_*.deb libopenblas0-serial openssh-client \
    && rm -rf /tmp/tutti_*.deb /var/lib/apt/lists/* && useradd --create-home trainer
# Open MPI refuses to run as root, and files of a mounted folder should not belong to root.
USER trainer
WORKDIR /work
CMD ["trainer", "--help"]
