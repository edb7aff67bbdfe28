package publish

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/scripttest"
	"aicplan/sink/table"
)

// standInGH is a program gh that keeps what it was called with and one pull
// request. refuse makes its edit fail, as GitHub's does without classic projects.
const standInGH = `#!/bin/sh
printf '%s\n' "$*" >> "$GH_STATE/calls"
case "$1 $2" in
"pr list") if [ -e "$GH_STATE/open" ]; then cat "$GH_STATE/open"; else echo '[]'; fi ;;
"pr create")
	while [ $# -gt 0 ]; do if [ "$1" = --body-file ]; then cp "$2" "$GH_STATE/body"; fi; shift; done
	echo '[{"number":7,"url":"https://github.example/o/r/pull/7","isDraft":true,"baseRefName":"main","headRepositoryOwner":{"login":"Ann"}}]' > "$GH_STATE/open"
	echo "Creating draft pull request for ann:data/h200 into main in o/r"
	echo https://github.example/o/r/pull/7 ;;
"pr edit")
	if [ -e "$GH_STATE/refuse" ]; then echo 'GraphQL: Projects (classic) is being deprecated' >&2; exit 1; fi
	while [ $# -gt 0 ]; do if [ "$1" = --body-file ]; then cp "$2" "$GH_STATE/body"; fi; shift; done ;;
"api repos/o/r/pulls/7")
	while [ $# -gt 0 ]; do case "$2" in body=@*) cp "${2#body=@}" "$GH_STATE/body" ;; esac; shift; done ;;
*) echo "unknown command $1 $2" >&2; exit 1 ;;
esac
`

// campaign is a bench with a state folder, a bare remote and a stand-in of gh.
type campaign struct {
	*bench
	store  *checkpoint.Store
	remote string
	gh     string
}

func newCampaign(t *testing.T) *campaign {
	t.Helper()
	c := &campaign{bench: newBench(t), remote: t.TempDir(), gh: t.TempDir()}
	git(t, c.remote, "init", "-q", "--bare")
	git(t, c.repo, "remote", "add", "origin", c.remote)
	scripttest.Write(t, filepath.Join(c.gh, "gh"), standInGH)
	t.Setenv("PATH", c.gh+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("GH_STATE", c.gh)
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state"), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	c.store = store
	c.record("collect.gemm", "collect", stage.Info{Op: "gemm", Perf: "gemm_perf", Framework: "VLLM", Version: "0.24.0", Device: "NVIDIA H200"},
		stage.Counts{Planned: 3, Measured: 2, Failed: 1, Rows: 2}, "ok", nil, false)
	c.record("gate.gemm", "gate", stage.Info{Op: "gemm"}, stage.Counts{}, "ok", []stage.CheckResult{{Name: "duplicates", Result: "pass"}}, false)
	c.record("export.gemm", "export", stage.Info{}, stage.Counts{}, "ok", nil, false)
	return c
}

// record writes the record of a stage, as the engine would at its end.
func (c *campaign) record(address, kind string, info stage.Info, n stage.Counts, status string, checks []stage.CheckResult, sample bool) {
	c.t.Helper()
	raw := func(v any) json.RawMessage {
		data, err := json.Marshal(v)
		if err != nil {
			c.t.Fatal(err)
		}
		return data
	}
	rec := &checkpoint.StageRecord{
		Address: address, Kind: kind, Plan: "plan.hcl", Key: "sha256:" + strings.Repeat("0", 64), Status: status, Sample: sample,
		Info: raw(info), Counts: raw(n), Checks: raw(checks),
		Inputs: raw(map[string]any{"config": map[string]any{"bind": map[string]any{"module": "collector.vllm.collect_" + info.Op, "run": "run"}, "runtime": map[string]any{"kind": "python"}}}),
	}
	for after, before := range map[string]string{"gate.gemm": "collect.gemm", "export.gemm": "gate.gemm"} {
		if address == after {
			rec.Inputs = raw(map[string]any{"config": map[string]any{"input": []any{map[string]any{"stage": before}}}})
		}
	}
	if kind == "export" {
		rec.Artifacts = raw([]stage.Artifact{{Path: filepath.Join(c.out, "h200/gemm_perf.txt"), Rows: 1}})
	}
	if n.Failed > 0 {
		b := table.NewFixedBuilder(stage.LedgerSchema)
		if err := b.Append(map[string]any{
			"case_id": "c1", "params": `{"m":1,"n":2}`, "status": "failed", "class": "framework_bug", "group": "", "type": "RuntimeError",
			"message": "an illegal | access", "traceback": "", "attempts": 1, "worker": "w0", "device_uuid": "", "at": "",
		}); err != nil {
			c.t.Fatal(err)
		}
		ledger := b.Record()
		digest, err := c.store.PutRecord(ledger)
		if err != nil {
			c.t.Fatal(err)
		}
		rec.Outputs.Ledger = digest
	}
	if err := c.store.WriteStage(rec); err != nil {
		c.t.Fatal(err)
	}
}

func (c *campaign) with(change ...func(*Config)) *Config {
	return c.config(append([]func(*Config){func(cfg *Config) {
		cfg.Value, cfg.Commits, cfg.Push, cfg.Remote, cfg.Report = cty.TupleVal([]cty.Value{ref("export.gemm"), ref("export.moe")}), "each", true, "origin", cty.NilVal
		cfg.Draft = &Draft{Repository: "o/r", Owner: "ann", Title: "H200 data of vLLM 0.24.0; $(touch pwned) `x`", Consumer: "consumer.json"}
	}}, change...)...)
}

func (c *campaign) context() *stage.RunContext {
	return &stage.RunContext{
		Address: "publish.git", OutDir: c.out, RunDir: c.t.TempDir(), PlanDir: c.repo, Store: c.store,
		Upstream: func() []stage.Finished { return c.finished },
	}
}

func (c *campaign) kept(name string) string {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.gh, name))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return string(data)
}

