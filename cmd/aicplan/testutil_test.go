package main

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

	"aicplan/sink/base/testutil"
)

func TestRounds(t *testing.T) {
	for value, want := range map[string]int{"": 2, "1": 9} {
		t.Setenv(testutil.AllVariable, value)
		if got := testutil.Rounds(2, 9); got != want {
			t.Errorf("with %q %d rounds, want %d", value, got, want)
		}
		went := false
		t.Run("skip", func(t *testing.T) {
			testutil.SkipUnlessAll(t)
			went = true
		})
		if went != (value != "" && !testing.Short()) {
			t.Errorf("with %q a long test runs: %v", value, went)
		}
	}
}

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
				testutil.WriteProgram(t, path, "#!/bin/sh\n")
				if err := exec.Command(path).Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

var written = regexp.MustCompile(`os\.WriteFile\(.*, 0o7\d\d\)`)

// TestProgramsAreWrittenHere checks that no test writes a program in another way.
func TestProgramsAreWrittenHere(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			if written.MatchString(line) {
				t.Errorf("%s:%d: write programs with testutil.WriteProgram, or starting them fails now and then: %s",
					path, i+1, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
