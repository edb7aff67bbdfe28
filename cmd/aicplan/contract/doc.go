// Package contract holds tests of aicplan from outside: they run the real binary
// and check exit codes, fields of -json and files, never prose. The package
// imports no other package of this module, so that its tests survive any change
// of the internals.
//
// What is covered:
//
//   - the case lists of the three backend plans: counts and a digest of the
//     parameters for each grid, on the H200 in a normal run and on all systems
//     if AICPLAN_TEST_ALL is set (make test-rest)
//   - the bytes of exports in every layout and format, with the files beside
//     them, and that what was written is read again
//   - the figures of traces
//   - runs that are killed, interrupted or out of disk space: nothing is lost,
//     nothing is measured twice, and the export is that of an undisturbed run
//
// TestMain builds the binary; AICPLAN_CONTRACT_BIN names one that is there.
//
// After a wanted change make golden records the files in testdata anew, or
//
//	AICPLAN_TEST_ALL=1 go test ./cmd/aicplan/contract -update -timeout 30m
//
// Without AICPLAN_TEST_ALL the case lists stay as they are. The commit that
// changes a golden file says why.
package contract
