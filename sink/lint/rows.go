package lint

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/physics"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// file examines the rows of one table.
func (l *linter) file(f *loaded) {
	l.hashes(f)
	l.provenance(f)
	l.power(f)
	if f.table == nil {
		return
	}
	if f.rec.NumRows() == 0 {
		l.add(f.finding("schema", 1, "the table has no rows: readers have no answer from it"))
		return
	}
	old := f.Layout == tree.Families // older readers know the older words
	if p := tree.SchemaProblems(f.rec, f.table, tree.SchemaOptions{Words: true, OldWords: old}); len(p) > 0 {
		l.add(f.finding("schema", len(p), strings.Join(p[:min(3, len(p))], "; "), p...))
	}
	for _, name := range f.table.Required() {
		if !table.Has(f.rec, name) {
			return // nothing below can be judged
		}
	}
	l.duplicates(f)
	metric := f.table.Metrics()[0]
	values, err := table.Float64s(f.rec, metric)
	if err != nil {
		return // said by schema
	}
	l.values(f, metric, values)
	l.trends(f, metric)
	l.light(f)
	l.kernels(f)
}

func (f *loaded) finding(rule string, count int, message string, rows ...string) Finding {
	return Finding{Rule: rule, Path: f.Path, Table: f.Table, Message: message, Count: count, Rows: rows}
}

// key is the columns of the table's key that the file has.
func (f *loaded) key() []string {
	return slices.DeleteFunc(slices.Clone(f.names), func(c string) bool { return !table.Has(f.rec, c) })
}

// shape is key without the kernels that stand side by side in some files only:
// what files of several systems have in common.
func (f *loaded) shape() []string {
	return slices.DeleteFunc(f.table.Key(), func(c string) bool { return !table.Has(f.rec, c) })
}

func (f *loaded) describe(row int, extra ...string) string {
	return table.Describe(f.rec, row, append(f.key(), extra...))
}

// hashes compares a file with what its sidecar says of it.
func (l *linter) hashes(f *loaded) {
	if f.Layout != tree.Families {
		return
	}
	meta, err := tree.ReadMeta(filepath.Join(l.root, filepath.FromSlash(f.Dir()), tree.MetaFile))
	if err != nil {
		return // said by R1 or unreadable
	}
	entry, ok := meta.Tables[f.Table]
	if !ok {
		return
	}
	if n := f.rec.NumRows(); entry.Rows != nil && *entry.Rows != n {
		l.add(f.finding("sidecar_rows", 1, fmt.Sprintf("the sidecar says %d rows, the file has %d", *entry.Rows, n)))
	}
	if entry.DataHash == "" {
		return
	}
	digest, err := tree.Digest(filepath.Join(l.root, filepath.FromSlash(f.Path)))
	if err == nil && digest != entry.DataHash {
		l.add(f.finding("sidecar_rows", 1, fmt.Sprintf("the sidecar says data_hash %s, the file has %s", entry.DataHash, digest)))
	}
}

// provenance compares the rows' origin with the folders.
func (l *linter) provenance(f *loaded) {
	count := func(name string) map[string]int {
		col, err := table.Strings(f.rec, name)
		if err != nil {
			return nil
		}
		if n := col.Nulls(); n > 0 {
			l.add(f.finding("mixed_provenance", n, fmt.Sprintf("%d rows do not say their %s", n, name)))
		}
		out := map[string]int{}
		for i, v := range col.Values {
			if !col.Null(i) {
				out[v]++
			}
		}
		return out
	}
	versions, devices, labels := count("version"), count("device"), count("framework")
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		if f.Version != "" && !sameVersion(v, f.Version) {
			l.add(f.finding("version_mismatch", versions[v], fmt.Sprintf("%d rows say version %s, the folder says %s", versions[v], v, f.Version)))
		}
	}
	for _, v := range slices.Sorted(maps.Keys(labels)) {
		want := f.Backend
		if want == "" || f.table != nil && f.table.Library == want {
			continue // collectives are measured by whichever framework drives them
		}
		if b, ok := catalog.BackendOf(v); !ok || b.Name != want {
			l.add(f.finding("framework_mismatch", labels[v], fmt.Sprintf("%d rows say framework %s, the folder says %s", labels[v], v, want)))
		}
	}
	if spec := l.spec[f.System]; spec != nil {
		for _, v := range slices.Sorted(maps.Keys(devices)) {
			if match, known := spec.MatchesDevice(v); known && !match {
				l.add(f.finding("device_mismatch", devices[v], fmt.Sprintf("%d rows come from %q, which is not a device of %s", devices[v], v, f.System)))
			}
		}
	}
	if len(versions) > 1 || len(devices) > 1 {
		l.add(f.finding("mixed_provenance", 1, fmt.Sprintf("rows of the versions %s and devices %s stand side by side",
			strings.Join(slices.Sorted(maps.Keys(versions)), ", "), strings.Join(slices.Sorted(maps.Keys(devices)), ", "))))
	}
	if f.Backend == "" && len(labels) > 1 {
		l.add(f.finding("mixed_provenance", 1, fmt.Sprintf("rows of the frameworks %s stand side by side", strings.Join(slices.Sorted(maps.Keys(labels)), ", "))))
	}
}

