package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/engine/stage/stagetest"
	"aicplan/sink/table"
	"aicplan/systems"
)

// bench runs plans of things whose behaviour the test gives by address.
type bench struct {
	t     *testing.T
	dir   string
	state string
	kinds map[string]stage.Kind

	warm func(value int) string // of device stages; nil leaves nothing warm

	mu  sync.Mutex
	ran []string
	do  map[string]func(*stage.RunContext) (*stage.Outcome, error)
}

// gadget is a thing that runs what the bench says.
type gadget struct {
	stagetest.Config
	b *bench
}

func (g *gadget) Elsewhere() bool { return false }

func (g *gadget) Words() stage.Vocabulary { return stage.TagWords(&g.Config) }

func (g *gadget) Warm() string {
	if g.b.warm == nil || g.Value == nil {
		return ""
	}
	return g.b.warm(*g.Value)
}

func (g *gadget) Run(_ context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	g.b.mu.Lock()
	g.b.ran = append(g.b.ran, rc.Address)
	do := g.b.do[rc.Address]
	g.b.mu.Unlock()
	if do != nil {
		return do(rc)
	}
	n := 0
	if g.Value != nil {
		n = *g.Value
	}
	if in := rc.Inputs["input"]; in != nil {
		n += int(in.Table.NumRows())
	}
	return &stage.Outcome{Status: stage.StatusOK, Data: rows(n)}, nil
}

// DecodeBody decodes the embedded config; gohcl does not look into embedding.
func (g *gadget) DecodeBody(body hcl.Body, eval stage.Evaluator) hcl.Diagnostics {
	return stage.Decode(body, eval, &g.Config)
}

func rows(n int) *stage.Dataset {
	vals := make([]int64, n)
	for i := range vals {
		vals[i] = int64(i)
	}
	return &stage.Dataset{Table: table.NewRecord([]string{"m"}, []arrow.Array{table.Ints(vals, nil)})}
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), state: t.TempDir(),
		do: map[string]func(*stage.RunContext) (*stage.Outcome, error){}}
	add := func(name string, change func(*stage.Kind)) stage.Kind {
		k := stage.Kind{Name: name, Version: 1, New: func() stage.Stage { return &gadget{b: b} }}
		change(&k)
		return k
	}
	b.kinds = map[string]stage.Kind{
		"thing":  add("thing", func(*stage.Kind) {}),
		"device": add("device", func(k *stage.Kind) { k.Class = stage.Measure }),
		"guard":  add("guard", func(k *stage.Kind) { k.Class = stage.Guard }),
	}
	return b
}

