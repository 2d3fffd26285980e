#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cluster.sh -- a cluster on one machine: hosts that are network namespaces behind a bridge, each with a link of limited rate, a name and
# cores of its own, and what mpiexec needs to start ranks on them. docs/cluster.md says how it is used and what it is not.
set -euo pipefail

usage() {
  cat <<'TEXT'
cluster.sh up N [--rate 100mbit|none] [--cores-per-host C] [--name NAME]   make N hosts; the rate holds for each direction of each link
cluster.sh run [mpiexec options] PROGRAM...                                mpiexec on these hosts, a rank per core
cluster.sh exec HOST COMMAND...                                            on one host, by number or name
cluster.sh rate RATE                                                       another rate for all links
cluster.sh status | down                                                   what there is; end its processes and remove it
--name NAME, before or behind the command word, tells clusters apart ("tutti" otherwise): a letter, then up to 10 letters and digits.
TEXT
}

die() { printf 'cluster.sh: %s\n' "$*" >&2; exit 1; }

base=/run/tutti-cluster
name=tutti
rate=none
cores_per_host=1

take_name() {
  [[ ${1-} =~ ^[a-z][a-z0-9]{0,10}$ ]] || die "--name wants a small letter and up to 10 small letters and digits, not '${1-}'"
  name=$1
}

need_root() {
  [ "$(id -u)" -eq 0 ] || die "network namespaces need root: run it as root, or through sudo"
  local tool
  for tool in ip:iproute2 tc:iproute2 unshare:util-linux flock:util-linux taskset:util-linux; do
    command -v "${tool%:*}" >/dev/null || die "the command ${tool%:*} is missing: apt-get install ${tool#*:}"
  done
}

# One at a time makes or removes. Commands that a killed up leaves behind still hold the lock: down waits for their end.
lock() {
  mkdir -p "$base"
  exec {lock_fd}>"$base/.lock"
  flock "$lock_fd"
}

there() { [ -d "$base/$name" ]; }
need_cluster() { there || die "there is no cluster '$name': cluster.sh up N --name $name makes one"; }

# What is about to be made is written down first, so that down finds it whatever happens in between.
note() { printf '%s\n' "$*" >>"$base/$name/made"; }

# "first-last,..." as one number a line.
cpu_numbers() {
  local part
  for part in ${1//,/ }; do seq "${part%-*}" "${part#*-}"; done
}

bits_per_second() {
  [[ $1 =~ ^([0-9]+)(kbit|mbit|gbit)$ ]] || die "a rate is a whole number of kbit, mbit or gbit, or none; not '$1'"
  local unit=1000
  case ${BASH_REMATCH[2]} in mbit) unit=1000000 ;; gbit) unit=1000000000 ;; esac
  [ "${BASH_REMATCH[1]}" -gt 0 ] || die "a rate is more than nothing, not '$1'"
  echo $((BASH_REMATCH[1] * unit))
}

# Both ends of every link: what a host sends and what it gets. The bucket holds a millisecond of data; the queue 50, and at least
# 256 kB, as the port of a switch, so that many senders to one host do not lose their packets on slow links. Hosts
# hand over a few packets at a time, as to a card that segments by itself: the bucket would cut anything larger than itself
# into packets with a timer for each, which costs the cores a third of their time.
set_rate() {
  local host bits burst=0 queue=0
  if [ "$rate" != none ]; then
    bits=$(bits_per_second "$rate")
    burst=$((bits / 8000))
    [ $burst -ge 15000 ] || burst=15000
    queue=$((burst + bits / 160))
    [ $queue -ge 256000 ] || queue=256000
  fi
  for host in "${hosts[@]}"; do
    if [ "$rate" = none ]; then
      tc qdisc del dev "$host" root 2>/dev/null || true
      tc -n "$host" qdisc del dev eth0 root 2>/dev/null || true
      ip -n "$host" link set eth0 gso_max_size 65536
    else
      tc qdisc replace dev "$host" root tbf rate "$rate" burst $burst limit $queue
      tc -n "$host" qdisc replace dev eth0 root tbf rate "$rate" burst $burst limit $queue
      ip -n "$host" link set eth0 gso_max_size $((burst * 4 / 5 < 65536 ? burst * 4 / 5 : 65536))
    fi
  done
  echo "$rate" >"$base/$name/rate"
}

