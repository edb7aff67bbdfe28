package lint

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// file examines the rows of one table with the rules that gates use.
func (l *linter) file(f *loaded) {
	l.hashes(f)
	if f.table == nil {
		return
	}

	if f.rec.NumRows() == 0 {
		l.found("schema", f.Path, f.Table, "the table has no rows: readers have no answer from it")
		return
	}

	old := f.Layout == tree.Families // older readers know the older words
	p := rules.Schema(f.rec, f.table, rules.SchemaOptions{Words: true, OldWords: old, Kernel: true})
	l.lines(f, "schema", p, "%s", strings.Join(p[:min(3, len(p))], "; "))

	for _, name := range f.table.Required() {
		if !table.Has(f.rec, name) {
			return // nothing below can be judged
		}
	}

	l.duplicates(f)

	t, err := rules.New(f.rec, f.table, f.names)
	if err != nil {
		return // schema reports the type
	}

	t.System, t.Framework = l.spec[f.System], f.Backend
	l.provenance(f, t)

	limits := t.Limits(0.05)
	if watts, ok := t.Power(); ok {
		limits.Offences = append(limits.Offences, watts.Offences...)
		limits.Problems = append(limits.Problems, watts.Problems...)
	}
	l.result(f, t, "limits", "have an impossible "+t.Metric+" or power", limits)

	if f.table.Declared {
		l.kernels(f)
		return // nothing is known of the trend of its kernels; a plan has the check trend
	}

	l.result(f, t, "trend", fmt.Sprintf("are more than %g times apart from their neighbours", rules.OutlierRatio),
		t.Outliers())
	falls, _ := t.Falls()
	l.result(f, t, "trend", fmt.Sprintf("fall below %g of the row before", rules.FallRatio), falls)
	l.result(f, t, "copies", "repeat another row to the last digit", t.Copies())
	l.kernels(f)
}

// lines records a finding with an occurrence for each of the lines, if there are any.
func (l *linter) lines(f *loaded, rule string, lines []string, format string, args ...any) {
	if len(lines) > 0 {
		l.add(Finding{Rule: rule, Path: f.Path, Table: f.Table, Count: len(lines), Rows: lines,
			Message: fmt.Sprintf(format, args...)})
	}
}

// count records a finding that occurred n times.
func (l *linter) count(f *loaded, rule string, n int, format string, args ...any) {
	l.add(Finding{Rule: rule, Path: f.Path, Table: f.Table, Count: n, Message: fmt.Sprintf(format, args...)})
}

// result adds the finding of a rule, if there is one.
func (l *linter) result(f *loaded, t *rules.Table, rule, verb string, r rules.Result) {
	if len(r.Problems) == 0 && len(r.Offences) == 0 {
		return
	}

	parts := slices.Clone(r.Problems)
	if n := len(r.Offences); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d rows %s", n, len(t.Values), verb))
	}

	var rows []string
	for _, o := range rules.Worst(r.Offences, maxRows) {
		rows = append(rows, f.describe(o.Row, t.Metric)+" "+o.Note)
	}

	l.add(Finding{Rule: rule, Path: f.Path, Table: f.Table, Count: max(len(r.Offences), 1), Rows: rows,
		Message: strings.Join(parts, "; ")})
}

// key lists the columns of the table's key that the file has.
func (f *loaded) key() []string {
	return slices.DeleteFunc(slices.Clone(f.names), func(c string) bool { return !table.Has(f.rec, c) })
}

func (f *loaded) describe(row int, extra ...string) string {
	return table.Describe(f.rec, row, append(f.key(), extra...))
}

// hashes compares a file with its sidecar.
func (l *linter) hashes(f *loaded) {
	if f.Layout != tree.Families {
		return
	}

	meta, err := tree.ReadMeta(filepath.Join(l.root, f.Dir(), tree.MetaFile))
	if err != nil {
		return // R1 or unreadable reports it
	}

	entry, ok := meta.Tables[f.Table]
	if !ok {
		return
	}

	if n := f.rec.NumRows(); entry.Rows != nil && *entry.Rows != n {
		l.found("sidecar_rows", f.Path, f.Table, "the sidecar lists %d rows, the file has %d", *entry.Rows, n)
	}

	if entry.DataHash == "" {
		return
	}

	digest, err := fileutil.DigestFile(filepath.Join(l.root, f.Path))
	if err == nil && digest != entry.DataHash {
		l.found("sidecar_rows", f.Path, f.Table, "the sidecar has the data_hash %s, the file %s", entry.DataHash, digest)
	}
}

// provenance compares the rows' origin with the folders.
func (l *linter) provenance(f *loaded, t *rules.Table) {
	for _, m := range t.Provenance(rules.Origin{Version: f.Version, Backend: f.Backend}) {
		l.count(f, "provenance", m.Count, "%s", m.Message)
	}
}

func (l *linter) duplicates(f *loaded) {
	ix := tree.Index(f.names)
	ids := ix.Number(f.rec)
	surplus := table.Len(f.rec) - ix.Len()
	if surplus == 0 {
		return
	}

	metric := f.table.Metrics()[0]
	values, _ := table.Float64s(f.rec, metric)

	groups := rules.Repeats(table.Groups(ids, ix.Len()), values)
	var rows []string
	for _, g := range groups[:min(len(groups), maxRows)] {
		rows = append(rows, f.describe(g.Rows[0])+": "+g.Note)
	}

	l.add(Finding{Rule: "duplicates", Path: f.Path, Table: f.Table, Count: surplus, Rows: rows, Message: fmt.Sprintf(
		"%d of %d rows repeat the key of an earlier one (%d keys; max/min of their %s: median %.4g, worst %.4g)",
		surplus, f.rec.NumRows(), len(groups), metric, groups[len(groups)/2].Ratio, groups[0].Ratio)})
}

// opaque are labels that name no kernel.
var opaque = []string{"default", "torch_flow", "vllm_default", "sglang", "unknown", ""}

func (l *linter) kernels(f *loaded) {
	n, counts := table.Len(f.rec), table.Counts(f.rec, "kernel_source")
	for kernel, rows := range counts {
		if !slices.Contains(opaque, kernel) {
			n -= rows
		}
	}

	if n > 0 && counts != nil {
		l.count(f, "opaque_kernel", n, "%d of %d rows have a kernel_source that names no kernel", n, f.rec.NumRows())
	}
}