// TestDraft: a commit for every export, signed off; the branch at the remote; one
// draft pull request whose text says how far each op is, opened once and then
// kept up to date.
func TestDraft(t *testing.T) {
	c := newCampaign(t)
	c.write(c.out, "consumer.json", `{"package":"aiconfigurator 0.12.0","tables":[{"table":"gemm_perf","result":"pass"}]}`)
	cfg := c.with()
	if diags := cfg.Check(&stage.CheckContext{}); diags.HasErrors() {
		t.Fatal(diags)
	}
	out, err := cfg.Run(t.Context(), c.context())
	if err != nil {
		t.Fatal(err)
	}
	log := git(t, c.remote, "log", "--format=%s%n%(trailers:key=Signed-off-by)", "data/h200", "--")
	want := "add H200 perf data: moe_perf, 1 rows\nSigned-off-by: Ann Engineer <ann@example.com>\n\nadd H200 perf data: gemm_perf, 1 rows\nSigned-off-by: Ann Engineer <ann@example.com>\n\nstart"
	if !strings.HasPrefix(log, want) {
		t.Errorf("the remote has\n%s", log)
	}
	if url := out.Values["pull_request"]; url.AsString() != "https://github.example/o/r/pull/7" || !strings.Contains(out.Message, "opened https://") {
		t.Errorf("%v: %s", url, out.Message)
	}
	for _, want := range []string{
		"- 1 of 1 ops are complete, 0 partial; 2 rows", "measured by VLLM 0.24.0 on NVIDIA H200",
		"| gemm | vllm/collect_gemm.py | gemm_perf.txt | passed | complete | 2 | none | read by aiconfigurator 0.12.0 | 1 framework bug |",
		`| 1 | gemm | framework_bug | an illegal \| access | `,
	} {
		if !strings.Contains(c.kept("body"), want) {
			t.Errorf("no %q in\n%s", want, c.kept("body"))
		}
	}
	calls := c.kept("calls")
	if !strings.Contains(calls, "pr create --repo o/r --head ann:data/h200 --base main --title H200 data of vLLM 0.24.0; $(touch pwned) `x` --body-file ") || !strings.Contains(calls, " --draft") {
		t.Errorf("calls\n%s", calls)
	}
	// Another op, measured in part: the same pull request.
	c.record("collect.moe", "collect", stage.Info{Op: "moe", Perf: "moe_perf", Partial: "interrupted"}, stage.Counts{Planned: 1000, Measured: 40, Rows: 40}, "partial", nil, false)
	c.record("collect.dsa", "collect", stage.Info{Op: "dsa", Partial: "smoke"}, stage.Counts{Planned: 900, Measured: 4, Rows: 4}, "partial", nil, true)
	out, err = c.with().Run(t.Context(), c.context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.Message, "already, pushed to origin, updated https://") || strings.Count(c.kept("calls"), "pr create") != 1 {
		t.Errorf("%s\n%s", out.Message, c.kept("calls"))
	}
	for _, want := range []string{"**partial**: 40 of 1,000, interrupted | 40 |", "| passed | not yet | 4 |", "1 of 3 ops are complete, 1 partial"} {
		if !strings.Contains(c.kept("body"), want) {
			t.Errorf("no %q in\n%s", want, c.kept("body"))
		}
	}
	// Where gh's edit fails, the text goes by the REST call.
	c.write(c.gh, "refuse", "")
	c.record("collect.dsa", "collect", stage.Info{Op: "dsa"}, stage.Counts{Planned: 900, Measured: 900, Rows: 900}, "ok", nil, false)
	if _, err = c.with().Run(t.Context(), c.context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(c.kept("body"), "2 of 3 ops are complete") || !strings.Contains(c.kept("calls"), "api repos/o/r/pulls/7 --method PATCH --field body=@") {
		t.Errorf("body\n%s\ncalls\n%s", c.kept("body"), c.kept("calls"))
	}
	if _, err := os.Stat("pwned"); err == nil {
		t.Error("a shell read the title")
	}
}

// TestDraftOfAnother: a pull request of somebody else's branch of that name, or
// into another branch, is not touched.
func TestDraftOfAnother(t *testing.T) {
	c := newCampaign(t)
	c.write(c.gh, "open", `[{"number":3,"url":"https://github.example/o/r/pull/3","baseRefName":"main","headRepositoryOwner":{"login":"eve"}},
		{"number":4,"url":"https://github.example/o/r/pull/4","baseRefName":"release","headRepositoryOwner":{"login":"ann"}}]`)
	out, err := c.with().Run(t.Context(), c.context())
	if err != nil {
		t.Fatal(err)
	}
	if url := out.Values["pull_request"].AsString(); url != "https://github.example/o/r/pull/7" {
		t.Errorf("%s; calls\n%s", url, c.kept("calls"))
	}
}

func TestDraftFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		script, want string
	}{
		"not signed in": {"#!/bin/sh\necho 'To get started with GitHub CLI, please run: gh auth login' >&2\nexit 4\n", "gh pr list: exit status 4: To get started"},
		"no JSON":       {"#!/bin/sh\necho no\n", "no list of pull requests"},
		"no gh":         {"", "gh is not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCampaign(t)
			if tc.script == "" {
				if err := os.Remove(filepath.Join(c.gh, "gh")); err != nil {
					t.Fatal(err)
				}
				program, err := exec.LookPath("git")
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(program, filepath.Join(c.gh, "git")); err != nil {
					t.Fatal(err)
				}
				t.Setenv("PATH", c.gh)
			} else {
				c.write(c.gh, "gh", tc.script)
			}
			_, err := c.with().Run(t.Context(), c.context())
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "the pull request is not up to date") {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if tc.script != "" && git(t, c.remote, "rev-parse", "data/h200") != git(t, c.repo, "rev-parse", "data/h200") {
				t.Error("the commits were not pushed")
			}
		})
	}
}

