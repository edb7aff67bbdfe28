package publish

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// bench is a repository, an output folder with exports and a report.
type bench struct {
	t         *testing.T
	repo, out string
	finished  []stage.Finished
}

// git runs git outside the code under test, untouched by the user's settings.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()

	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}

	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

func newBench(t *testing.T) *bench {
	t.Helper()
	home := t.TempDir()
	for k, v := range map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": home, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": filepath.Join(home, "none"),
		"GIT_AUTHOR_NAME": "", "GIT_AUTHOR_EMAIL": "", "GIT_COMMITTER_NAME": "", "GIT_COMMITTER_EMAIL": "",
		// Nothing tidies up in the background while the test's folders are removed.
		"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "maintenance.auto", "GIT_CONFIG_VALUE_0": "false",
		"GIT_CONFIG_KEY_1": "gc.auto", "GIT_CONFIG_VALUE_1": "0",
	} {
		if v == "" {
			// Set first, so that the test's end restores it.
			t.Setenv(k, "x")
			if err := os.Unsetenv(k); err != nil {
				t.Fatal(err)
			}
			continue
		}

		t.Setenv(k, v)
	}

	b := &bench{t: t, repo: t.TempDir(), out: t.TempDir()}
	git(t, b.repo, "init", "-q", "-b", "main")
	git(t, b.repo, "config", "user.name", "Ann Engineer")
	git(t, b.repo, "config", "user.email", "ann@example.com")
	b.write(b.repo, "README.md", "a database\n")
	b.write(b.repo, "data/h200/gemm_perf.txt", "old\n")
	git(t, b.repo, "add", ".")
	git(t, b.repo, "commit", "-q", "-m", "start")
	b.export("export.gemm", "h200/gemm_perf.txt", "framework,latency\nTRTLLM,0.5\n", 1)
	b.export("export.moe", "h200/moe_perf.txt", "framework,latency\nTRTLLM,0.7\r\n", 1)
	b.export("report.r", "report.md", "# Release\n\n**Passed.** All is well.\n", 0)

	return b
}

func (b *bench) write(dir, name, text string) string {
	b.t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}

	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}

func (b *bench) export(address, name, text string, rows int) {
	path := b.write(b.out, name, text)
	kind, _, _ := strings.Cut(address, ".")
	b.finished = append(b.finished, stage.Finished{Address: address, Kind: kind, Outcome: &stage.Outcome{
		Status: stage.StatusOK, Artifacts: []stage.Artifact{{Path: path, Digest: fileutil.Digest([]byte(text)), Rows: rows}},
	}})
}

func ref(address string) cty.Value {
	kind, _, _ := strings.Cut(address, ".")
	return cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RefType,
		&stage.Ref{Address: address, Kind: kind})})
}

func (b *bench) config(change ...func(*Config)) *Config {
	c := Kind().New().(*Config)
	c.Value = cty.TupleVal([]cty.Value{ref("export.gemm"), ref("export.moe")})
	c.Report, c.Repository, c.Branch, c.Path, c.Message = ref("report.r"), b.repo, "data/h200", "data",
		"add H200 perf data"
	for _, f := range change {
		f(c)
	}
	return c
}

func (b *bench) run(c *Config) (*stage.Outcome, error) {
	b.t.Helper()
	if diags := c.Check(&stage.CheckContext{}); diags.HasErrors() {
		b.t.Fatal(diags)
	}
	return c.Run(context.Background(), &stage.RunContext{
		Address: "publish.git", OutDir: b.out, PlanDir: b.repo, Upstream: func() []stage.Finished { return b.finished },
	})
}