read_cluster() {
  mapfile -t hosts < <(cut -d' ' -f1 "$base/$name/hostfile" 2>/dev/null)
  rate=$(cat "$base/$name/rate" 2>/dev/null || echo '?')
}

free_subnet() {
  local k taken
  taken=$(ip -4 -o addr show; ip -4 route show table all)
  for k in $(seq 1 254); do
    [[ $taken == *" 10.213.$k."* ]] || { echo "10.213.$k"; return; }
  done
  die "all networks 10.213.1.0 to 10.213.254.0 are in use"
}

# A group of processes that sees only the host's cores, so that mpiexec binds ranks to these; prints the file that takes
# process numbers, or nothing where the kernel or a container does not allow it (the agent then sets the affinity alone).
make_cpuset() {
  local host=$1 cores=$2 root=/sys/fs/cgroup directory
  if [ -f $root/cpuset/cpuset.cpus ]; then
    directory=$root/cpuset/tutti-cluster-$host
  elif grep -qw cpuset $root/cgroup.controllers 2>/dev/null; then
    directory=$root/tutti-cluster-$host
  else
    return 0
  fi
  [ ! -e "$directory" ] || return 0
  note "cgroup $directory"
  mkdir "$directory" 2>/dev/null || return 0
  if [ -f $root/cpuset/cpuset.cpus ]; then cat $root/cpuset/cpuset.mems >"$directory/cpuset.mems" 2>/dev/null || return 0; fi
  echo "$cores" 2>/dev/null >"$directory/cpuset.cpus" || return 0
  echo "$directory/cgroup.procs"
}

not_there() {
  [ ! -e "$3" ] || die "there is a $1 '$2' already that this cluster has not made; use another --name"
}

# Hosts have cubic as congestion control, Linux's default: with bbr, links that are full in both directions pass a quarter
# less. A new namespace copies the machine's. If it cannot be changed there, the machine has cubic while the namespace is
# made, and then its own again.
congestion=/proc/sys/net/ipv4/tcp_congestion_control
make_namespace() {
  local found
  ip netns add "$1"
  [ -e $congestion ] || return 0
  if ip netns exec "$1" sh -c "echo cubic >$congestion" 2>/dev/null; then return; fi
  cat $congestion >"$base/$name/congestion"  # remove puts it back if this script is killed
  if echo cubic 2>/dev/null >$congestion; then
    ip netns del "$1"
    ip netns add "$1"
    cat "$base/$name/congestion" >$congestion
  fi
  rm "$base/$name/congestion"
  found=$(ip netns exec "$1" cat $congestion 2>/dev/null) || found='the machine'\''s'
  [ "$found" = cubic ] || echo "cluster.sh: cubic cannot be set here; host $1 uses $found" >&2
}

make_host() {
  local host=$1 address=$2 cores=$3 member=
  not_there netns "$host" "/run/netns/$host"
  not_there interface "$host" "/sys/class/net/$host"
  not_there directory "/etc/netns/$host" "/etc/netns/$host"
  note "netns $host"
  make_namespace "$host"
  [ -d /etc/netns ] || { note "directory /etc/netns"; mkdir /etc/netns; }
  note "files /etc/netns/$host"
  mkdir "/etc/netns/$host"
  cp "$base/$name/hosts" "/etc/netns/$host/hosts"
  : >"/etc/netns/$host/resolv.conf"  # there is no name server to wait for
  note "link $host"
  ip link add "$host" type veth peer name eth0 netns "$host"
  ip link set "$host" master "$name-net" up
  ip -n "$host" addr add "$address/24" dev eth0
  ip -n "$host" link set eth0 up
  ip -n "$host" link set lo up
  member=$(make_cpuset "$host" "$cores")
  printf '%s %s %s\n' "$host" "$cores" "${member:--}" >>"$base/$name/cores"
}

