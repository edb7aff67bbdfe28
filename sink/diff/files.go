package diff

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/sink/tree"
)

// Paths compares two perf files, or all tables of two folders.
func Paths(a, b string, o Options) (*Report, error) {
	infoA, err := os.Stat(a)
	if err != nil {
		return nil, err
	}
	infoB, err := os.Stat(b)
	if err != nil {
		return nil, err
	}

	switch {
	case infoA.IsDir() && infoB.IsDir():
		return Trees(a, b, o)
	case infoA.IsDir() != infoB.IsDir():
		return nil, fmt.Errorf("one of %s and %s is a folder and the other a file; compare two of a kind", a, b)
	}

	r, err := Files(a, b, o)
	if err != nil {
		return nil, err
	}

	return &Report{A: a, B: b, Tables: []*Comparison{r}}, nil
}

// Files compares two perf files. If the options do not name the table, the file names do.
func Files(a, b string, o Options) (*Comparison, error) {
	if t, ok := tree.TableOf(a); ok && (o.Table == "" || o.Table == t.Name) {
		o.Table, o.Schema = t.Name, t
	}
	recA, err := tree.ReadFile(a)
	if err != nil {
		return nil, err
	}
	recB, err := tree.ReadFile(b)
	if err != nil {
		return nil, err
	}

	return Tables(recA, recB, a, b, o)
}

// Report is the comparison of two files or trees.
type Report struct {
	A      string        `json:"a"`
	B      string        `json:"b"`
	Tables []*Comparison `json:"tables"`
	// OnlyA and OnlyB are files without a counterpart.
	OnlyA []string `json:"only_a,omitempty"`
	OnlyB []string `json:"only_b,omitempty"`
	// Failed are pairs that could not be compared, with the reason.
	Failed []string `json:"failed,omitempty"`
}

// Trees compares the tables of two folders. It pairs files with the same table, system, backend and version. If
// a folder contains one version only, it pairs files with the same table and backend; if it contains one
// backend only, files with the same table.
func Trees(a, b string, o Options) (*Report, error) {
	scanA, err := tree.Walk(a)
	if err != nil {
		return nil, err
	}
	scanB, err := tree.Walk(b)
	if err != nil {
		return nil, err
	}
	r := &Report{A: a, B: b}
	pairs := match(scanA.Entries, scanB.Entries)
	for _, p := range pairs.both {
		pathA, pathB := filepath.Join(a, p[0].Path), filepath.Join(b, p[1].Path)
		each := o
		each.Table = p[0].Table
		res, err := Files(pathA, pathB, each)
		if err != nil {
			r.Failed = append(r.Failed, fmt.Sprintf("%s and %s: %v", pathA, pathB, err))
			continue
		}
		r.Tables = append(r.Tables, res)
	}

	for _, e := range pairs.onlyA {
		r.OnlyA = append(r.OnlyA, e.Path)
	}

	for _, e := range pairs.onlyB {
		r.OnlyB = append(r.OnlyB, e.Path)
	}
	if len(scanA.Entries) == 0 || len(scanB.Entries) == 0 {
		empty := a
		if len(scanA.Entries) > 0 {
			empty = b
		}

		return r, fmt.Errorf("%s contains no perf files (*_perf.txt, *_perf.csv, *_perf.parquet)", empty)
	}

	return r, nil
}

type matched struct {
	both         [][2]tree.Entry
	onlyA, onlyB []tree.Entry
}

// match pairs entries by the strictest rule under which names are unique on
// both sides and at least one pair is found.
func match(a, b []tree.Entry) matched {
	rules := []func(tree.Entry) string{
		func(e tree.Entry) string { return strings.Join([]string{e.System, e.Backend, e.Version, e.Table}, "/") },
		func(e tree.Entry) string { return strings.Join([]string{e.System, e.Backend, e.Table}, "/") },
		func(e tree.Entry) string { return strings.Join([]string{e.Backend, e.Table}, "/") },
		func(e tree.Entry) string { return e.Table },
	}

	best := matched{onlyA: a, onlyB: b}
	for i, name := range rules {
		left, okA := byName(a, name)
		right, okB := byName(b, name)
		if i > 0 && (!okA || !okB) {
			break
		}
		m := matched{}
		for _, e := range a {
			if other, ok := right[name(e)]; ok {
				m.both = append(m.both, [2]tree.Entry{e, other})
			} else {
				m.onlyA = append(m.onlyA, e)
			}
		}

		for _, e := range b {
			if _, ok := left[name(e)]; !ok || right[name(e)] != e {
				m.onlyB = append(m.onlyB, e)
			}
		}

		if len(m.both) > 0 {
			return m
		}
		best = m
	}

	return best
}