func (b *bench) apply(hclText string, change ...func(*Options, *plan.Options)) *Applied {
	b.t.Helper()
	path := filepath.Join(b.dir, "plan.hcl")
	if err := os.WriteFile(path, []byte(hclText), 0o644); err != nil {
		b.t.Fatal(err)
	}
	store, err := checkpoint.Open(b.state, checkpoint.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	defer store.Close()
	cfg, diags := config.Load(config.Options{Path: path, Kinds: b.kinds,
		Systems: func(name, _ string) (*systems.Spec, error) { return systems.Load(name) }})
	if diags.HasErrors() {
		b.t.Fatal(diags)
	}
	r, err := store.NewRun()
	if err != nil {
		b.t.Fatal(err)
	}
	opts := Options{Run: r, OutDir: b.t.TempDir(), Log: hclog.NewNullLogger(), Stop: make(chan struct{})}
	popts := plan.Options{}
	for _, c := range change {
		c(&opts, &popts)
	}
	p, diags := plan.Build(context.Background(), cfg, store, popts)
	if diags.HasErrors() {
		b.t.Fatal(diags)
	}
	b.ran = nil
	res, err := Apply(context.Background(), p, opts)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

func status(r *Applied) string {
	var out []string
	for _, s := range r.Stages {
		word := string(s.Status)
		if s.Reused {
			word = "reused"
		}
		out = append(out, s.Address+"="+word)
	}
	return strings.Join(out, " ")
}

const chain = `
thing "a" { value = 3 }
thing "b" { input = thing.a }
thing "c" {
  value = thing.b.rows + 1
}
thing "side" { value = 1 }
output "rows" { value = thing.c.rows }
`

func TestStagesRunOnceAndAreReused(t *testing.T) {
	b := newBench(t)
	res := b.apply(chain)
	if got, want := status(res), "thing.a=ok thing.side=ok thing.b=ok thing.c=ok"; got != want {
		t.Errorf("first run: %s, want %s", got, want)
	}
	if n := res.Outputs[0].Value.AsBigFloat().String(); n != "4" {
		t.Errorf("output rows is %s, want 4: b has 3 rows, c one more", n)
	}
	res = b.apply(chain)
	if len(b.ran) != 0 || res.ExitCode() != 0 {
		t.Errorf("second run ran %v: %s", b.ran, status(res))
	}
	if n := res.Outputs[0].Value.AsBigFloat().String(); n != "4" {
		t.Errorf("output after reuse is %s", n)
	}
	b.apply(strings.Replace(chain, "value = 3", "value = 5", 1))
	slices.Sort(b.ran)
	if want := []string{"thing.a", "thing.b", "thing.c"}; !slices.Equal(b.ran, want) {
		t.Errorf("after a change of a ran %v, want %v", b.ran, want)
	}
	b.apply(strings.Replace(chain, "value = 5", "value = 3", 1),
		func(_ *Options, p *plan.Options) { p.Replace = []string{"thing.side"} })
	if !slices.Contains(b.ran, "thing.side") {
		t.Errorf("--replace did not run thing.side: %v", b.ran)
	}
}

func TestEqualOutputStopsTheChange(t *testing.T) {
	b := newBench(t)
	b.do["thing.a"] = func(*stage.RunContext) (*stage.Outcome, error) {
		return &stage.Outcome{Status: stage.StatusOK, Data: rows(7)}, nil
	}
	b.apply(`thing "a" { value = 1 }
thing "b" { input = thing.a }`)
	b.apply(`thing "a" { value = 2 }
thing "b" { input = thing.a }`)
	if !slices.Equal(b.ran, []string{"thing.a"}) {
		t.Errorf("ran %v: b's input is what it was", b.ran)
	}
}

func TestFailureStopsOnlyWhatStandsBehind(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(*stage.RunContext) (*stage.Outcome, error)
		want   string
		code   int
		reason string
	}{
		{"error", func(*stage.RunContext) (*stage.Outcome, error) { return nil, errors.New("broken") }, "failed", 1,
			"thing.a failed"},
		{"error with rows kept", func(*stage.RunContext) (*stage.Outcome, error) {
			return &stage.Outcome{Counts: stage.Counts{Planned: 5, Measured: 3}}, errors.New("the disk is full")
		}, "failed", 1, "thing.a failed"},
		{"panic", func(*stage.RunContext) (*stage.Outcome, error) { panic("boom") }, "failed", 1, "thing.a failed"},
		{"gate", func(*stage.RunContext) (*stage.Outcome, error) {
			return &stage.Outcome{Status: stage.StatusGateFailed, Data: rows(1)}, nil
		}, "gate_failed", 4, "thing.a did not pass"},
		{"preflight", func(*stage.RunContext) (*stage.Outcome, error) {
			return &stage.Outcome{Status: stage.StatusPreflight}, nil
		}, "preflight_failed", 5, "thing.a did not pass"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.do["thing.a"] = c.do
			res := b.apply(chain)
			if got, want := status(res),
				fmt.Sprintf("thing.a=%s thing.side=ok thing.b=skipped thing.c=skipped", c.want); got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
			if res.ExitCode() != c.code {
				t.Errorf("exit code %d, want %d", res.ExitCode(), c.code)
			}
			for _, s := range res.Stages {
				if o := s.Outcome; s.Address == "thing.a" && o != nil && (o.Status != s.Status || o.Message != s.Message) {
					t.Errorf("a ended as %s (%s), its outcome says %s (%s)", s.Status, s.Message, o.Status, o.Message)
				}
				if strings.HasSuffix(c.name, "rows kept") && s.Address == "thing.a" &&
					(s.Outcome == nil || s.Outcome.Counts.Measured != 3) {
					t.Errorf("what was kept is not told: %+v", s.Outcome)
				}
				if s.Address == "thing.b" && s.Message != c.reason {
					t.Errorf("b was skipped because %q, want %q", s.Message, c.reason)
				}
			}
			delete(b.do, "thing.a")
			if res := b.apply(chain); res.ExitCode() != 0 || slices.Contains(b.ran, "thing.side") {
				t.Errorf("after the repair: %s, ran %v", status(res), b.ran)
			}
		})
	}
}

