// Package testutil holds what tests of several packages share: the split between make
// test and make test-all, programs that a test writes and starts, and a Python interpreter.
package testutil

import (
	"os"
	"testing"
)

// AllVariable is the environment variable that makes all tests run.
const AllVariable = "AICPLAN_TEST_ALL"

// All reports whether all tests run, as in make test-all.
func All() bool { return os.Getenv(AllVariable) != "" }

// SkipUnlessAll skips a test outside make test-all, and always with -short.
func SkipUnlessAll(tb testing.TB) {
	tb.Helper()

	if !All() || testing.Short() {
		tb.Skip("runs in make test-all, or with " + AllVariable + "=1")
	}
}

// Rounds returns how often a test repeats its check: all in make test-all, otherwise few.
func Rounds(few, all int) int {
	if All() {
		return all
	}
	return few
}