func byName(list []tree.Entry, name func(tree.Entry) string) (map[string]tree.Entry, bool) {
	out := map[string]tree.Entry{}
	unique := true
	for _, e := range list {
		if _, dup := out[name(e)]; dup {
			unique = false
		}
		out[name(e)] = e
	}

	return out, unique
}

// Limits are the bounds of a comparison. A nil limit is not checked.
type Limits struct {
	Median  *float64 // |p50 - 1| of any table
	P95     *float64 // largest p95
	Changed *int     // rows outside the tolerance
	Removed *int     // rows that B lacks
	Added   *int     // rows that A lacks
}

func (l Limits) any() bool { return l != Limits{} }

// Check refuses limits that no comparison can exceed or keep.
func (l Limits) Check() error {
	for name, v := range map[string]*float64{"max-median": l.Median, "max-p95": l.P95} {
		if v != nil && (!(*v >= 0) || math.IsInf(*v, 0)) {
			return fmt.Errorf("--%s is %v; give a number that is 0 or more", name, *v)
		}
	}

	for name, v := range map[string]*int{"max-changed": l.Changed, "max-removed": l.Removed, "max-added": l.Added} {
		if v != nil && *v < 0 {
			return fmt.Errorf("--%s is %d; give a number of rows that is 0 or more", name, *v)
		}
	}

	return nil
}

// Exceeded lists what exceeds the limits. Pairs that could not be compared are always listed. If nothing could
// be compared, every limit is exceeded.
func (r *Report) Exceeded(l Limits) []string {
	var out []string
	if l.any() && len(r.Tables)+len(r.Failed) == 0 {
		out = append(out, fmt.Sprintf("%s and %s have no table in common, so nothing was compared", r.A, r.B))
	}

	for _, t := range r.Tables {
		for _, m := range t.exceeded(l) {
			out = append(out, t.title()+": "+m)
		}
	}

	if l.Removed != nil && len(r.OnlyA) > *l.Removed {
		out = append(out, fmt.Sprintf("%d files are only in %s", len(r.OnlyA), r.A))
	}
	if l.Added != nil && len(r.OnlyB) > *l.Added {
		out = append(out, fmt.Sprintf("%d files are only in %s", len(r.OnlyB), r.B))
	}

	return append(out, r.Failed...)
}

func (r *Comparison) exceeded(l Limits) []string {
	var out []string
	if l.any() && r.Common == 0 {
		return []string{r.nothing()}
	}
	count := func(limit *int, n int, what string) {
		if limit != nil && n > *limit {
			out = append(out, fmt.Sprintf("%d rows %s, at most %d allowed", n, what, *limit))
		}
	}

	count(l.Changed, r.Changed, "changed")
	count(l.Removed, r.Removed, "removed")
	count(l.Added, r.Added, "added")
	if l.any() && r.Uncompared > 0 {
		out = append(
			out,
			fmt.Sprintf(
				"%d rows repeat a key with other values than the other side has, and only one of each was compared; name the "+
					"columns that distinguish them with --key, or dedupe them",
				r.Uncompared,
			),
		)
	}
	ratio := l.Median != nil || l.P95 != nil
	if ratio && r.Unusable > 0 {
		out = append(out, fmt.Sprintf("%d of %d common rows have no ratio: %s", r.Unusable, r.Common, r.unusableText()))
	}
	if r.Ratio == nil {
		return out
	}
	q := r.Ratio
	if l.Median != nil && (q.P50-1 > *l.Median || 1-q.P50 > *l.Median) {
		out = append(out, fmt.Sprintf("the median ratio is %.4g, allowed is 1 +- %.4g", q.P50, *l.Median))
	}
	if l.P95 != nil && q.P95 > *l.P95 {
		out = append(out, fmt.Sprintf("p95 of the ratio is %.4g, at most %.4g is allowed", q.P95, *l.P95))
	}

	return out
}

// nothing returns the message that the two sides have no row in common.
func (r *Comparison) nothing() string {
	return fmt.Sprintf(
		"no row of the %d in A has a counterpart among the %d in B by the key %s, so nothing was compared", r.A.Rows,
		r.B.Rows, strings.Join(r.Key, ", "))
}

func (r *Comparison) unusableText() string {
	var out []string
	for _, why := range slices.Sorted(maps.Keys(r.UnusableWhy)) {
		out = append(out, fmt.Sprintf("%s (%d)", why, r.UnusableWhy[why]))
	}

	return strings.Join(out, ", ")
}

func (r *Comparison) title() string {
	if r.Table != "" {
		return r.Table
	}

	return r.A.Name
}