func (b *bench) must(c *Config) *stage.Outcome {
	b.t.Helper()
	out, err := b.run(c)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func TestCommit(t *testing.T) {
	b := newBench(t)
	before := git(t, b.repo, "status", "--porcelain")
	out := b.must(b.config())

	commit := git(t, b.repo, "rev-parse", "data/h200")
	if out.Values["commit"].AsString() != commit || out.Values["pushed"].True() {
		t.Errorf("values %v, the branch is at %s", out.Values, commit)
	}

	if got := git(t, b.repo, "ls-tree", "-r", "--name-only",
		"data/h200"); got != "README.md\ndata/h200/gemm_perf.txt\ndata/h200/moe_perf.txt" {
		t.Errorf("the branch holds\n%s", got)
	}

	if got := git(t, b.repo, "show", "data/h200:data/h200/gemm_perf.txt"); got != "framework,latency\nTRTLLM,0.5" {
		t.Errorf("gemm_perf.txt is %q", got)
	}

	raw, err := exec.Command("git", "-C", b.repo, "show", "data/h200:data/h200/moe_perf.txt").Output()
	if err != nil || !bytes.HasSuffix(raw, []byte("0.7\r\n")) {
		t.Errorf("the bytes of moe_perf.txt changed: %q, %v", raw, err)
	}

	message := git(t, b.repo, "log", "-1", "--format=%B", "data/h200", "--")
	if message != "add H200 perf data\n\n# Release\n\n**Passed.** All is well.\n\nSigned-off-by: Ann Engineer "+
		"<ann@example.com>\n" && message != "add H200 perf data\n\n# Release\n\n**Passed.** All is well.\n\nSigned-off-by: "+
		"Ann Engineer <ann@example.com>" {
		t.Errorf("message %q", message)
	}

	if git(t, b.repo, "rev-parse", "data/h200^") != git(t, b.repo, "rev-parse", "main") {
		t.Error("the branch does not start from main")
	}

	if now := git(t, b.repo, "status", "--porcelain"); now != before ||
		git(t, b.repo, "symbolic-ref", "HEAD") != "refs/heads/main" {
		t.Errorf("the work tree was touched: %q", now)
	}

	body, err := os.ReadFile(filepath.Join(b.out, "pr_body.md"))
	if err != nil || string(body) != "# Release\n\n**Passed.** All is well.\n" ||
		out.Artifacts[0].Digest != fileutil.Digest(body) {
		t.Errorf("pr_body.md: %q, %v", body, err)
	}
}

// TestAgain: the same files make no second commit, changed ones make one on
// top.
func TestAgain(t *testing.T) {
	b := newBench(t)
	first := b.must(b.config()).Values["commit"].AsString()
	if again := b.must(b.config()); again.Values["commit"].AsString() != first ||
		!strings.Contains(again.Message, "already") {
		t.Errorf("again: %s", again.Message)
	}

	b.export("export.gemm", "h200/gemm_perf.txt", "framework,latency\nTRTLLM,0.6\n", 1)
	second := b.must(b.config()).Values["commit"].AsString()
	if git(t, b.repo, "rev-parse", "data/h200^") != first || git(t, b.repo, "rev-parse", "data/h200") != second {
		t.Error("the second commit does not stand on the first")
	}
}

func TestPushOnlyWhenAsked(t *testing.T) {
	b := newBench(t)
	remote := t.TempDir()
	git(t, remote, "init", "-q", "--bare")
	git(t, b.repo, "remote", "add", "origin", remote)
	b.must(b.config(func(c *Config) { c.Remote = "origin" }))

	if refs := git(t, remote, "for-each-ref"); refs != "" {
		t.Fatalf("pushed without being asked to: %s", refs)
	}

	out := b.must(b.config(func(c *Config) { c.Remote, c.Push = "origin", true }))
	if got := git(t, remote, "rev-parse", "data/h200"); got != out.Values["commit"].AsString() ||
		!out.Values["pushed"].True() {
		t.Errorf("the remote is at %s", got)
	}

	// Somebody else's commits are never overwritten.
	git(t, remote, "update-ref", "refs/heads/data/h200", git(t, b.repo, "rev-parse", "main"))
	other := t.TempDir()
	git(t, other, "clone", "-q", "-b", "data/h200", remote, "c")
	clone := filepath.Join(other, "c")
	git(t, clone, "-c", "user.name=O", "-c", "user.email=o@example.com", "commit", "-q", "--allow-empty", "-m", "theirs")
	git(t, clone, "push", "-q", "origin", "data/h200")

	if _, err := b.run(b.config(func(c *Config) { c.Remote, c.Push = "origin", true })); err == nil ||
		!strings.Contains(err.Error(), "not pushed") {
		t.Errorf("a push over other commits: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*bench)
		change  func(*Config)
		want    string
	}{
		"branch checked out": {nil, func(c *Config) { c.Branch = "main" }, "checked out"},
		"no repository": {nil, func(c *Config) { c.Repository = filepath.Join(c.Repository, "nope") },
			"clone it first"},
		"a folder of a clone": {nil, func(c *Config) { c.Repository = filepath.Join(c.Repository, "data") }, "top folder"},
		"unknown remote":      {nil, func(c *Config) { c.Remote, c.Push = "nowhere", true }, "not pushed"},
		"no Markdown": {func(b *bench) {
			b.finished[2].Outcome.Artifacts[0].Path = filepath.Join(b.out, "report.html")
		}, nil, "wrote no Markdown"},
		"outside": {func(b *bench) {
			b.finished[0].Outcome.Artifacts[0].Path = b.write(b.t.TempDir(), "gemm_perf.txt", "x")
		}, nil, "outside of this run's output folder"},
		"nothing": {func(b *bench) { b.finished[1].Outcome.Artifacts = nil }, nil, "wrote no file"},
		"unknown user": {func(b *bench) {
			git(b.t, b.repo, "config", "--unset", "user.name")
			git(b.t, b.repo, "config", "--unset", "user.email")
			git(b.t, b.repo, "config", "user.useConfigOnly", "true")
		}, nil, "author {"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if c.prepare != nil {
				c.prepare(b)
			}

			cfg := b.config()
			if c.change != nil {
				c.change(cfg)
			}

			if _, err := b.run(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestWithoutHistory: a new repository, bare, an author of the plan's own, and
// sidecars that travel with their tables.
func TestWithoutHistory(t *testing.T) {
	b := newBench(t)
	bare := t.TempDir()
	git(t, bare, "init", "-q", "--bare")
	b.write(b.out, "h200/collection_meta.yaml", "schema_version: 1\n")
	b.write(b.out, "h200/notes.yaml", "not ours\n")
	out := b.must(b.config(func(c *Config) {
		c.Repository, c.Report, c.Path = bare, cty.NilVal, ""
		c.Author = &Author{Name: "Bot", Email: "bot@example.com"}
	}))

	if got := git(t, bare, "ls-tree", "-r", "--name-only",
		"data/h200"); got != "h200/collection_meta.yaml\nh200/gemm_perf.txt\nh200/moe_perf.txt" {
		t.Errorf("the branch holds\n%s", got)
	}

	if got := git(t, bare, "log", "--format=%an <%ae> %cn", "data/h200", "--"); got != "Bot <bot@example.com> Bot" {
		t.Errorf("committed by %s", got)
	}

	message := git(t, bare, "log", "-1", "--format=%B", "data/h200", "--")
	if !strings.HasSuffix(message,
		"Signed-off-by: Bot <bot@example.com>") || !strings.Contains(message, "| `gemm_perf.txt` | 1 |") {
		t.Errorf("message %q", message)
	}

	if out.Values["commit"].AsString() != git(t, bare, "rev-parse", "data/h200") {
		t.Error("another commit than the branch's")
	}
}

// TestKey: a moved branch makes the stage look again.
func TestKey(t *testing.T) {
	b := newBench(t)
	c := b.config()
	key := func() string {
		v, diags := c.KeyExtra(context.Background(), &stage.PlanContext{PlanDir: b.repo})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		return fmt.Sprint(v)
	}

	before := key()
	b.must(c)
	after := key()
	git(t, b.repo, "update-ref", "-d", "refs/heads/data/h200")

	if before == after || key() != before {
		t.Errorf("keys %s, %s, %s", before, after, key())
	}
}

func TestChecks(t *testing.T) {
	b := newBench(t)
	for want, change := range map[string]func(*Config){
		"needs the remote":         func(c *Config) { c.Push = true },
		"no name of a remote":      func(c *Config) { c.Remote = "--upload-pack=evil" },
		"is no name of a branch":   func(c *Config) { c.Branch = "-evil" },
		"leads out of the repo":    func(c *Config) { c.Path = "../x" },
		"writes no perf files":     func(c *Config) { c.Value = ref("gate.gemm") },
		"name a report stage":      func(c *Config) { c.Report = ref("export.gemm") },
		"nothing to commit":        func(c *Config) { c.Value = cty.EmptyTupleVal },
		"without angle brackets":   func(c *Config) { c.Author = &Author{Name: "A <b>", Email: "a@b"} },
		"it must refer to a stage": func(c *Config) { c.Value = cty.StringVal("export.gemm") },
	} {
		if diags := b.config(change).Check(&stage.CheckContext{Range: hcl.Range{Filename: "p.hcl"}}); !diags.HasErrors() ||
			!strings.Contains(diags.Error(), want) {
			t.Errorf("%v, want %q", diags, want)
		}
	}
}
