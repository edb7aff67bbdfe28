// Package lint examines a database of perf files: its folders and sidecars, the rows of each table, and
// tables of several backends and systems against each other.
package lint

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"
	"golang.org/x/sync/errgroup"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/catalog"
	"aicplan/sink/tree"
	"aicplan/systems"
)

// Severity of a rule.
type Severity string

// The severities. Info never fails a run.
const (
	Error Severity = "error"
	Warn  Severity = "warn"
	Info  Severity = "info"
)

// Rule is one thing that is checked.
type Rule struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	// Summary describes what the rule finds. It follows a number: "1,016 duplicate keys".
	Summary string `json:"summary"`
}

//go:embed rules.json
var rulesJSON []byte

// Rules returns the rules in the order of reports. R1 to R7 are those of upstream's own tool. Rules of rows are those
// of package rules.
var Rules = fileutil.Embedded[[]Rule]("rules.json", rulesJSON)

// allowances are how many occurrences in the whole tree are accepted, by rule, which are those of upstream's tool.
var allowances = map[string]int{"pair_outlier": 100, "region_deviation": 20}

// Finding is what a rule found in one file.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	Path     string   `json:"path"` // relative to the root, slash-separated
	Table    string   `json:"table,omitempty"`
	Message  string   `json:"message"`
	Count    int      `json:"count"` // occurrences
	Rows     []string `json:"rows,omitempty"`
}

// maxRows is how many rows a finding lists.
const maxRows = 20

// Options of a run.
type Options struct {
	// Rules limits the run to some rules; nil means all.
	Rules []string
	// Allow replaces allowances by rule.
	Allow map[string]int
}

// Report is the outcome of a run.
type Report struct {
	Root     string         `json:"root"`
	Files    int            `json:"files"`
	Rows     int64          `json:"rows"`
	Findings []Finding      `json:"findings"`
	Counts   map[string]int `json:"counts"` // occurrences by rule
	// Exceeded names the rules of severity error and warn with more occurrences
	// than allowed.
	Exceeded []string `json:"exceeded,omitempty"`
}

// Failed reports whether a rule of severity error exceeds its allowance.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Exceeded, func(name string) bool {
		rule, _ := ruleOf(name)
		return rule.Severity == Error
	})
}

// linter collects findings; add is safe for concurrent use.
type linter struct {
	root string
	opt  Options
	scan *tree.Scan
	spec map[string]*systems.Spec

	mu       sync.Mutex
	findings []Finding
	rows     int64
	medians  []median  // of joined tables, for the rules over systems
	kept     []*sample // of every table
}

// Run examines the tree below root. An error means that the tree could not be examined; findings are no
// errors.
func Run(ctx context.Context, root string, o Options) (*Report, error) {
	for _, name := range append(slices.Sorted(maps.Keys(o.Allow)), o.Rules...) {
		if _, ok := ruleOf(name); !ok {
			return nil, fmt.Errorf("there is no rule %q; the rules are %s", name, strings.Join(ruleNames(), ", "))
		}
	}
	scan, err := tree.Walk(root)
	if err != nil {
		return nil, err
	}
	if len(scan.Entries) == 0 {
		return nil, fmt.Errorf("%s contains no perf files (*_perf.txt, *_perf.csv, *_perf.parquet)", root)
	}
	l := &linter{root: root, opt: o, scan: scan, spec: map[string]*systems.Spec{}, findings: []Finding{}}
	for _, e := range scan.Entries {
		if _, seen := l.spec[e.System]; !seen && e.System != "" {
			l.spec[e.System], _ = systems.Load(e.System) // nil for a system that has no spec
		}
	}
	l.structure()
	if err := l.tables(ctx); err != nil {
		return nil, err
	}
	l.overSystems()
	return l.report(), nil
}

func ruleOf(name string) (Rule, bool) {
	for _, r := range Rules() {
		if r.Name == name {
			return r, true
		}
	}
	return Rule{}, false
}

func ruleNames() []string {
	var out []string
	for _, r := range Rules() {
		out = append(out, r.Name)
	}
	return out
}

// tables examines the files, grouped by system and table.
func (l *linter) tables(ctx context.Context) error {
	groups := map[[2]string][]tree.Entry{}
	for _, e := range l.scan.Entries {
		k := [2]string{e.System, e.Table}
		groups[k] = append(groups[k], e)
	}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, k := range keys {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			l.group(groups[k])
			return nil
		})
	}
	return g.Wait()
}

// loaded is a table in memory.
type loaded struct {
	tree.Entry
	rec   arrow.Record
	table *catalog.Table // nil when readers do not know it
	names []string       // the columns that name a row; nil without a table
}

// group examines the versions and backends of one table on one system.
func (l *linter) group(entries []tree.Entry) {
	latest := map[string]*loaded{}
	var all []*loaded
	for _, e := range entries {
		at := filepath.Join(l.root, e.Path)
		rec, err := tree.ReadFile(at)
		if err != nil {
			l.found("unreadable", e.Path, e.Table, "%s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), at+":"), " "))
			continue
		}
		l.mu.Lock()
		l.rows += rec.NumRows()
		l.mu.Unlock()
		f := &loaded{Entry: e, rec: rec}
		if f.table, _ = e.Lookup(); f.table != nil {
			f.names = f.table.KeyOf(rec)
		}
		l.file(f)
		if f.table != nil {
			all = append(all, f)
		}
		if old := latest[e.Backend]; f.table != nil && (old == nil || tree.CompareVersions(old.Version, e.Version) < 0) {
			latest[e.Backend] = f
		}
	}
	l.pairs(latest)
	for _, f := range all {
		l.keepLatency(f, latest[f.Backend] == f)
	}
}

// found records a finding that occurred once.
func (l *linter) found(rule, path, table, format string, args ...any) {
	l.add(Finding{Rule: rule, Path: path, Table: table, Message: fmt.Sprintf(format, args...), Count: 1})
}

// add records a finding unless its rule is switched off.
func (l *linter) add(f Finding) {
	if l.opt.Rules != nil && !slices.Contains(l.opt.Rules, f.Rule) {
		return
	}
	rule, ok := ruleOf(f.Rule)
	if f.Severity = rule.Severity; !ok {
		panic("lint: no rule is called " + f.Rule)
	}
	if len(f.Rows) > maxRows {
		f.Rows = f.Rows[:maxRows]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.findings = append(l.findings, f)
}

func (l *linter) report() *Report {
	r := &Report{Root: l.root, Files: len(l.scan.Entries), Rows: l.rows, Findings: l.findings, Counts: map[string]int{}}
	order := map[string]int{}
	for i, rule := range Rules() {
		order[rule.Name] = i
	}
	slices.SortFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.Rule], order[b.Rule]), cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Message, b.Message))
	})
	for _, f := range r.Findings {
		r.Counts[f.Rule] += f.Count
	}
	for _, rule := range Rules() {
		allowed := allowances[rule.Name]
		if n, ok := l.opt.Allow[rule.Name]; ok {
			allowed = n
		}
		if rule.Severity != Info && r.Counts[rule.Name] > allowed {
			r.Exceeded = append(r.Exceeded, rule.Name)
		}
	}
	return r
}