// sameVersion leaves local suffixes away: a folder 0.14.0 may hold rows of
// 0.14.0+cu130, but not of 0.14.1.
func sameVersion(row, folder string) bool {
	cut := func(s string) string {
		s, _, _ = strings.Cut(s, "+")
		return s
	}
	return row == folder || cut(row) == cut(folder)
}

func (l *linter) power(f *loaded) {
	power, err := table.Float64s(f.rec, "power")
	if err != nil {
		return
	}
	limit, _ := table.Float64s(f.rec, "power_limit")
	var rows []string
	n := 0
	for i, v := range power.Values {
		if power.Null(i) {
			continue
		}
		bound := math.Inf(1)
		if limit != nil && !limit.Null(i) && limit.Values[i] > 0 {
			bound = limit.Values[i]
		}
		if !(v > 0) || v > bound*1.05 {
			if n++; len(rows) < maxRows && f.table != nil {
				rows = append(rows, f.describe(i, "power", "power_limit"))
			}
		}
	}
	if n > 0 {
		l.add(f.finding("power", n, fmt.Sprintf("%d rows have a power outside (0, limit + 5 %%]", n), rows...))
	}
}

func (l *linter) duplicates(f *loaded) {
	ix := table.NewKeyIndex(f.names, table.KeyOptions{Missing: tree.Defaults})
	ids, err := ix.Number(f.rec)
	if err != nil {
		return
	}
	surplus := int(f.rec.NumRows()) - ix.Len()
	if surplus == 0 {
		return
	}
	values, _ := table.Float64s(f.rec, f.table.Metrics()[0])
	type group struct {
		rows  []int
		ratio float64
	}
	var groups []group
	for _, rows := range table.Groups(ids, ix.Len()) {
		g := group{rows: rows, ratio: 1}
		if values != nil {
			lo, hi := math.Inf(1), 0.0
			for _, r := range rows {
				lo, hi = min(lo, values.Values[r]), max(hi, values.Values[r])
			}
			g.ratio = hi / lo
		}
		groups = append(groups, g)
	}
	sort.SliceStable(groups, func(i, j int) bool { return groups[i].ratio > groups[j].ratio })
	var rows []string
	for _, g := range groups[:min(len(groups), maxRows)] {
		rows = append(rows, fmt.Sprintf("%s: %d rows, max/min %.4g", f.describe(g.rows[0]), len(g.rows), g.ratio))
	}
	mid := groups[len(groups)/2].ratio
	l.add(f.finding("duplicates", surplus, fmt.Sprintf("%d of %d rows repeat the key of an earlier one (%d keys; max/min of their %s: median %.4g, worst %.4g)",
		surplus, f.rec.NumRows(), len(groups), f.table.Metrics()[0], mid, groups[0].ratio), rows...))
}

