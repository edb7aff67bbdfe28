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

var (
	function = regexp.MustCompile(`^func (\w+)\(`)
	call     = regexp.MustCompile(`testutil\.(All|SkipUnlessAll|Rounds)\(`)
)

// TestCallsAreFound: make test-all finds the tests that call All, SkipUnlessAll or Rounds by their
// names. A call in another function would leave its tests out.
func TestCallsAreFound(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "testutil") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := ""
		for i, line := range strings.Split(string(text), "\n") {
			if m := function.FindStringSubmatch(line); m != nil {
				name = m[1]
			}
			if !call.MatchString(line) {
				continue
			}
			found++
			// Scripts use a condition instead.
			if !strings.HasPrefix(name, "Test") && name != "scriptCondition" {
				t.Errorf("%s:%d: %s calls testutil; call it in the test function, so that make test-all finds it",
					path, i+1, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 2 {
		t.Errorf("%d calls", found)
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
