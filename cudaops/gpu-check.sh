#!/bin/sh
# What claims to work on a GPU, tried on this machine's. Made by make gpu-check;
# needs no Go. The last line is PASS or FAIL.
here=$(cd "$(dirname "$0")" && pwd)
failed=""
try() {
    name=$1
    shift
    echo "== $name"
    if "$@"; then echo "== $name: ok"; else echo "== $name: FAILED"; failed="$failed $name"; fi
}
in_folder() {
    cd "$here/src/cudaops/$1" && shift && "$@"
}
try doctor "$here/aicplan" doctor --gpu
for p in ops doctor; do
    try "$p" in_folder "$p" "$here/$p.test" -test.run TestGPU -test.v
done
try comm in_folder comm "$here/comm.test" -test.run TestGPU -test.v -comm.gpus
AICPLAN_TEST_PYTHON=${AICPLAN_TEST_PYTHON:-$(command -v python3)}
export AICPLAN_TEST_PYTHON
try pyhost in_folder pyhost "$here/pyhost.test" -test.run 'TestTorchOps|TestHello|Routing' -test.v
state=$(mktemp -d)
try plan "$here/aicplan" --state-dir "$state/s" apply --smoke --target 'collect.*' "$here/src/plans/h200_cuda.hcl"
rm -rf "$state"
if [ -n "$failed" ]; then
    echo "FAIL:$failed"
    exit 1
fi
echo "PASS"
