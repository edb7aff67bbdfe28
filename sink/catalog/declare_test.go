package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ring is a table as a plan declares it.
func ring() Declaration {
	return Declaration{
		Name: "ring_attention_perf", Family: "ring_attention", Doc: "ring attention", Ops: []string{"ring_context"},
		Columns: []Field{
			{Name: "batch_size", Type: "int64"},
			{Name: "speed", Type: "float64", Unit: "GB/s", Better: "higher", Nullable: true},
			{Name: "kv_layout", Type: "string"},
			{Name: "latency", Type: "float64", Unit: "us"},
			{Name: "causal", Type: "bool"},
		},
		Key: []string{"batch_size", "kv_layout"}, Metrics: []string{"latency", "speed"},
	}
}

func TestDeclaredTable(t *testing.T) {
	t.Parallel()
	cat, err := New(ring())
	if err != nil {
		t.Fatal(err)
	}

	tab, ok := cat.Lookup("a/ring_attention_perf.parquet")
	if !ok {
		t.Fatal("the declared table is not found")
	}
	for name, got := range map[string][]string{
		"batch_size kv_layout":             tab.Key(),
		"latency speed":                    tab.Metrics(),
		"batch_size kv_layout causal":      tab.Params(),
		"batch_size kv_layout latency":     tab.Required(),
		"latency":                          {cat.SchemaOf("ring_attention_perf").Primary().Name},
		"us":                               {tab.LatencyUnit()},
		"ring_attention_perf ring_context": opOf(cat, "ring_context"),
		"gemm_perf gemm":                   opOf(cat, "gemm"),
		"ring_attention_perf":              cat.Suggest("ring_attentoin_perf"),
		"ring_attention ring_attention_perf.schema.json": {tab.Family, SchemaFile(tab.Name)},
	} {
		if strings.Join(got, " ") != name {
			t.Errorf("%q, want %q", got, name)
		}
	}
	if speed, _ := tab.Column("speed"); speed.Better != Higher || !speed.Lacking || speed.Unit != "GB/s" {
		t.Errorf("%+v", speed)
	}

	// The built-in catalog does not change.
	if _, known := Lookup("ring_attention_perf"); known || len(cat.Tables()) != len(Tables())+1 {
		t.Error("the declared table is in the built-in catalog")
	}
	if d := cat.DeclaredFor("", "ring_context"); d == nil || d.Name != "ring_attention_perf" {
		t.Errorf("the table of the op: %v", d)
	}
	if d := cat.DeclaredFor("gemm_perf", ""); d != nil {
		t.Errorf("a built-in table is declared: %v", d)
	}
}

func opOf(c *Catalog, name string) []string {
	op, ok := c.LookupOp(name)
	if !ok {
		return nil
	}
	return []string{op.Table, op.OpName}
}

func TestDeclarationRoundTrip(t *testing.T) {
	t.Parallel()
	want := ring()
	got, err := ParseDeclaration(want.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := ParseDeclaration([]byte(`{"name": "x_perf"}`)); err == nil {
		t.Error("an incomplete declaration is read")
	}
}

func TestDeclarationErrors(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Declaration){
		`table name "ring"`:                 func(d *Declaration) { d.Name = "ring" },
		`table name "../x_perf"`:            func(d *Declaration) { d.Name = "../x_perf" },
		"built-in table":                    func(d *Declaration) { d.Name = "gemm_perf" },
		`family "a/b"`:                      func(d *Declaration) { d.Family = "a/b" },
		"folder of a backend":               func(d *Declaration) { d.Family = "vllm" },
		"no key":                            func(d *Declaration) { d.Key = nil },
		"no metrics":                        func(d *Declaration) { d.Metrics = nil },
		"no column depth":                   func(d *Declaration) { d.Key = append(d.Key, "depth") },
		"no column time":                    func(d *Declaration) { d.Metrics = append(d.Metrics, "time") },
		"no column framework":               func(d *Declaration) { d.Key = append(d.Key, "framework") },
		"no column power":                   func(d *Declaration) { d.Metrics = append(d.Metrics, "power") },
		"no column device":                  func(d *Declaration) { d.Metrics = append(d.Metrics, "device") },
		"in the key and a metric":           func(d *Declaration) { d.Metrics = []string{"batch_size"} },
		"metrics are float64":               func(d *Declaration) { d.Metrics = append(d.Metrics, "causal") },
		`type "int" of ring_attention_perf`: func(d *Declaration) { d.Columns[0].Type = "int" },
		"batch_size twice":                  func(d *Declaration) { d.Columns[4].Name = "batch_size" },
		"device twice, or it is one":        func(d *Declaration) { d.Columns[4].Name = "device" },
		`better = "more"`:                   func(d *Declaration) { d.Columns[1].Better = "more" },
		"kv_layout is not a metric":         func(d *Declaration) { d.Columns[2].Nullable = true },
		"only metrics have better":          func(d *Declaration) { d.Columns[2].Zero = true },
		"latency is the first metric":       func(d *Declaration) { d.Columns[3].Nullable = true },
		"op gemm of ring_attention_perf has the table gemm_perf": func(d *Declaration) { d.Ops = []string{"gemm"} },
	} {
		d := ring()
		change(&d)
		if _, err := New(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := New(ring(), ring()); err == nil || !strings.Contains(err.Error(), "declared twice") {
		t.Errorf("two tables of one name: %v", err)
	}
}

// TestLongestNames checks the bounds of names: 65 characters of a table, with _perf, and 63 of a family and a
// column.
func TestLongestNames(t *testing.T) {
	t.Parallel()
	for what, set := range map[string]func(d *Declaration, length int){
		"table":  func(d *Declaration, n int) { d.Name = strings.Repeat("a", n+2-len("_perf")) + "_perf" },
		"family": func(d *Declaration, n int) { d.Family = strings.Repeat("a", n) },
		"column": func(d *Declaration, n int) { d.Columns[4].Name = strings.Repeat("a", n) },
	} {
		for length, want := range map[int]bool{63: true, 64: false} {
			d := ring()
			set(&d, length)
			if _, err := d.Table(); (err == nil) != want {
				t.Errorf("a %s at length %d: %v", what, length, err)
			}
		}
	}
}