func TestPartialDataGoesOn(t *testing.T) {
	b := newBench(t)
	b.do["thing.a"] = func(*stage.RunContext) (*stage.Outcome, error) {
		return &stage.Outcome{Status: stage.StatusPartial, Data: rows(2)}, nil
	}
	res := b.apply(chain)
	if res.ExitCode() != 3 || !strings.Contains(status(res), "thing.b=ok") {
		t.Errorf("%s, exit %d", status(res), res.ExitCode())
	}
}

func TestDeviceStagesTakeTurns(t *testing.T) {
	b := newBench(t)
	var mu sync.Mutex
	busy, most := 0, 0
	both := make(chan struct{}, 2)
	one := func(*stage.RunContext) (*stage.Outcome, error) {
		mu.Lock()
		busy++
		most = max(most, busy)
		mu.Unlock()
		// The CPU stages must be able to run meanwhile: wait for both.
		<-both
		mu.Lock()
		busy--
		mu.Unlock()
		return &stage.Outcome{Status: stage.StatusOK, Data: rows(1)}, nil
	}
	b.do["device.x"], b.do["device.y"] = one, one
	free := func(*stage.RunContext) (*stage.Outcome, error) {
		both <- struct{}{}
		return &stage.Outcome{Status: stage.StatusOK, Data: rows(1)}, nil
	}
	b.do["thing.p"], b.do["thing.q"] = free, free
	b.apply(`
device "x" {}
device "y" {}
thing "p" {}
thing "q" {}
`)
	if most != 1 {
		t.Errorf("%d device stages at once", most)
	}
}

func TestGuardRunsOnlyWhenSomethingBehindItDoes(t *testing.T) {
	text := `
guard "node" {}
thing "a" {
  value      = 1
  depends_on = [guard.node]
}
`
	b := newBench(t)
	b.do["guard.node"] = func(*stage.RunContext) (*stage.Outcome, error) {
		return &stage.Outcome{Status: stage.StatusOK, NoReuse: true}, nil
	}
	b.apply(text)
	if !slices.Equal(b.ran, []string{"guard.node", "thing.a"}) {
		t.Errorf("first: %v", b.ran)
	}
	b.apply(text)
	if len(b.ran) != 0 {
		t.Errorf("nothing to do, but ran %v", b.ran)
	}
	b.apply(strings.Replace(text, "value      = 1", "value      = 2", 1))
	if !slices.Equal(b.ran, []string{"guard.node", "thing.a"}) {
		t.Errorf("after a change: %v", b.ran)
	}
}

func TestLostArtifactAndLostTableAreStale(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "x.csv")
	b.do["thing.a"] = func(*stage.RunContext) (*stage.Outcome, error) {
		if err := os.WriteFile(file, []byte("1\n"), 0o644); err != nil {
			return nil, err
		}
		// sha256 of "1\n"
		return &stage.Outcome{Status: stage.StatusOK, Data: rows(1),
			Artifacts: []stage.Artifact{{Path: file,
				Digest: "sha256:4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865"}}}, nil
	}
	text := `thing "a" {}`
	b.apply(text)
	if b.apply(text); len(b.ran) != 0 {
		t.Fatalf("ran %v though nothing changed", b.ran)
	}
	if err := os.WriteFile(file, []byte("2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if b.apply(text); len(b.ran) != 1 {
		t.Error("a changed export was not noticed")
	}
	if err := os.RemoveAll(filepath.Join(b.state, "objects")); err != nil {
		t.Fatal(err)
	}
	if b.apply(text); len(b.ran) != 1 {
		t.Error("a lost object was not noticed")
	}
}