// values looks at the metric by itself.
func (l *linter) values(f *loaded, metric string, values *table.Col[float64]) {
	var rows []string
	bad, zeros := 0, 0
	var usable []float64
	for i, v := range values.Values {
		switch {
		case values.Null(i), math.IsNaN(v), math.IsInf(v, 0), v < 0, v == 0 && !f.table.ZeroLegal:
			if bad++; len(rows) < maxRows {
				rows = append(rows, f.describe(i, metric))
			}
		case v == 0:
			zeros++
		default:
			usable = append(usable, v)
		}
	}
	n := len(values.Values)
	if bad > 0 {
		l.add(f.finding("nonpositive_latency", bad, fmt.Sprintf("%d of %d values of %s are missing, not finite or not positive", bad, n, metric), rows...))
	}
	if n >= 50 && zeros > n*9/10 {
		l.add(f.finding("degenerate", 1, fmt.Sprintf("%d of %d values of %s are zero", zeros, n, metric)))
	}
	if len(usable) < 50 {
		return
	}
	slices.Sort(usable)
	if usable[0] == usable[len(usable)-1] {
		l.add(f.finding("degenerate", 1, fmt.Sprintf("all %d values of %s are %g", len(usable), metric, usable[0])))
	}
	if unit, low, high := f.table.LatencyUnit(), usable[len(usable)/20], usable[len(usable)/2]; metric == "latency" {
		scale := 1.0
		if unit == "us" {
			scale = 1000
		}
		switch {
		case low < 1e-4*scale:
			l.add(f.finding("units", 1, fmt.Sprintf("a twentieth of the latencies are below %.3g %s, which no launch reaches: are they seconds?", 1e-4*scale, unit)))
		case high > 1e4*scale:
			l.add(f.finding("units", 1, fmt.Sprintf("half of the latencies are above %.3g %s: are they in a smaller unit?", 1e4*scale, unit)))
		}
	}
}

func (l *linter) trends(f *loaded, metric string) {
	for _, rule := range []struct {
		name string
		find func(arrow.Record, string, []string, physics.TrendOptions) ([]physics.Violation, int, error)
		verb string
	}{{"mono_violation", physics.Falls, "fall below 0.7 times the step before"}, {"spike_violation", physics.Spikes, "stand above 3 times both neighbours"}} {
		var all []physics.Violation
		for _, axis := range physics.AxesOf(f.rec, f.key()) {
			found, _, err := rule.find(f.rec, axis, f.key(), physics.TrendOptions{Metric: metric, Floor: physics.FloorOf(f.table)})
			if err == nil {
				all = append(all, found...)
			}
		}
		if len(all) == 0 {
			continue
		}
		sort.SliceStable(all, func(i, j int) bool {
			return math.Abs(math.Log(all[i].Ratio)) > math.Abs(math.Log(all[j].Ratio))
		})
		var rows []string
		for _, v := range all[:min(len(all), maxRows)] {
			rows = append(rows, fmt.Sprintf("along %s: %s, x %.3g against its neighbour", v.Axis, f.describe(v.Row, metric), v.Ratio))
		}
		l.add(f.finding(rule.name, len(all), fmt.Sprintf("%d rows %s", len(all), rule.verb), rows...))
	}
}

func (l *linter) light(f *loaded) {
	spec := l.spec[f.System]
	if spec == nil {
		return
	}
	least, ok := physics.SpeedOfLight(f.rec, f.table, spec, physics.LightOptions{Cache: physics.LargestCache})
	if !ok {
		return
	}
	metric := f.table.Metrics()[0]
	lat, err := table.Float64s(f.rec, metric)
	if err != nil {
		return
	}
	var rows []string
	n := 0
	for i, least := range least {
		if v := lat.Values[i]; least > 0 && v > 0 && v < least {
			if n++; len(rows) < maxRows {
				rows = append(rows, fmt.Sprintf("%s, at least %.4g ms", f.describe(i, metric), least))
			}
		}
	}
	if n > 0 {
		l.add(f.finding("below_sol", n, fmt.Sprintf("%d rows are faster than the peaks of %s allow", n, f.System), rows...))
	}
}

// opaque are labels that do not say which kernel ran.
var opaque = []string{"default", "torch_flow", "vllm_default", "sglang", "unknown", ""}

func (l *linter) kernels(f *loaded) {
	col, err := table.Strings(f.rec, "kernel_source")
	if err != nil {
		return
	}
	n := 0
	for i, v := range col.Values {
		if col.Null(i) || slices.Contains(opaque, v) {
			n++
		}
	}
	if n > 0 {
		l.add(f.finding("opaque_kernel", n, fmt.Sprintf("%d of %d rows have a kernel_source that names no kernel", n, col.Len())))
	}
}
