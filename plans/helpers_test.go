package plans_test

import (
	"math"
	"math/big"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
	"aicplan/engine/grid"
	"aicplan/sink/table"
	"aicplan/stages"
	"aicplan/stages/grids"
	"aicplan/systems"
)

// backends are the frameworks with a plan of their own op database.
var backends = []string{"trtllm", "vllm", "sglang"}

func planOf(backend string) string { return "h200_" + backend + ".hcl" }

// systemOf is a system with the SM version.
var systemOf = map[int]string{80: "a100_sxm", 89: "l40s", 90: "h200_sxm", 100: "b200_sxm", 120: "rtx_pro_6000_server"}

func options(plan string, vars []string) config.Options {
	set := stages.All()
	return config.Options{
		Path: plan, Kinds: set.Kinds, Runtimes: set.Runtimes(), Services: set.Services(), Vars: vars,
		Systems: func(name, file string) (*systems.Spec, error) {
			if file != "" {
				return systems.LoadFile(file)
			}
			return systems.Load(name)
		},
	}
}

// load reads a plan of this folder.
func load(tb testing.TB, plan string, vars ...string) *config.Config {
	tb.Helper()
	cfg, diags := config.Load(options(plan, vars))
	if diags.HasErrors() {
		tb.Fatal(text(diags))
	}
	return cfg
}

// loaded are plans that several tests read; a config is safe to use from all of
// them.
var loaded sync.Map // name and variables -> func() *config.Config

// shared is load for tests that look at the same plan: it is read once.
func shared(tb testing.TB, plan string, vars ...string) *config.Config {
	tb.Helper()
	read, _ := loaded.LoadOrStore(strings.Join(append(vars, plan), "\x00"),
		sync.OnceValues(func() (*config.Config, hcl.Diagnostics) {
			return config.Load(options(plan, vars))
		}))
	cfg, diags := read.(func() (*config.Config, hcl.Diagnostics))()
	if diags.HasErrors() {
		tb.Fatal(text(diags))
	}
	return cfg
}

func text(diags hcl.Diagnostics) string {
	var b strings.Builder
	for _, d := range diags {
		b.WriteString(d.Error() + "\n")
	}
	return b.String()
}

// gridsOf decodes the grids of a plan, by op.
func gridsOf(tb testing.TB, cfg *config.Config) map[string]*grids.Stage {
	tb.Helper()
	out := map[string]*grids.Stage{}
	for _, in := range cfg.Instances {
		if in.Kind.Name != "grid" {
			continue
		}
		g := decodeGrid(tb, cfg, in)
		op := g.Spec.Op
		if in.Name != op {
			tb.Errorf("%s is of op %s: a grid is named as its op, so that people find it", in.Address, op)
		}
		if out[op] != nil {
			tb.Errorf("two grids are of op %s", op)
		}
		out[op] = g
	}
	return out
}

// gridOf is the grid of one op; nil where the plan has none.
func gridOf(tb testing.TB, cfg *config.Config, op string) *grids.Stage {
	tb.Helper()
	for _, in := range cfg.Instances {
		if in.Kind.Name == "grid" && in.Name == op {
			return decodeGrid(tb, cfg, in)
		}
	}
	return nil
}

func decodeGrid(tb testing.TB, cfg *config.Config, in *config.Instance) *grids.Stage {
	tb.Helper()
	st, deferred, diags := cfg.Decode(in)
	if diags.HasErrors() || deferred {
		tb.Fatalf("%s: %s", in.Address, text(diags))
	}
	if len(diags) > 0 {
		tb.Errorf("%s warns: %s", in.Address, text(diags))
	}
	return st.(*grids.Stage)
}

// casesOf expands the grids of a plan, two at a time.
func casesOf(tb testing.TB, plan string, vars ...string) map[string]*grid.Cases {
	tb.Helper()
	out := map[string]*grid.Cases{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 2)
	for op, g := range gridsOf(tb, load(tb, plan, vars...)) {
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wg.Done() }()
			c, diags := g.Cases()
			if c == nil {
				tb.Errorf("%s: %s", op, text(diags))
				return
			}
			mu.Lock()
			out[op] = c
			mu.Unlock()
		}()
	}
	wg.Wait()
	return out
}

// lines renders cases as the reference lists do: the columns between commas,
// nothing for null. Columns in without are left out.
func lines(c *grid.Cases, columns []string, without []string) []string {
	at := positions(c, columns, without)
	rec := c.Record()
	write := make([]func(b []byte, row int) []byte, len(at))
	for n, col := range at {
		write[n] = cellWriter(rec.Column(table.Index(rec, c.Columns()[col])))
	}
	out := make([]string, c.Len())
	var b []byte
	for i := range out {
		b = b[:0]
		for n := range write {
			if n > 0 {
				b = append(b, ',')
			}
			b = write[n](b, i)
		}
		out[i] = string(b)
	}
	return out
}

// cellWriter appends cells as cell renders them, from a column of the record:
// hundreds of thousands of cases are compared.
func cellWriter(col arrow.Array) func(b []byte, row int) []byte {
	value := func(b []byte, row int) []byte { panic("no text of " + col.DataType().String()) }
	switch a := col.(type) {
	case *array.Int64:
		value = func(b []byte, row int) []byte { return strconv.AppendInt(b, a.Value(row), 10) }
	case *array.Float64:
		value = func(b []byte, row int) []byte {
			if f := a.Value(row); f == math.Trunc(f) && math.Abs(f) < 1<<53 {
				return strconv.AppendInt(b, int64(f), 10)
			}
			return strconv.AppendFloat(b, a.Value(row), 'g', -1, 64)
		}
	case *array.String:
		value = func(b []byte, row int) []byte { return append(b, a.Value(row)...) }
	case *array.Boolean:
		value = func(b []byte, row int) []byte { return strconv.AppendBool(b, a.Value(row)) }
	}
	return func(b []byte, row int) []byte {
		if col.IsNull(row) {
			return b
		}
		return value(b, row)
	}
}

func positions(c *grid.Cases, columns, without []string) []int {
	skip := map[string]bool{}
	for _, w := range without {
		skip[w] = true
	}
	var at []int
	for _, want := range columns {
		if skip[want] {
			continue
		}
		for i, name := range c.Columns() {
			if name == want {
				at = append(at, i)
			}
		}
	}
	return at
}

// pointLines renders every sweep point behind its case.
func pointLines(c *grid.Cases, columns []string) []string {
	cases := lines(c, columns, nil)
	var out []string
	for i, line := range cases {
		p := c.Sweep(i)
		for j := range p.Len() {
			cells := make([]string, len(p.Columns()))
			for col := range cells {
				cells[col] = cell(p.Value(j, col))
			}
			out = append(out, line+"|"+strings.Join(cells, ","))
		}
	}
	return out
}

func cell(v cty.Value) string {
	switch {
	case v.IsNull():
		return ""
	case v.Type() == cty.String:
		return v.AsString()
	case v.Type() == cty.Bool:
		return strconv.FormatBool(v.True())
	}
	f := v.AsBigFloat()
	if i, acc := f.Int64(); acc == big.Exact {
		return strconv.FormatInt(i, 10)
	}
	x, _ := f.Float64()
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func moduleFiles(tb testing.TB) []string {
	tb.Helper()
	var out []string
	for _, pattern := range []string{"*.hcl", "modules/*/*.hcl"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}
