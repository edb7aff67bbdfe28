#!/usr/bin/env bash
# A Slurm of four nodes on this one host, for tests: munged, slurmctld and four
# slurmd, on the loopback interface, without systemd.
#   slurm.sh start DIR [N] DIR must not exist; returns when all nodes are idle; N
#                          nodes instead of four
#   slurm.sh stop DIR
#   slurm.sh lose DIR N    node N (from 0) dies: its slurmd and all that it runs
# Afterwards SLURM_CONF=DIR/etc/slurm.conf is all that its commands need.
# Needs root, and: apt-get install --no-install-recommends slurm-wlm munge
set -euo pipefail
what=${1:?start, stop or lose} dir=${2:?a folder}
PATH=$PATH:/usr/sbin:/sbin
nodes=4
[ "$what" != start ] || nodes=${3:-4}
export SLURM_CONF=$dir/etc/slurm.conf

# Pids are reused: is this one still the daemon of that name?
is() { [ "$(cat "/proc/$1/comm" 2>/dev/null)" = "${2%%.*}" ]; }

# The processes that run jobs hold the log of their slurmd open.
steps() {
  local p fd
  for p in /proc/[0-9]*; do
    [ "$(cat "$p/comm" 2>/dev/null)" = slurmstepd ] || continue
    for fd in "$p"/fd/*; do
      case $(readlink "$fd" 2>/dev/null) in "$dir/log/slurmd.${1:-}"*) echo "${p#/proc/}"; break ;; esac
    done
  done
}
family() { local c; echo "$1"; for c in $(cat /proc/"$1"/task/*/children 2>/dev/null); do family "$c"; done; }

stop() {
  [ -e "$dir/pids" ] || return 0
  timeout 5 scancel --user=root >/dev/null 2>&1 || true
  local p name pid
  for p in $(steps); do for pid in $(family "$p"); do kill -KILL "$pid" 2>/dev/null || true; done; done
  tac "$dir/pids" | while read -r name pid; do is "$pid" "$name" && kill -KILL "$pid"; done || true
  rm -f "$dir/pids"
}

# The first of as many ports as there are daemons. They listen a moment later, so that
# none may be of those that the kernel gives to connections meanwhile.
port() { python3 -c 'import random, socket
first, last = map(int, open("/proc/sys/net/ipv4/ip_local_port_range").read().split())
low, high = (20000, first) if first > 21000 else (1024, first) if first > 2048 else (last, 65535)
if high - low < 100: low, high = 1024, 65535  # it keeps none back
for tries in range(1000):
    base, held = random.randrange(low, high - '$nodes' - 1), []
    try:
        for i in range('$((nodes + 1))'):
            held.append(socket.socket()); held[-1].bind(("127.0.0.1", base + i))
        print(base); break
    except OSError: pass
    finally: [s.close() for s in held]'; }

case $what in
stop) stop ;;
lose)
  node=n${3:?a number}
  pid=$(awk -v n="slurmd.$node" '$1 == n {print $2}' "$dir/pids")
  all=; for p in $(steps "$node"); do all="$all $(family "$p" | tr '\n' ' ')"; done
  is "$pid" slurmd && kill -KILL "$pid"
  for p in $all; do kill -KILL "$p" 2>/dev/null || true; done
  # Slurm finds out by itself after SlurmdTimeout; told, it acts at once.
  scontrol update nodename="$node" state=down reason=test ;;
start)
  [ ! -e "$dir" ] || { echo "$dir is there already" >&2; exit 4; }
  mkdir -p "$dir"/{munge,state,log,etc,dev} && chmod 755 "$dir" "$dir/munge"
  port=$(port) host=$(hostname -s) last=$((nodes - 1))
  for ((i = 0; i < nodes; i++)); do mkdir -p "$dir/spool/n$i"; done
  : > "$dir/pids"
  trap 'rc=$?; [ $rc = 0 ] || { tail -n 5 "$dir"/log/*.log "$dir"/munge/*.log >&2 || true; stop; }' EXIT
  # A task sees its GPUs' numbers only where gres.conf names devices.
  gpus="File=$dir/dev/gpu[0-3]"
  for g in 0 1 2 3; do mknod -m 666 "$dir/dev/gpu$g" c 1 3 2>/dev/null || gpus="Count=4"; done
  echo "NodeName=n[0-$last] Name=gpu Type=fake $gpus" > "$dir/etc/gres.conf"
  # No limits are set: this plugin needs no mounted hierarchy and no systemd.
  echo "CgroupPlugin=cgroup/v1" > "$dir/etc/cgroup.conf"
  cat > "$SLURM_CONF" <<CONF
ClusterName=aictest
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$port
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
PropagateResourceLimits=NONE
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SlurmdTimeout=10
KillWait=5
MessageTimeout=5
CompleteWait=0
ReturnToService=2
JobRequeue=1
GresTypes=gpu
NodeName=n[0-$last] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:fake:4 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  (umask 077; head -c 128 /dev/urandom > "$dir/munge/key")
  munged --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" --log-file="$dir/munge/munged.log" --seed-file="$dir/munge/seed" --num-threads=2
  echo "munged $(cat "$dir/munge/pid")" >> "$dir/pids"
  setsid slurmctld -D -i -f "$SLURM_CONF" </dev/null >"$dir/log/slurmctld.out" 2>&1 &
  echo "slurmctld $!" >> "$dir/pids"
  for ((i = 0; i < nodes; i++)); do
    setsid slurmd -D -N "n$i" -f "$SLURM_CONF" </dev/null >"$dir/log/slurmd.n$i.out" 2>&1 &
    echo "slurmd.n$i $!" >> "$dir/pids"
  done
  for ((t = 0; t < 300; t++)); do
    idle=$(timeout 2 sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l) || idle=0
    [ "$idle" -ge $nodes ] && exit 0
    sleep 0.1
  done
  echo "$idle of $nodes nodes are idle after 30 s" >&2
  exit 1 ;;
*) echo "start, stop or lose, not $what" >&2; exit 2 ;;
esac
