#!/bin/sh
# A CI job around a plan. Arguments set its variables: --var, --var-file.
#
#   0  measured, judged, exported
#   1  the plan is wrong, or a stage broke
#   3  cases are missing, and the gates let that pass
#   4  a gate failed: nothing was exported
#   5  the machine is not fit to measure
#
# Left behind in $OUT (ci-out): junit.xml and gates.md of the gates, the report
# as report.html and report.md, the perf files of what passed. In a job of GitHub
# Actions the gates also become annotations and a step summary.
set -eu
cd "$(dirname "$0")"
out="${OUT:-ci-out}"
mkdir -p "$out"

echo "== the plan is well-formed"
aicplan fmt --check plan.hcl
aicplan validate "$@" plan.hcl

echo "== what it would do"
aicplan plan "$@" plan.hcl

echo "== do it"
code=0
aicplan apply --out-dir "$out" --junit "$out/junit.xml" --summary "$out/gates.md" "$@" plan.hcl || code=$?

echo "== what came of it"
# The report stage has written report.html already when the run got that far;
# this one also tells of runs that did not.
aicplan report --format markdown --out "$out/report.md"
if [ "$code" -ne 0 ]; then
  aicplan failures
fi

case "$code" in
  0) echo "Passed: $out holds the perf files and the report." ;;
  3) echo "Partial: see $out/report.md for what is missing." ;;
  4) echo "Stopped by a gate: see $out/gates.md; nothing was exported." ;;
  5) echo "This machine is not fit to measure: see the preflight above." ;;
  *) echo "Broken: see the message above." ;;
esac
exit "$code"
