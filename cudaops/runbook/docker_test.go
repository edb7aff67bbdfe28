package runbook

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aicplan/sink/base/testutil"
)

// standInDocker stores its containers in a file, and fails or hangs if a file requests it.
const standInDocker = `#!/bin/sh
cd "$(dirname "$0")"
while test -e hangs; do sleep 0.05; done
if test -e dead; then echo 'Cannot connect to the Docker daemon' >&2; exit 1; fi
case $1 in
ps) cat containers ;;
rm) echo "$3" >> removed ;;
esac
`

// dockerFor puts a docker stand-in with one container first in PATH.
func dockerFor(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	testutil.WriteProgram(t, filepath.Join(dir, "docker"), standInDocker)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if err := os.WriteFile(filepath.Join(dir, "containers"), []byte("others\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestContainers checks that new containers are removed, but none if the earlier ones are unknown.
func TestContainers(t *testing.T) {
	for _, c := range []struct {
		name, dead, setup string
		cleanup           []string
		removed, wrong    string
	}{
		{name: "well", setup: "echo ours >> $D/containers", cleanup: []string{"container ours"}, removed: "ours\n"},
		{name: "comes up", dead: "dead", setup: "rm $D/dead",
			wrong: "no container was removed, since those of before are not known (docker ps: Cannot connect to the Docker " +
				"daemon)"},
		{name: "goes down", setup: "echo ours >> $D/containers; touch $D/dead",
			wrong: "containers that the blocks have started may be left: docker ps: Cannot connect to the Docker daemon"},
		{name: "never was", dead: "dead", setup: "true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := dockerFor(t)
			t.Setenv("D", dir)
			if c.dead != "" {
				if err := os.WriteFile(filepath.Join(dir, c.dead), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			block := func(text string) *Block { return &Block{Kind: Setup, Place: "p.md:1", Text: text, Fences: 1} }
			s := Server{Name: "x", Setup: block(c.setup + "; touch ready"), Health: block("test -f ready"),
				Runs: []Block{*block("true")}}
			res := Execute(t.Context(), s, options(t, &out))
			// the file does not exist if none was removed
			removed, _ := os.ReadFile(filepath.Join(dir, "removed"))
			if !slices.Equal(slices.DeleteFunc(res.Cleanup, func(s string) bool { return strings.HasPrefix(s, "process") }),
				c.cleanup) || string(removed) != c.removed {
				t.Errorf("removed %q; %+v", removed, res)
			}
			if !strings.HasPrefix(res.CleanupError, c.wrong) || (c.wrong == "") != (res.CleanupError == "") {
				t.Errorf("got %q\nwant %q", res.CleanupError, c.wrong)
			}
		})
	}
}

// TestInterruptBeforeTheSetup checks that an interrupt before the set-up starts nothing and removes no
// container.
func TestInterruptBeforeTheSetup(t *testing.T) {
	dir := dockerFor(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	block := func(text string) *Block { return &Block{Kind: Setup, Place: "p.md:1", Text: text, Fences: 1} }
	o := options(t, &out)
	res := Execute(ctx, Server{Name: "x", Setup: block("touch begun"), Health: block("true"),
		Runs: []Block{*block("true")}}, o)
	if res.Setup != "interrupted before the set-up" || res.OK() {
		t.Errorf("%+v", res)
	}
	for _, path := range []string{filepath.Join(dir, "removed"), filepath.Join(o.Dir, "begun")} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
}

// TestDockerCommandTimesOut checks that a hanging docker daemon does not block a run.
func TestDockerCommandTimesOut(t *testing.T) {
	dir := dockerFor(t)
	if err := os.WriteFile(filepath.Join(dir, "hangs"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := docker(t.Context(), time.Millisecond, "rm", "-f", "ours"); err == nil ||
		err.Error() != "docker rm did not end within 1ms: is its daemon well?" {
		t.Errorf("%q, %v", out, err)
	}
}
