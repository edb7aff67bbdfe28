package grid

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/rogpeppe/go-internal/txtar"
)

// FuzzDecode decodes and expands arbitrary bodies. It checks that nothing panics, every diagnostic
// has a Subject, and a result is nil if and only if there are errors.
func FuzzDecode(f *testing.F) {
	archives, _ := filepath.Glob("testdata/*.txtar")
	for _, name := range archives {
		ar, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(archived(ar, "grid.hcl")))
	}

	for _, name := range []string{"trtllm_moe", "sglang_msa_context"} {
		src, err := os.ReadFile("testdata/real/" + name + ".hcl")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src))
	}

	f.Fuzz(func(t *testing.T, src string) {
		file, diags := hclsyntax.ParseConfig([]byte(src), "grid.hcl", hcl.InitialPos)
		if diags.HasErrors() {
			return
		}

		spec, diags := Decode(file.Body, testScope(), nil)
		checkDiags(t, src, diags, spec == nil)
		if spec == nil {
			return
		}

		small := limits{cases: 10_000, visits: 100_000, evaluations: 5_000}
		c, diags := expand(spec, options{small, (*walker).run})
		checkDiags(t, src, diags, c == nil)
		if c == nil {
			return
		}

		w := c.Waterfall
		sum := int64(w.Cases + w.Duplicates)
		for _, n := range w.Filters {
			sum = addSat(sum, n.Dropped)
		}

		if sum != w.Declared {
			t.Fatalf("the waterfall loses cases: %d of %d\n%s", sum, w.Declared, src)
		}
		if int(c.Record().NumRows()) != c.Len() {
			t.Fatalf("%d rows for %d cases", c.Record().NumRows(), c.Len())
		}
	})
}

func checkDiags(t *testing.T, src string, diags hcl.Diagnostics, failed bool) {
	t.Helper()
	for _, d := range diags {
		if d.Subject == nil {
			t.Fatalf("diagnostic without a place: %s: %s\n%s", d.Summary, d.Detail, src)
		}
		if d.Summary == "Grid cannot be evaluated" {
			t.Fatalf("panic: %s\n%s", d.Detail, src)
		}
	}

	if diags.HasErrors() != failed {
		t.Fatalf("failed %v with %v\n%s", failed, diags, src)
	}
}
