package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"aicplan/sink/base/stats"
	"aicplan/sink/diff"
	"aicplan/sink/table"
	"aicplan/stages/dedupe"
	"aicplan/systems"
)

// describe sums one dataset up.
func describe(in TableInput, all Input) (*Table, error) {
	t := &Table{Address: in.Address, Data: in.Data, Partial: in.Stale, Unit: "ms", Facets: &Facets{Unit: "ms"}}
	if in.Data == nil {
		t.Name = in.Address
		t.Partial = cmp.Or(t.Partial, "its stage left no data")
		return t, nil
	}

	info := in.Data.Info
	t.Name = cmp.Or(info.Perf, info.Op, in.Address)
	t.Op, t.Framework, t.Version, t.Device, t.System, t.Runtime = info.Op, info.Framework, known(info.Version),
		info.Device, info.System, info.Runtime
	t.Imported = in.Data.Planned == nil
	t.Partial = cmp.Or(t.Partial, info.Partial)

	var spec *systems.Spec
	if all.System != nil && info.System != "" {
		spec = all.System(info.System)
	}

	t.Facets = FacetsOf(in.Data, spec)
	t.Rows, t.Unit = t.Facets.Rows, t.Facets.Unit
	t.Metric, t.Better = t.Facets.Metric.Name, t.Facets.Metric.Better.String()
	t.Latency, t.Noise = spread(t.Facets.Latency), spread(t.Facets.Noise)
	t.Clock, t.Light = spread(t.Facets.Clock), spread(t.Facets.Light)
	if t.Facets.ThrottledOf > 0 {
		t.Throttled = float64(t.Facets.Throttled) / float64(t.Facets.ThrottledOf)
	}

	t.Cells = t.cells()
	t.rates()
	t.Worst = t.worst()
	t.coverage()
	for _, lost := range dedupe.LostCases(t.Data) {
		if lost.Status == "failed" {
			t.Failed++
		} else {
			t.Skipped++
		}
	}

	if err := t.compare(in); err != nil {
		return nil, fmt.Errorf("reference of %s: %w", in.Address, err)
	}

	return t, nil
}

func spread(v []float64) *Spread {
	s := Sorted(v)
	if len(s) == 0 {
		return nil
	}
	return &Spread{s[0], stats.Rank(s, 0.05), stats.Rank(s, 0.5), stats.Rank(s, 0.95), s[len(s)-1]}
}

// coverage counts the planned cases with a row.
func (t *Table) coverage() {
	if t.Data.Planned == nil {
		return
	}

	t.Planned = table.Len(t.Data.Planned)
	ids, err := table.Strings(t.Data.Planned, "case_id")
	if err != nil {
		return
	}

	t.Cover = map[string]bool{}
	if t.Data.Table != nil {
		if have, err := table.Strings(t.Data.Table, "case_id"); err == nil {
			for _, id := range have.Values {
				t.Cover[id] = true
			}
		}
	}

	for _, id := range ids.Values {
		if t.Cover[id] {
			t.Covered++
		}
	}
}

// compare holds the rows against a reference.
func (t *Table) compare(in TableInput) error {
	if in.Reference == nil || in.Reference.Table == nil || in.Data.Table == nil {
		return nil
	}

	o := diff.Options{Table: in.Data.Info.Perf, Worst: 10}
	if o.Table == "" {
		o.Key = in.Data.Info.Params
	}

	res, err := diff.Tables(in.Reference.Table, in.Data.Table, cmp.Or(in.ReferenceName, "reference"), in.Address, o)
	if err != nil {
		return err
	}

	t.Reference = res
	pairs, ratio := res.Pairs()

	t.Ratio = make([]float64, t.Rows)
	for i := range t.Ratio {
		t.Ratio[i] = math.NaN()
	}

	for i, p := range pairs {
		t.Ratio[p.B] = ratio[i]
	}

	return nil
}

// nodes gathers the environments that measured, one for each that differs.
func nodes(inputs []TableInput, tables []*Table) []Node {
	var out []Node
	for i, in := range inputs {
		if in.Data == nil {
			continue
		}

		info := in.Data.Info
		for _, p := range places(in.Data) {
			n := Node{
				Host: cmp.Or(p.Host, info.Env["hostname"]), Device: info.Device, Framework: info.Framework,
				Version: known(info.Version), Runtime: info.Runtime,
				Image: info.Image, Digest: info.ImageDigest, System: info.System,
			}
			for _, name := range slices.Sorted(maps.Keys(info.Env)) {
				ofNode := name == "hostname" || name == "driver" && p.Host != "" // a fact of each node
				if v := info.Env[name]; !ofNode && v != "" && !strings.HasPrefix(v, "{") {
					n.Facts = append(n.Facts, Fact{name, v})
				}
			}

			n.Facts = append(n.Facts, p.Facts...)
			at := slices.IndexFunc(out, func(o Node) bool {
				o.Devices, o.Tables, o.Rows, o.clocks = nil, nil, 0, nil
				return reflect.DeepEqual(o, n)
			})
			if at < 0 {
				at = len(out)
				out = append(out, n)
			}

			out[at].Devices = slices.Compact(slices.Sorted(slices.Values(append(out[at].Devices, p.Devices...))))
			out[at].Tables = append(out[at].Tables, tables[i].Name)
			out[at].Rows += p.Rows
			out[at].clocks = append(out[at].clocks, p.clocks...)
		}
	}

	for i := range out {
		out[i].sum()
	}

	return out
}

// known returns a version, or "" if the runtime could not find out: endpoints do not report theirs.
func known(version string) string {
	if version == "unknown" {
		return ""
	}
	return version
}
