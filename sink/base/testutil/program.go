package testutil

import (
	"os"
	"syscall"
	"testing"
)

// WriteProgram writes an executable file that can be started at once. A child that
// another goroutine forks holds every open file until it runs its own program, and a file
// that is open for writing cannot be started (ETXTBSY). WriteProgram therefore prevents
// forks while the file is open.
func WriteProgram(tb testing.TB, path, text string) {
	tb.Helper()

	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()

	if err != nil {
		tb.Fatal(err)
	}
}