// TestFilesOfStagesReusedLaterAreKept: the first file of a run is claimed while
// the stage that turns out to be reused is still unknown.
func TestFilesOfStagesReusedLaterAreKept(t *testing.T) {
	b := newBench(t)
	file, owner := filepath.Join(t.TempDir(), "x.csv"), ""
	digest := "sha256:4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865" // of "1\n"
	b.do["thing.a"] = func(rc *stage.RunContext) (*stage.Outcome, error) {
		rc.Claim(file + ".other")
		return &stage.Outcome{Status: stage.StatusOK, Data: rows(1)}, nil
	}
	b.do["thing.b"] = func(*stage.RunContext) (*stage.Outcome, error) {
		return &stage.Outcome{Status: stage.StatusOK, Data: rows(1),
			Artifacts: []stage.Artifact{{Path: file, Digest: digest}}}, os.WriteFile(file, []byte("1\n"), 0o644)
	}
	b.do["thing.c"] = func(rc *stage.RunContext) (*stage.Outcome, error) {
		owner = rc.Claim(file)
		return &stage.Outcome{Status: stage.StatusOK, Data: rows(1)}, nil
	}
	text := `
thing "a" { value = 1 }
thing "b" { input = thing.a }
`
	b.apply(text)
	res := b.apply(strings.Replace(text, "1", "2", 1) + `thing "c" { input = thing.b }`)
	if got := status(res); got != "thing.a=ok thing.b=reused thing.c=ok" {
		t.Fatal(got)
	}
	if owner != "thing.b" {
		t.Errorf("the file of thing.b may be overwritten; its owner is %q", owner)
	}
}

func TestInterruptSkipsWhatDidNotStart(t *testing.T) {
	b := newBench(t)
	stop := make(chan struct{})
	b.do["device.x"] = func(*stage.RunContext) (*stage.Outcome, error) {
		close(stop)
		return &stage.Outcome{Status: stage.StatusInterrupted, Data: rows(1)}, nil
	}
	res := b.apply(`
device "x" {}
device "y" {}
`, func(o *Options, _ *plan.Options) { o.Stop = stop })
	if got := status(res); got != "device.x=interrupted device.y=interrupted" || res.ExitCode() != 130 {
		t.Errorf("%s, exit %d", got, res.ExitCode())
	}
}

func TestEventsAreNDJSON(t *testing.T) {
	b := newBench(t)
	b.apply(chain)
	found, err := filepath.Glob(filepath.Join(b.state, "runs", "*", "events.ndjson"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %v", found, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for _, k := range []string{"@timestamp", "@level", "@message", "type", "run"} {
			if _, ok := e[k]; !ok {
				t.Errorf("no %s in %s", k, line)
			}
		}
		kinds[e["type"].(string)]++
	}
	if kinds["stage_end"] != 4 || kinds["run_start"] != 1 || kinds["run_end"] != 1 {
		t.Errorf("events: %v", kinds)
	}
}

// Nobody reads that a stage "needs needs" something.
func TestEndText(t *testing.T) {
	for want, r := range map[string]StageResult{
		"collect.a: needs runtime.gpu: no GPU":  {Status: stage.StatusNeeds, Message: "needs runtime.gpu: no GPU"},
		"collect.a: failed: the disk is full":   {Status: stage.StatusFailed, Message: "the disk is full"},
		"collect.a: skipped: collect.b skipped": {Status: stage.StatusSkipped, Message: "collect.b skipped"},
		"collect.a: ok":                         {Status: stage.StatusOK},
	} {
		r.Address = "collect.a"
		if got := endText(&r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	b := newBench(t)
	b.do["thing.a"] = func(*stage.RunContext) (*stage.Outcome, error) {
		return &stage.Outcome{Status: stage.StatusNeeds, Message: "needs runtime.gpu: no GPU", NoReuse: true}, nil
	}
	b.apply("thing \"a\" {}\n")
	found, err := filepath.Glob(filepath.Join(b.state, "runs", "*", "events.ndjson"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %v", found, err)
	}
	if data, err := os.ReadFile(found[0]); err != nil ||
		!strings.Contains(string(data), `"thing.a: needs runtime.gpu: no GPU"`) {
		t.Errorf("%v\n%s", err, data)
	}
}
