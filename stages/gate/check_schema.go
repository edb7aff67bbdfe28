package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/dedupe"
	"aicplan/systems"
)

// schema checks the columns, types and dtype words that readers of the table need.
type schema struct{}

func (c *schema) prepare(hcl.Range) hcl.Diagnostics { return nil }

func (c *schema) run(s *subject) finding {
	t, ok := dedupe.PerfTable(s.ds)
	if !ok {
		return s.cannot("the data belongs to no perf table")
	}

	if s.rec == nil {
		return finding{}
	}

	rows := tree.SchemaProblems(s.rec, t, tree.SchemaOptions{Words: true, OldWords: true, Kernel: true})
	out := finding{ok: len(rows) == 0, value: fmt.Sprintf("%d problems", len(rows)), limit: t.Name, rows: rows,
		total: s.selected}
	out.definite = !out.ok // a missing column is a failure even without rows
	if out.message = fmt.Sprintf("the columns, types and words fit %s", t.Name); s.selected == 0 && out.ok {
		out.message = ""
	}

	if !out.ok {
		out.message = fmt.Sprintf("%d problems keep readers from %s: %s", len(rows), t.Name,
			strings.Join(rows[:min(3, len(rows))], "; "))
	}

	return out
}

// provenance checks that every row names the framework, version and device of its dataset.
type provenance struct {
	System cty.Value `hcl:"system,optional" json:"-"`

	spec *systems.Spec
}

func (c *provenance) prepare(r hcl.Range) hcl.Diagnostics {
	spec, diags := optionalSystem(c.System, r)
	c.spec = spec
	return diags
}

func (c *provenance) run(s *subject) finding {
	if s.selected == 0 {
		return finding{}
	}

	expected := map[string]string{"framework": s.ds.Info.Framework, "version": s.ds.Info.Version,
		"device": s.ds.Info.Device}
	var bad []string

	judged := 0
	for _, name := range []string{"framework", "version", "device"} {
		want := expected[name]
		arr := column(s.rec, name)
		if arr == nil {
			bad = append(bad, "the data has no column "+name)
			continue
		}

		counts := map[string]int{}
		for i := range arr.Len() {
			if s.has(i) {
				counts[table.Text(arr, i)]++
			}
		}

		judged++

		for got, n := range counts {
			switch {
			case got == "":
				bad = append(bad, fmt.Sprintf("%d rows have no %s", n, name))
			case want == "" && len(counts) > 1:
				bad = append(bad, fmt.Sprintf("%d rows have the %s %q, others another one", n, name, got))
			case want != "" && !sameWord(name, got, want):
				bad = append(bad, fmt.Sprintf("%d rows have the %s %q, not %q", n, name, got, want))
			}

			if name == "device" && c.spec != nil {
				if match, known := c.spec.MatchesDevice(got); known && !match {
					bad = append(bad, fmt.Sprintf("%d rows come from %q, which is not a device of %s (%s)", n, got,
						c.spec.Name, c.spec.DeviceName()))
				}
			}
		}
	}

	slices.Sort(bad)
	out := finding{ok: len(bad) == 0, rows: bad, value: fmt.Sprintf("%d problems", len(bad)), total: s.selected}
	out.limit = strings.TrimSpace(fmt.Sprintf("%s %s %s", expected["framework"], expected["version"], expected["device"]))
	if out.ok {
		out.message = "every row comes from " + out.limit
	} else {
		out.message = strings.Join(bad[:min(3, len(bad))], "; ")
		out.fix = "rows of another origin do not belong into this table: collect or import them under their own version"
	}

	return out
}

// sameWord compares two provenance values. Framework labels are compared without case because files
// spell them differently.
func sameWord(column, a, b string) bool {
	if column == "framework" {
		return strings.EqualFold(a, b)
	}
	return a == b
}
