package testutil

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
)

// TestWrittenProgramsStart starts programs while other goroutines start theirs. Without the
// lock one start in ten fails.
func TestWrittenProgramsStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 10 {
				path := filepath.Join(dir, fmt.Sprint(i, "-", n))
				WriteProgram(t, path, "#!/bin/sh\n")
				if err := exec.Command(path).Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

var program = regexp.MustCompile(`os\.WriteFile\(.*, 0o7\d\d\)`)

// TestProgramsAreWrittenHere checks that no test writes a program in another way.
func TestProgramsAreWrittenHere(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			if program.MatchString(line) {
				t.Errorf("%s:%d: write programs with testutil.WriteProgram, or starting them fails now and then: %s", path, i+1, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
