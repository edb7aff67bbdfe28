package collect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/grids"
	"aicplan/stages/runtimes"
)

// TestMain makes the test binary a worker if a stage starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv(worker.EnvFDIn) == "" {
		os.Exit(m.Run())
	}
	if err := worker.Serve(context.Background(), runtimes.HostOf(runtimes.Kinds())); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// bench is a state folder with the environment of a collect stage.
type bench struct {
	t       *testing.T
	store   *checkpoint.Store
	pools   *runtimes.Pools
	runtime *stage.Runtime
	grid    string // body of the grid block
	opts    stage.Options
	stop    chan struct{}
	events  *fakeRecorder
	onEvent func(typ string, fields map[string]any)
}

// products is a grid of an op that cpu and cuda runtimes have.
const products = `
op = "gemm"
axis "gemm_dtype" { values = ["float32"] }
axis "m" { values = [1, 2, 3, 4] }
axis "n" { values = [8] }
axis "k" { values = [8] }
`

func newBench(t *testing.T, grid string) *bench {
	t.Helper()
	b := &bench{t: t, grid: grid, stop: make(chan struct{}), runtime: &stage.Runtime{
		Name: "cpu", Kind: "cpu", Framework: "CPU", Address: "runtime.cpu",
		Options: map[string]cty.Value{"synthetic": cty.True},
	}}
	b.open(filepath.Join(t.TempDir(), "state"))
	return b
}

// open opens the state folder with new pools, like a new process.
func (b *bench) open(dir string) {
	b.t.Helper()
	store, err := checkpoint.Open(dir, checkpoint.Options{Warn: func(s string) { b.t.Log(s) }})
	if err != nil {
		b.t.Fatal(err)
	}
	pools := runtimes.NewPools(runtimes.Kinds())
	b.store, b.pools = store, pools
	b.t.Cleanup(func() {
		if err := pools.Close(); err != nil {
			b.t.Error(err)
		}
		if err := store.Close(); err != nil {
			b.t.Error(err)
		}
	})
}

// reopen opens the same state folder like the next process.
func (b *bench) reopen() {
	b.t.Helper()
	if err := b.pools.Close(); err != nil {
		b.t.Fatal(err)
	}
	if err := b.store.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.stop = make(chan struct{})
	b.open(b.store.Dir)
}

// fakeRecorder is a stage.Events that records everything.
type fakeRecorder struct {
	mu       sync.Mutex
	messages []string
	events   []string
	progress stage.Progress
	hook     func(typ string, fields map[string]any)
}

func (r *fakeRecorder) Progress(_ string, p stage.Progress) {
	r.mu.Lock()
	r.progress = p
	r.mu.Unlock()
	if r.hook != nil {
		r.hook("progress", map[string]any{"done": p.Done})
	}
}

func (r *fakeRecorder) Message(_, level, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, level+": "+text)
}

func (r *fakeRecorder) Emit(_, typ string, fields map[string]any) {
	r.mu.Lock()
	r.events = append(r.events, fmt.Sprint(typ, " ", fields["text"]))
	r.mu.Unlock()
	if r.hook != nil {
		r.hook(typ, fields)
	}
}

func (r *fakeRecorder) count(part string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Concat(r.events, r.messages) {
		if strings.Contains(e, part) {
			n++
		}
	}
	return n
}

type noValues struct{ stage.Evaluator }

func (noValues) Context([]hcl.Expression, map[string]bool) (*hcl.EvalContext, hcl.Diagnostics) {
	return &hcl.EvalContext{}, nil
}

func parse(t *testing.T, src string) hcl.Body {
	t.Helper()
	f, diags := hclsyntax.ParseConfig([]byte(src), "plan.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return f.Body
}

func refTo(kind, address string) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RefType,
		&stage.Ref{Address: address, Kind: kind})})
}

