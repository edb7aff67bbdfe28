// Package scripttest writes programs that a test runs.
package scripttest

import (
	"os"
	"syscall"
	"testing"
)

// Write writes a program that can be started at once. A file that is open for writing
// cannot be started (ETXTBSY, "text file busy"), also not where the writer has closed
// it: a child that another goroutine forked meanwhile has the open file until it runs
// its own program. So none is forked while this writes.
func Write(tb testing.TB, path, text string) {
	tb.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		tb.Fatal(err)
	}
}