// TestPreview does nothing at all and says what Ended then does; exports that have
// not ended wait.
func TestPreview(t *testing.T) {
	c := newCampaign(t)
	c.finished = c.finished[:1] // gemm has ended, moe has not
	objects := git(t, c.repo, "count-objects")
	var b strings.Builder
	if err := c.with().Preview(t.Context(), &b, c.context(), []string{"kda"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"new branch data/h200 of", "commit: add H200 perf data: gemm_perf, 1 rows (1 rows, signed off by Ann Engineer <ann@example.com>)",
		"  change data/h200/gemm_perf.txt", "later: export.moe has not ended", "push: data/h200 to origin", "| kda |  |  | not run | not run | 0 |",
		"--title 'H200 data of vLLM 0.24.0; $(touch pwned) `x`'",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if git(t, c.repo, "count-objects") != objects || git(t, c.remote, "for-each-ref") != "" || c.kept("calls") != "" {
		t.Error("something was done")
	}
	if _, err := os.Stat(filepath.Join(c.out, "pr_body.md")); err == nil {
		t.Error("the text was written")
	}
	out, err := c.with().Ended(t.Context(), c.context(), nil)
	if err != nil || !strings.Contains(out.Message, "has 1 files, pushed to origin, opened") {
		t.Errorf("%v, %v", out, err)
	}
	c.finished = nil
	if err := c.with().Preview(t.Context(), &b, c.context(), nil); !errors.Is(err, ErrNothing) {
		t.Errorf("%v", err)
	}
}

// TestPartialIsSaid: a table that says of itself that it is partial never goes in
// as a whole one.
func TestPartialIsSaid(t *testing.T) {
	c := newCampaign(t)
	c.write(c.out, "h200/collection_meta.yaml", "schema_version: 1\nruntime: {framework: vllm, version: 0.24.0}\ntables: {gemm_perf: {status: partial}, moe_perf: {status: complete}}\n")
	if _, err := c.with().Run(t.Context(), c.context()); err != nil {
		t.Fatal(err)
	}
	log := git(t, c.remote, "log", "--format=%s", "data/h200", "--")
	if log != "add H200 perf data: moe_perf, 1 rows\nadd H200 perf data: gemm_perf, 1 rows (partial)\nstart" {
		t.Errorf("log\n%s", log)
	}
	if body := git(t, c.remote, "log", "-1", "--skip=1", "--format=%b", "data/h200", "--"); !strings.Contains(body, "Partial data: gemm_perf.txt lack") {
		t.Errorf("body %q", body)
	}
}

func TestDraftChecks(t *testing.T) {
	c := newCampaign(t)
	for want, change := range map[string]func(*Config){
		"is no repository of GitHub": func(c *Config) { c.Draft.Repository = "--repo" },
		"set push = true":            func(c *Config) { c.Push = false },
		"no name of a user":          func(c *Config) { c.Draft.Owner = "-x" },
		"no name of a branch":        func(c *Config) { c.Draft.Base = "--draft" },
		"a title of one line":        func(c *Config) { c.Draft.Title = "a\nb" },
		"leads out of the output":    func(c *Config) { c.Draft.Consumer = "../x" },
		"it is \"one\" commit":       func(c *Config) { c.Commits = "many" },
	} {
		if diags := c.with(change).Check(&stage.CheckContext{}); !diags.HasErrors() || !strings.Contains(diags.Error(), want) {
			t.Errorf("%v, want %q", diags, want)
		}
	}
}
