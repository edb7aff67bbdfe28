package runtimes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aicplan/engine/stage"
)

// Errors of the state folder or the disk end the run, because another container would not help. Errors
// of the runtime do not.
func TestFault(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hosts"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	get := func() error {
		t.Helper()
		p := NewPools(Kinds())
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		rt := &stage.Runtime{Kind: "python", Address: "runtime.py", Launcher: []string{"env"}, Image: "x"}
		_, err := p.Get(t.Context(), rt, Place{StateDir: dir, RunDir: filepath.Join(dir, "run")})
		return err
	}
	if err := get(); !Fault(err) || !strings.Contains(err.Error(), filepath.Join(dir, "hosts")) {
		t.Errorf("a folder that is a file: %v", err)
	}
	if err := fmt.Errorf("worker log: %w", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}); !Fault(err) {
		t.Errorf("a full disk: %v", err)
	}
	if err := (&Missing{What: "python3.99 is not here"}); Fault(err) {
		t.Errorf("an interpreter that is not here: %v", err)
	}
}
