package grid

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/zclconf/go-cty/cty"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestArchives runs the archives in testdata. Each contains grid.hcl, the body of a grid. A comment
// "# ERROR: text" or "# WARNING: text" expects a diagnostic on its line whose summary and detail
// contain the text; any other diagnostic fails the test. The file parts.hcl contains part blocks
// that the grid may include; its local.here is not defined in the grid. If there are no errors, the
// file want contains the waterfall and the first cases. The file why contains assignments, one per
// line, and why.want the expected results.
func TestArchives(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runArchive(t, file) })
	}
}

func runArchive(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}

	src := archived(ar, "grid.hcl")
	parts := archived(ar, "parts.hcl")
	scope, partOf := testParts(t, string(parts))
	spec, diags := Decode(parseBody(t, string(src)), scope, partOf)
	var cases *Cases

	if spec != nil {
		var more hcl.Diagnostics
		cases, more = expand(spec, options{limits{cases: 100_000, visits: 10_000_000, evaluations: 4_000_000}, (*walker).run})
		diags = append(diags, more...)
	}

	var inGrid, inParts hcl.Diagnostics
	for _, d := range diags {
		if d.Subject != nil && d.Subject.Filename == "parts.hcl" {
			inParts = append(inParts, d)
		} else {
			inGrid = append(inGrid, d)
		}
	}

	checkMarkers(t, string(src), inGrid)
	checkMarkers(t, string(parts), inParts)
	if cases == nil {
		return
	}

	golden(t, ar, "want", summary(cases))
	if lines := archived(ar, "why"); lines != nil {
		var b strings.Builder
		for _, line := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
			v, diags := Why(spec, assignments(line))
			if diags.HasErrors() {
				t.Fatal(diags)
			}

			fmt.Fprintf(&b, "%s\n", line)
			for _, l := range verdictLines(v) {
				fmt.Fprintf(&b, "  %s\n", l)
			}
		}

		golden(t, ar, "why.want", b.String())
	}

	if *update {
		if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// checkMarkers compares diagnostics with the markers in src.
func checkMarkers(t *testing.T, src string, diags hcl.Diagnostics) {
	t.Helper()
	type marker struct{ kind, text string }

	want := map[int][]marker{}
	for i, line := range strings.Split(src, "\n") {
		for _, kind := range []string{"ERROR", "WARNING"} {
			for _, text := range strings.Split(line, "# "+kind+": ")[1:] {
				text, _, _ = strings.Cut(text, " # ")
				want[i+1] = append(want[i+1], marker{kind, strings.TrimSpace(text)})
			}
		}
	}

	for _, d := range diags {
		if d.Subject == nil {
			t.Errorf("diagnostic without a place: %s: %s", d.Summary, d.Detail)
			continue
		}
		kind := "ERROR"
		if d.Severity == hcl.DiagWarning {
			kind = "WARNING"
		}

		line := d.Subject.Start.Line
		found := false
		for i, m := range want[line] {
			if m.kind == kind && strings.Contains(d.Summary+": "+d.Detail, m.text) {
				want[line] = append(want[line][:i], want[line][i+1:]...)
				found = true
				break
			}
		}

		if !found {
			t.Errorf("line %d: unexpected %s: %s: %s", line, kind, d.Summary, d.Detail)
		}
	}

	for line, ms := range want {
		for _, m := range ms {
			t.Errorf("line %d: no %s with %q", line, m.kind, m.text)
		}
	}
}

func archived(ar *txtar.Archive, name string) []byte {
	for _, f := range ar.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

func golden(t *testing.T, ar *txtar.Archive, name, got string) {
	t.Helper()
	if *update {
		for i := range ar.Files {
			if ar.Files[i].Name == name {
				ar.Files[i].Data = []byte(got)
				return
			}
		}
		ar.Files = append(ar.Files, txtar.File{Name: name, Data: []byte(got)})
		return
	}

	want := archived(ar, name)
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("%s differs (run with -update to accept); got\n%s\nwant\n%s", name, got, want)
	}
}

// summary formats a waterfall and the first cases.
func summary(c *Cases) string {
	var b strings.Builder
	w := c.Waterfall
	fmt.Fprintf(&b, "declared %d\n", w.Declared)

	for _, f := range w.Filters {
		fmt.Fprintf(&b, "  %s: -%d %s", f.Name, f.Dropped, f.Reason)
		if f.Note != "" {
			fmt.Fprintf(&b, " [%s]", f.Note)
		}

		b.WriteByte('\n')
		for _, s := range f.Samples {
			fmt.Fprintf(&b, "    %s\n", s)
		}
	}

	fmt.Fprintf(&b, "duplicates %d\ncases %d\nrows %d\n", w.Duplicates, w.Cases, w.Rows)
	for _, f := range c.Record().Schema().Fields() {
		fmt.Fprintf(&b, "column %s %s\n", f.Name, f.Type)
	}

	for i := range min(c.Len(), 24) {
		fmt.Fprintf(&b, "%s %s", c.ID(i)[:8], c.ParamsJSON(i))
		if p := c.Sweep(i); p.Len() > 0 {
			fmt.Fprintf(&b, " x %s", p.JSON())
		}
		b.WriteByte('\n')
	}

	return b.String()
}

func assignments(line string) map[string]cty.Value {
	out := map[string]cty.Value{}
	for _, f := range strings.Fields(line) {
		name, val, _ := strings.Cut(f, "=")
		if val == "null" {
			out[name] = cty.NullVal(cty.DynamicPseudoType)
		} else {
			out[name] = cty.StringVal(val)
		}
	}

	return out
}
