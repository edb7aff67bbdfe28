// Package longtest parts the tests. make test runs every package and every kind of
// check; what repeats a check many more times, or on more plans of the same kind,
// runs in make test-all.
package longtest

import (
	"os"
	"testing"
)

// Variable of the environment has all of the tests run. make test-all finds those
// to run by the name of the test around a call of this package.
const Variable = "AICPLAN_TEST_ALL"

// All is true where all tests run.
func All() bool { return os.Getenv(Variable) != "" }

// Skip ends a test that is for make test-all only; with -short, as under the race
// detector, in any case.
func Skip(tb testing.TB) {
	tb.Helper()
	if !All() || testing.Short() {
		tb.Skip("runs in make test-all, or with " + Variable + "=1")
	}
}

// Rounds is how often a test repeats what it does: all times where all tests run,
// and few times otherwise.
func Rounds(few, all int) int {
	if All() {
		return all
	}
	return few
}
