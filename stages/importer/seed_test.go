package importer

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/collect"
	"aicplan/stages/grids"
	"aicplan/stages/runtimes"
)

type noValues struct{ stage.Evaluator }

func (noValues) Context([]hcl.Expression, map[string]bool) (*hcl.EvalContext, hcl.Diagnostics) {
	return &hcl.EvalContext{}, nil
}

func ref(kind, name string) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RefType,
		&stage.Ref{Address: kind + "." + name, Kind: kind})})
}

// cache is a state folder with a grid to collect.
type cache struct {
	t     *testing.T
	store *checkpoint.Store
	pools *runtimes.Pools
	rt    *stage.Runtime
	env   *runtimes.Environment
	grid  string
}

func newCache(t *testing.T, grid string) *cache {
	t.Helper()
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state"), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}

	c := &cache{t: t, store: store, pools: runtimes.NewPools(anyOp()), grid: grid,
		rt: &stage.Runtime{Name: "cpu", Kind: "cpu", Framework: "CPU", Address: "runtime.cpu"}}
	t.Cleanup(func() {
		if err := c.pools.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})

	if c.env, _ = c.pools.Expect(t.Context(), store, c.rt); c.env == nil {
		t.Fatal("the cpu runtime's environment is not known")
	}

	return c
}

// plan plans the collect stage.
func (c *cache) plan() *stage.Plan {
	c.t.Helper()
	f, diags := hclsyntax.ParseConfig([]byte(c.grid), "plan.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		c.t.Fatal(diags)
	}

	g := grids.Kind().New().(*grids.Stage)
	if diags := g.DecodeBody(f.Body, noValues{}); diags.HasErrors() {
		c.t.Fatal(diags)
	}

	gp, diags := g.Plan(c.t.Context(), nil)
	if diags.HasErrors() {
		c.t.Fatal(diags)
	}

	cfg := collect.Kind(c.pools, nil).New().(*collect.Config)
	cfg.Grid = ref("grid", "g")
	cfg.Runtime = cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RuntimeType, c.rt)})
	if diags := cfg.Check(&stage.CheckContext{}); diags.HasErrors() {
		c.t.Fatal(diags)
	}

	p, diags := cfg.Plan(c.t.Context(), &stage.PlanContext{Address: "collect.c", Store: c.store,
		Upstream: func(*stage.Ref) *stage.Plan { return gp }})
	if diags.HasErrors() {
		c.t.Fatal(diags)
	}

	return p
}

func (c *cache) seed(set *Set, dryRun bool) (SeedReport, error) {
	c.t.Helper()
	return Seed(c.store, collect.MeasurementOf(c.plan()), set, dryRun)
}

const gemmGrid = `
op = "gemm"
axis "gemm_dtype" { values = ["float32", "float64"] }
axis "m" { values = [1, 2, 1000000] }
axis "n" { values = [64] }
axis "k" { values = [64] }
`

func (c *cache) gemm(version string, rows ...string) *Set {
	c.t.Helper()
	var sb strings.Builder
	sb.WriteString("framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency,power,power_limit\n")
	for _, r := range rows {
		fmt.Fprintf(&sb, "cpu,%s,%q,gemm,k,%s\n", version, c.env.Device, r)
	}
	return load(c.t, write(c.t, sb.String(), c.t.TempDir(), "gemm_perf.txt"), Options{})
}

func TestSeed(t *testing.T) {
	c := newCache(t, gemmGrid)
	set := c.gemm(c.env.Version, "float32,1,64,64,0.5,,", "float32,1,64,64,0.7,,",
		"float64,1000000,64,64,9,300.5,700", "float64,7,64,64,1,,", "float32,2,64,64,NaN,,")
	dry, err := c.seed(set, true)
	if err != nil {
		t.Fatal(err)
	}

	if before := c.plan(); before.Cases.Reuse != 0 {
		t.Errorf("a dry run seeds: %+v", before.Cases)
	}

	rep, err := c.seed(set, false)
	if err != nil {
		t.Fatal(err)
	}

	if rep.Planned != 6 || rep.Seeded != 2 || rep.Missing != 4 || rep.Already != 0 || rep.Unused != 1 ||
		len(rep.Bad) != 1 || rep.Journal == "" {
		t.Errorf("%+v", rep)
	}

	if dry.Text() != rep.Text() {
		t.Errorf("dry run %s, then %s", dry.Text(), rep.Text())
	}

	if p := c.plan(); p.Cases.Reuse != 2 || p.Cases.Collect != 4 {
		t.Errorf("after seeding: %+v (%s)", p.Cases, p.Reason)
	}

	again, err := c.seed(c.gemm(c.env.Version, "float32,1,64,64,0.1,,"), false)
	if err != nil || again.Seeded != 0 || again.Already != 2 {
		t.Errorf("%v %+v: what is measured stays", err, again)
	}

	// Rows of the journal come out of the collect stage with their origin.
	m := collect.MeasurementOf(c.plan())
	journal, _, err := m.Journal(c.store, c.env)
	if err != nil {
		t.Fatal(err)
	}

	var payloads []string
	for e, err := range journal.All() {
		if err != nil {
			t.Fatal(err)
		}
		payloads = append(payloads, string(e.Payload))
	}

	slices.Sort(payloads)

	if len(payloads) != 2 || !strings.Contains(payloads[0], `"imported_from":"gemm_perf.txt sha256:`) ||
		!strings.Contains(payloads[0], `"latency":0.5`) ||
		!strings.Contains(payloads[1], `"power":300.5`) || strings.Contains(payloads[0], "power") {
		t.Errorf("payloads %s", payloads)
	}
}

