// Package contract holds tests of aicplan from outside: they run the real binary
// and check exit codes, fields of --json and files, not prose. The package
// imports no other package of this module but sink/base/testutil, so that its tests
// survive any change of the internals.
//
// What is covered:
//
//   - cases_test.go: the case lists of the three backend plans, as counts and a
//     digest of the parameters of each grid. A normal run reads the H200's counts
//     and every twentieth of its lists, and the counts of each backend on one other
//     system; if AICPLAN_TEST_ALL is set (make test-all), it reads all systems.
//   - plans_test.go: counts of the other shipped plans, why, modules, parts,
//     for_each, variables, sweeps and selections; diff, data lint, data matrix,
//     reports, publish into a git repository, and what a plan with an executor
//     would submit
//   - exports_test.go: the bytes of exports in every layout and format with the
//     files beside them, that a second apply writes the same bytes, and that
//     imports read them again
//   - collect_test.go: classes of failures, retries, breaker, ramp, deadline,
//     rules, gates with JUnit, preflights, locks, what a change makes stale,
//     saved plans, verify and history
//   - killed_test.go: runs that are killed, interrupted or out of disk space:
//     nothing is lost or measured twice, and the export is that of an
//     undisturbed run
//   - soak_test.go: fault trials for as long as -soak gives, see make soak
//   - serving_test.go: load on a server of the test with known delays, AIPerf's
//     files, conversations, traces, errors, cancelled requests and telemetry
//   - apikey_test.go: keys in a header of the server's choice, URLs with a query,
//     and secrets in URLs
//   - trace_test.go: the figures of the shipped traces
//   - consumer_test.go: the answers of the real aiconfigurator from its own
//     tables and from exports of them. The test skips if the package is not
//     installed; make contract-consumer installs it.
//
// TestMain builds the binary; AICPLAN_CONTRACT_BIN names one to use instead.
//
// After a wanted change make golden records the files in testdata anew, or
//
//	AICPLAN_TEST_ALL=1 go test ./cmd/aicplan/contract -update -timeout 30m
//
// Without AICPLAN_TEST_ALL the case lists stay as they are. With
// AICPLAN_CONTRACT_PYTHON=bin/consumer/bin/python the consumer's answers are
// recorded too. The commit that changes a golden file names the reason.
package contract