// config decodes and checks a collect block.
func (b *bench) config(src string) (*Config, hcl.Diagnostics) {
	b.t.Helper()
	c := Kind(b.pools, nil).New().(*Config)
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{
		"grid":    cty.ObjectVal(map[string]cty.Value{"g": refTo("grid", "grid.g")}),
		"runtime": cty.ObjectVal(map[string]cty.Value{"cpu": cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RuntimeType, b.runtime)})}),
	}}
	diags := gohcl.DecodeBody(parse(b.t, "grid = grid.g\nruntime = runtime.cpu\n"+src), ctx, c)
	if diags.HasErrors() {
		return c, diags
	}
	return c, append(diags, c.Check(&stage.CheckContext{})...)
}

// prepare decodes a collect block and plans it.
func (b *bench) prepare(src string) (*Config, *stage.Plan) {
	b.t.Helper()
	c, diags := b.config(src)
	if diags.HasErrors() {
		b.t.Fatal(diags)
	}
	p, diags := c.Plan(b.t.Context(), b.planContext())
	if diags.HasErrors() {
		b.t.Fatal(diags)
	}
	return c, p
}

func (b *bench) planContext() *stage.PlanContext {
	b.t.Helper()
	g := grids.Kind().New().(*grids.Stage)
	if diags := g.DecodeBody(parse(b.t, b.grid), noValues{}); diags.HasErrors() {
		b.t.Fatal(diags)
	}
	gp, diags := g.Plan(b.t.Context(), nil)
	if diags.HasErrors() {
		b.t.Fatal(diags)
	}
	return &stage.PlanContext{
		Address: "collect.c", Store: b.store, Options: b.opts,
		Upstream: func(*stage.Ref) *stage.Plan { return gp },
	}
}

// run plans and runs a collect block.
func (b *bench) run(src string) (*stage.Outcome, error) {
	b.t.Helper()
	return b.runIn(b.t.Context(), src)
}

func (b *bench) runIn(ctx context.Context, src string) (*stage.Outcome, error) {
	b.t.Helper()
	c, p := b.prepare(src)
	b.events = &fakeRecorder{hook: b.onEvent}
	return c.Run(ctx, &stage.RunContext{
		Address: "collect.c", Plan: p, Store: b.store, Events: b.events,
		RunDir: filepath.Join(b.t.TempDir(), "run"), Options: b.opts, Stop: b.stop,
	})
}

// must is run for tests that expect no error.
func (b *bench) must(src string, want stage.Status) *stage.Outcome {
	b.t.Helper()
	out, err := b.run(src)
	if err != nil {
		b.t.Fatal(err)
	}
	if out.Status != want {
		b.t.Fatalf("status %s (%s), want %s", out.Status, out.Message, want)
	}
	checkInvariant(b.t, out)
	return out
}

// checkInvariant checks that the tables of an outcome are consistent.
func checkInvariant(t *testing.T, out *stage.Outcome) {
	t.Helper()
	d := out.Data
	if d == nil {
		return
	}
	ends := map[string]int{}
	for _, id := range texts(t, d, "planned", "case_id") {
		ends[id] = 0
	}
	if d.Table != nil {
		for _, id := range slices.Compact(texts(t, d, "table", "case_id")) {
			ends[id]++
		}
	}
	for _, id := range texts(t, d, "ledger", "case_id") {
		ends[id]++
	}
	for id, n := range ends {
		if n != 1 {
			t.Errorf("case %s has %d ends", id, n)
		}
	}
	c := out.Counts
	if c.Planned != c.Measured+c.Reused+c.Failed+c.Skipped || c.Planned != int(d.Planned.NumRows()) {
		t.Errorf("counts do not add up: %+v", c)
	}
}

// texts returns a column of one of the outcome's tables.
func texts(t *testing.T, d *stage.Dataset, which, col string) []string {
	t.Helper()
	c, err := table.Strings(map[string]arrow.Record{"planned": d.Planned, "table": d.Table, "ledger": d.Ledger}[which],
		col)
	if err != nil {
		t.Fatal(err)
	}
	return c.Values
}

// histogram counts the values of a column of the ledger.
func histogram(t *testing.T, out *stage.Outcome, col string) map[string]int {
	t.Helper()
	h := map[string]int{}
	for _, v := range texts(t, out.Data, "ledger", col) {
		h[v]++
	}
	return h
}

func mustNumber(n int64) cty.Value { return cty.NumberIntVal(n) }
