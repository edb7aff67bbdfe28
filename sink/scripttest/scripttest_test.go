package scripttest_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"aicplan/sink/scripttest"
)

// TestWrittenProgramsStart: also while other goroutines start theirs. Without the
// lock one in ten does not.
func TestWrittenProgramsStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 10 {
				path := filepath.Join(dir, fmt.Sprint(i, "-", n))
				scripttest.Write(t, path, "#!/bin/sh\n")
				if err := exec.Command(path).Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

var program = regexp.MustCompile(`os\.WriteFile\(.*, 0o7\d\d\)`)

// TestProgramsAreWrittenHere: no test writes a program in a way of its own.
func TestProgramsAreWrittenHere(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			if program.MatchString(line) {
				t.Errorf("%s:%d: write programs with scripttest.Write, or starting them fails now and then: %s", path, i+1, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