# The remote shell of mpiexec: AGENT HOST WORDS... runs the words there, as ssh would.
write_agent() {
  cat >"$base/$name/agent" <<AGENT
#!/usr/bin/env bash
# Runs a command on a host of the cluster '$name', as ssh would. Made by cluster.sh.
while [[ \${1-} == -* ]]; do shift; done
host=\$1
shift
read -r _ cores member < <(grep "^\$host " '$base/$name/cores') || { echo "cluster '$name' has no host '\$host'" >&2; exit 255; }
[ "\$member" = - ] || echo \$\$ >"\$member"
export TUTTI_CLUSTER_WORDS="\$*"
$([ "$shared" -eq 0 ] || echo 'export OMPI_MCA_mpi_yield_when_idle=1  # hosts share cores')
exec ip netns exec "\$host" unshare --uts bash -c 'hostname "\$1" && exec taskset -c "\$2" sh -c "\$TUTTI_CLUSTER_WORDS"' - "\$host" "\$cores"
AGENT
  chmod +x "$base/$name/agent"
}

up() {
  local n=$1 i cores subnet address
  [[ $n =~ ^[1-9][0-9]?$ ]] || die "up wants a number of hosts from 1 to 99, not '$n'"
  [[ $cores_per_host =~ ^[1-9][0-9]*$ ]] || die "--cores-per-host wants a number, not '$cores_per_host'"
  [ "$rate" = none ] || bits_per_second "$rate" >/dev/null
  local cpus
  mapfile -t cpus < <(cpu_numbers "$(taskset -cp $$ | sed 's/.*: //')")
  [ "$cores_per_host" -le ${#cpus[@]} ] || die "--cores-per-host $cores_per_host: this machine has ${#cpus[@]}"
  need_root
  lock
  ! there || die "cluster '$name' is up already (or half made): cluster.sh down --name $name removes it"
  not_there interface "$name-net" "/sys/class/net/$name-net"

  shared=0
  [ $((n * cores_per_host)) -le ${#cpus[@]} ] || shared=1
  mkdir -p "$base/$name"
  : >"$base/$name/made"
  trap take_back EXIT
  trap 'exit 130' INT TERM HUP
  subnet=$(free_subnet)
  hosts=()
  for ((i = 1; i <= n; ++i)); do hosts+=("$name-$i"); done
  { echo "127.0.0.1 localhost"; for ((i = 1; i <= n; ++i)); do echo "$subnet.$i $name-$i"; done; } >"$base/$name/hosts"
  note "link $name-net"
  ip link add "$name-net" type bridge
  ip addr add "$subnet.254/24" dev "$name-net"
  ip link set "$name-net" up
  for ((i = 1; i <= n; ++i)); do
    cores=
    for ((c = 0; c < cores_per_host; ++c)); do cores+=,${cpus[$((((i - 1) * cores_per_host + c) % ${#cpus[@]}))]}; done
    make_host "$name-$i" "$subnet.$i" "${cores#,}"
    echo "$name-$i slots=$cores_per_host" >>"$base/$name/hostfile"
  done
  write_agent
  set_rate
  trap - EXIT INT TERM HUP
  describe
}

mpiexec_words() {
  words=(mpiexec --hostfile "$base/$name/hostfile" --mca plm_rsh_agent "$base/$name/agent")
  if grep -q ' -$' "$base/$name/cores"; then words+=(--bind-to none); fi
}

describe() {
  local host cores
  echo "cluster '$name': ${#hosts[@]} hosts, rate $rate"
  while read -r host cores _; do
    echo "  $host  $(grep " $host\$" "$base/$name/hosts" | cut -d' ' -f1)  cores $cores  $(ip netns pids "$host" 2>/dev/null | wc -l) processes"
  done <"$base/$name/cores"
  mpiexec_words
  echo "hostfile $base/$name/hostfile"
  echo "agent    $base/$name/agent"
  echo "  ${words[*]} PROGRAM..."
}

end_processes() {
  local signal pids kind what
  for signal in TERM KILL; do
    mapfile -t pids < <(
      while read -r kind what; do
        case $kind in
          netns) ip netns pids "$what" 2>/dev/null || true ;;
          cgroup) cat "$what/cgroup.procs" 2>/dev/null || true ;;
        esac
      done <"$base/$name/made"
    )
    [ ${#pids[@]} -gt 0 ] || return 0
    kill -$signal "${pids[@]}" 2>/dev/null || true
    sleep 0.3
  done
}

# Everything that has been noted, last first. Nothing else is touched.
remove() {
  local kind what
  touch "$base/$name/made"
  end_processes
  while read -r kind what; do
    case $kind in
      link) ip link del "$what" 2>/dev/null || true ;;
      netns) ip netns del "$what" 2>/dev/null || true ;;
      files) rm -rf -- "$what" ;;
      directory) rmdir "$what" 2>/dev/null || true ;;
      cgroup) rmdir "$what" 2>/dev/null || { sleep 0.2; rmdir "$what" 2>/dev/null; } || true ;;
    esac
  done < <(tac "$base/$name/made")
  [ ! -f "$base/$name/congestion" ] || cat "$base/$name/congestion" 2>/dev/null >$congestion || true
  rm -rf -- "${base:?}/$name"
}

# An up that ends before its end, with the reason it ended with.
take_back() {
  local status=$?
  trap - EXIT
  remove
  echo "cluster.sh: what had been made of cluster '$name' is removed again" >&2
  exit $status
}

host_name_of() {
  local wanted=$1 host
  [[ $wanted =~ ^[0-9]+$ ]] && wanted=$name-$wanted
  for host in "${hosts[@]}"; do
    if [ "$host" = "$wanted" ]; then echo "$host"; return; fi
  done
  die "cluster '$name' has no host '$1': ${hosts[*]}"
}

command=
positional=()
while [ $# -gt 0 ]; do
  case $1 in
    --name) take_name "${2-}"; shift 2 ;;
    --name=*) take_name "${1#*=}"; shift ;;
    --rate) [ $# -ge 2 ] || die "--rate wants a rate"; rate=$2; shift 2 ;;
    --rate=*) rate=${1#*=}; shift ;;
    --cores-per-host) [ $# -ge 2 ] || die "--cores-per-host wants a number"; cores_per_host=$2; shift 2 ;;
    --cores-per-host=*) cores_per_host=${1#*=}; shift ;;
    -h | --help | help) usage; exit 0 ;;
    -*) if [ -z "$command" ] || { [ "$command" != run ] && [ "$command" != exec ]; }; then die "there is no option '$1'; cluster.sh --help lists them"; fi; positional+=("$@"); break ;;
    *)
      if [ -z "$command" ]; then command=$1; shift; continue; fi
      if [ "$command" = run ] || [ "$command" = exec ]; then positional+=("$@"); break; fi
      positional+=("$1"); shift ;;
  esac
done
set -- "${positional[@]}"

expect() { [ "$1" -eq "$2" ] || die "$command takes $2 argument(s), not $1; cluster.sh --help lists the commands"; }

case $command in
  up) expect $# 1; up "$1" ;;
  down)
    expect $# 0; need_root; lock; need_cluster; remove
    ;;
  status)
    expect $# 0; need_cluster; read_cluster
    [ "$rate" != '?' ] || die "cluster '$name' is half made: cluster.sh down --name $name removes it"
    describe
    ;;
  rate) expect $# 1; need_root; need_cluster; read_cluster; rate=$1; set_rate ;;
  exec)
    [ $# -ge 2 ] || die "exec wants a host and a command"
    need_root; need_cluster; read_cluster
    host=$(host_name_of "$1"); shift
    exec "$base/$name/agent" "$host" "$(printf '%q ' "$@")"
    ;;
  run)
    [ $# -ge 1 ] || die "run wants a program"
    need_root; need_cluster; mpiexec_words
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    exec "${words[@]}" "$@"
    ;;
  '') usage >&2; exit 1 ;;
  *) die "there is no command '$command'; cluster.sh --help lists them" ;;
esac
