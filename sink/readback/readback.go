// Package readback asks the real consumer of a database, an installed aisimulate or
// aiconfigurator, what it answers from the tables, and compares two databases by the bits
// of the answers.
package readback

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"aicplan/sink/base/proc"
)

//go:embed ask.py
var script string

// Options define the queries and the package.
type Options struct {
	Python  string // the interpreter that has the package
	Package string // "aisimulate" or "aiconfigurator"; "" for the first of them that is installed
	Against string // another database, which must give the same answers; "" for none
	System  string
	Backend string
	Version string
	Rows    int // of each table to ask about
}

// packages names the package in messages.
func (o Options) packages() string { return cmp.Or(o.Package, "aisimulate or aiconfigurator") }

// Results of a table.
const (
	Pass     = "pass"
	Fail     = "fail"
	NotAsked = "not asked"
)

// Table is what the package answered about one table.
type Table struct {
	Table    string `json:"table"`
	Path     string `json:"path"`
	Rows     int    `json:"rows"`
	Queries  int    `json:"queries"`
	Answered int    `json:"answered"`
	Differ   int    `json:"differ"`     // from the other database
	Asked    int    `json:"rows_asked"` // rows that were asked about themselves
	Exact    int    `json:"rows_exact"` // of them, those whose answer is their own time to the last bit
	Result   string `json:"result"`
	Message  string `json:"message,omitempty"`
}

// Report is the result for one backend and version of a database.
type Report struct {
	Package string  `json:"package"`
	Dir     string  `json:"dir"`
	Against string  `json:"against,omitempty"`
	System  string  `json:"system"`
	Backend string  `json:"backend"`
	Version string  `json:"version"`
	Tables  []Table `json:"tables"`
}

// Failed reports whether a table was not read or its answers differ.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Tables, func(t Table) bool { return t.Result == Fail })
}

// Totals add the tables up.
func (r *Report) Totals() (queries, answered, differ int) {
	for _, t := range r.Tables {
		queries, answered, differ = queries+t.Queries, answered+t.Answered, differ+t.Differ
	}
	return
}

// query is one question, about a row or about a place beside one.
type query struct {
	Table string         `json:"table"`
	Row   map[string]any `json:"row"`
	// own is the time in milliseconds that the row itself has; NaN beside a row.
	own float64
}

type answer struct {
	Value string `json:"value"` // a hexadecimal float
	Error string `json:"error"`
	None  bool   `json:"none"` // the package has no query for the table
}

type said struct {
	Package string   `json:"package"`
	Error   string   `json:"error"`
	Answers []answer `json:"answers"`
}

// Run reads the tables of dir that belong to the backend's version, asks the
// package about a sample of their rows and beside them, and reports.
func Run(ctx context.Context, dir string, o Options) (*Report, error) {
	tables, err := tablesOf(dir, o)
	if err != nil {
		return nil, err
	}
	r := &Report{Dir: dir, Against: o.Against, System: o.System, Backend: o.Backend, Version: o.Version}
	all := []query{} // null is no list of queries
	for _, t := range tables {
		all = append(all, t.queries...)
	}
	got, err := ask(ctx, dir, o, all)
	if err != nil {
		return nil, err
	}
	var other *said
	if o.Against != "" {
		if other, err = ask(ctx, o.Against, o, all); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Against, err)
		}
	}
	r.Package = got.Package
	at := 0
	for _, t := range tables {
		n := len(t.queries)
		line := Table{Table: t.name, Path: t.path, Rows: t.rows, Queries: n, Message: t.unread}
		var before []answer
		if other != nil {
			before = other.Answers[at : at+n]
		}
		line.judge(t.queries, got.Answers[at:at+n], before)
		at += n
		r.Tables = append(r.Tables, line)
	}
	return r, nil
}

// judge counts the answers. A table passes when something was answered and nothing
// differs; what the package answers neither here nor there is the same.
func (t *Table) judge(queries []query, now, before []answer) {
	first := ""
	for i, a := range now {
		if a.None {
			t.Queries--
			continue
		}
		if a.Value != "" {
			t.Answered++
		} else if first == "" {
			first = a.Error
		}
		if before != nil && a.Value != before[i].Value {
			t.Differ++
		}
		if own := queries[i].own; !math.IsNaN(own) {
			t.Asked++
			if v, err := strconv.ParseFloat(a.Value, 64); err == nil && v == own {
				t.Exact++
			}
		}
	}
	switch {
	case t.Rows == 0 && asked()[t.Table].Axes != nil && t.Message == "":
		t.Result, t.Message = Fail, "it has no rows, so the package has no answer from it"
	case t.Queries == 0:
		t.Result, t.Message = NotAsked, cmp.Or(t.Message, "read-back has no query for this table and package")
	case t.Answered == 0:
		t.Result, t.Message = Fail, first
	case t.Differ > 0:
		t.Result, t.Message = Fail, fmt.Sprintf("%d of %d answers differ", t.Differ, t.Queries)
	default:
		t.Result = Pass
		if first != "" {
			t.Message = fmt.Sprintf("%d not answered: %s", t.Queries-t.Answered, first)
		}
	}
}

// ask runs the script in the interpreter that has the package.
func ask(ctx context.Context, dir string, o Options, queries []query) (*said, error) {
	root, remove, err := alone(dir, o)
	if err != nil {
		return nil, err
	}
	defer remove()
	in, err := json.Marshal(
		map[string]any{
			"package": o.Package,
			"root":    root,
			"system":  o.System,
			"backend": o.Backend,
			"version": o.Version,
			"queries": queries,
		},
	)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, o.Python, "-c", script)
	cmd.Stdin = bytes.NewReader(in)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := proc.Run(cmd); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is not there: --python names the interpreter that has %s", o.Python, o.packages())
		}
		text := strings.TrimSpace(errs.String())
		last := text[strings.LastIndexByte(text, '\n')+1:]
		if strings.Contains(text, "PackageNotFoundError") || strings.Contains(last, "No module named 'aiconfigurator") ||
			strings.Contains(last, "No module named 'aisimulate") {
			return nil, fmt.Errorf("%s has no %s: --python names the interpreter that has it", o.Python, o.packages())
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", o.Python, ctx.Err())
		}
		return nil, fmt.Errorf("%s: %w: %s", o.Python, err, cmp.Or(last, "it printed nothing to standard error"))
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var s said
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil {
		return nil, fmt.Errorf("%s printed no answers: %w", o.Python, err)
	}
	if s.Error != "" {
		return nil, fmt.Errorf(
			"%s: %s; it needs %s.yaml in %s (system_spec = true of the export), and the layout that this package reads "+
				"(aicplan help readers)",
			s.Package,
			s.Error,
			o.System,
			dir,
		)
	}
	// The folder is gone when somebody reads its name.
	for i := range s.Answers {
		s.Answers[i].Error = strings.ReplaceAll(s.Answers[i].Error, root+string(filepath.Separator),
			filepath.Clean(dir)+string(filepath.Separator))
	}
	if len(s.Answers) != len(queries) {
		return nil, fmt.Errorf("%s gave %d answers to %d queries", s.Package, len(s.Answers), len(queries))
	}
	return &s, nil
}
