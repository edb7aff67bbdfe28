package publish

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/testutil"
)

// standInGH records its calls and keeps one pull request.
const standInGH = `#!/bin/sh
printf '%s\n' "$*" >> "$GH_STATE/calls"
while [ $# -gt 2 ]; do
	case "$1 $2" in
	"pr list") if [ -e "$GH_STATE/open" ]; then cat "$GH_STATE/open"; fi; exit ;;
	"pr create") echo https://github.example/o/r/pull/7 > "$GH_STATE/open"; created=yes ;;
	esac
	if [ "$1" = --body-file ]; then cp "$2" "$GH_STATE/body"; fi
	shift
done
if [ -n "$created" ]; then cat "$GH_STATE/open"; fi
`

func draft(b *bench, remote string) *Config {
	git(b.t, b.repo, "remote", "add", "origin", remote)
	return b.config(func(c *Config) {
		c.Push, c.Remote = true, "origin"
		c.Draft = &Draft{Repository: "o/r", Owner: "ann", Title: "H200 data; $(touch pwned) `x`"}
	})
}

// TestDraftIsOpenedOnceAndUpdated pushes a branch and opens a draft pull request,
// whose text a second run replaces.
func TestDraftIsOpenedOnceAndUpdated(t *testing.T) {
	b, remote, state := newBench(t), t.TempDir(), t.TempDir()
	git(t, remote, "init", "-q", "--bare")
	testutil.WriteProgram(t, filepath.Join(state, "gh"), standInGH)
	t.Setenv("PATH", state+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("GH_STATE", state)
	cfg := draft(b, remote)

	out := b.must(cfg)
	const url = "https://github.example/o/r/pull/7"
	if got := out.Values["pull_request"]; !got.RawEquals(cty.StringVal(url)) ||
		!strings.HasSuffix(out.Message, "opened "+url) {
		t.Errorf("%#v: %s", got, out.Message)
	}

	log := git(t, remote, "log", "-1", "--format=%s%n%(trailers:key=Signed-off-by)", "data/h200", "--")
	if want := "add H200 perf data\nSigned-off-by: Ann Engineer <ann@example.com>"; strings.TrimSpace(log) != want {
		t.Errorf("commit %q, want %q", log, want)
	}

	if body, err := os.ReadFile(filepath.Join(state, "body")); err != nil ||
		!strings.HasPrefix(string(body), "# Release") {
		t.Errorf("text %q, %v", body, err)
	}

	if out = b.must(cfg); !strings.HasSuffix(out.Message, "updated "+url) {
		t.Errorf("second run: %s", out.Message)
	}

	calls, err := os.ReadFile(filepath.Join(state, "calls"))
	if err != nil || strings.Count(string(calls), "pr create") != 1 ||
		!strings.Contains(string(calls), "--head ann:data/h200 --base main --title H200 data; $(touch pwned) `x` --body-file") {
		t.Errorf("%v, calls:\n%s", err, calls)
	}
}

func TestDraftWithoutGH(t *testing.T) {
	b, remote := newBench(t), t.TempDir()
	git(t, remote, "init", "-q", "--bare")
	cfg := draft(b, remote)

	path := t.TempDir()
	if err := os.Symlink("/usr/bin/git", filepath.Join(path, "git")); err != nil {
		t.Fatal(err)
	}

	t.Setenv("PATH", path)

	if _, err := b.run(cfg); err == nil || !strings.Contains(err.Error(),
		"pull request is not up to date: gh is not installed") {
		t.Error(err)
	}
}

func TestDraftChecks(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"Draft without push": func(c *Config) { c.Push = false },
		"Wrong repository":   func(c *Config) { c.Draft.Repository = "r" },
		"Wrong owner":        func(c *Config) { c.Draft.Owner = "a/b" },
		"Wrong base":         func(c *Config) { c.Draft.Base = "a..b" },
		"Wrong title":        func(c *Config) { c.Draft.Title = "a\nb" },
	} {
		b := newBench(t)
		c := draft(b, t.TempDir())
		change(c)
		if diags := c.Check(&stage.CheckContext{}); !strings.Contains(diags.Error(), want) {
			t.Errorf("%s: %v", want, diags)
		}
	}
}