func TestSeedOfAnotherVersionAnswersNothing(t *testing.T) {
	c := newCache(t, gemmGrid)
	rep, err := c.seed(c.gemm("0.0.1", "float32,1,64,64,0.5,,"), false)
	if err != nil || rep.Seeded != 1 {
		t.Fatalf("%v %+v", err, rep)
	}

	if p := c.plan(); p.Cases.Reuse != 0 {
		t.Errorf("rows of another version are reused: %+v", p.Cases)
	} else if !strings.Contains(p.Reason, "version") {
		t.Errorf("the plan does not say why: %s", p.Reason)
	}
}

func TestSeedOfSweepsAndSharedTables(t *testing.T) {
	c := newCache(t, `
op = "all_gather"
axis "nccl_dtype" { values = ["half"] }
axis "num_gpus" { values = [2] }
sweep "message_size" { values = [1024, 2048] }
`)

	text := "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n"
	for _, op := range []string{"alltoall", "all_gather"} {
		text += fmt.Sprintf("CPU,%s,%q,%s,NCCL,half,2,1024,%d\n", c.env.Version, c.env.Device, op, len(op))
	}

	rep, err := c.seed(load(t, write(t, text, t.TempDir(), "nccl_perf.txt"), Options{}), false)
	if err != nil || rep.Planned != 2 || rep.Seeded != 1 || rep.Unused != 1 || rep.Missing != 1 {
		t.Errorf("%v %+v: only the point of the stage's own op has a row", err, rep)
	}

	if p := c.plan(); p.Cases.Rows != 1 {
		t.Errorf("%+v: one point is left", p.Cases)
	}
}

func TestSeedRefusesWhatItCannotPlace(t *testing.T) {
	c := newCache(t, gemmGrid)
	header := "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"
	mixed := load(t, write(t, header+"CPU,1,D,gemm,k,float32,1,64,64,1\nCPU,2,D,gemm,k,float32,2,64,64,1\n",
		t.TempDir(), "gemm_perf.txt"), Options{})
	if _, err := c.seed(mixed, false); err == nil ||
		!strings.Contains(err.Error(), "do not agree on one version") {
		t.Errorf("error %v", err)
	}

	other := load(t, write(t, header+"VLLM,1,D,gemm,k,float32,1,64,64,1\n", t.TempDir(), "gemm_perf.txt"), Options{})
	if _, err := c.seed(other, false); err == nil || !strings.Contains(err.Error(), "VLLM") {
		t.Errorf("error %v", err)
	}

	c.grid = strings.Replace(gemmGrid, `"k"`, `"depth"`, 1)
	if rep, err := c.seed(c.gemm(c.env.Version, "float32,1,64,64,0.5,,"), true); err != nil ||
		slices.Contains(rep.Columns, "depth") {
		t.Errorf("a column with one value tells no rows apart: %v %+v", err, rep)
	}

	c.grid = strings.Replace(gemmGrid, `axis "k" { values = [64] }`, `axis "depth" { values = [1, 2] }`, 1)
	if _, err := c.seed(c.gemm(c.env.Version, "float32,1,64,64,0.5,,"), false); err == nil ||
		!strings.Contains(err.Error(), "column depth") {
		t.Errorf("error %v", err)
	}
}

// anyOp are the kinds of runtimes with no list of ops, so that a test can plan
// any table on a processor.
func anyOp() []*runtimes.Kind {
	kinds := runtimes.Kinds()
	for _, k := range kinds {
		k.Ops = nil
	}
	return kinds
}
