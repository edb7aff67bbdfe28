// Package failures groups the rows of ledgers: what went wrong, how often, and
// one example of each.
package failures

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// StageLedger is the ledger of one stage.
type StageLedger struct {
	Address   string
	Op        string
	Framework string
	Version   string
	Ledger    arrow.Record // stage.LedgerSchema
}

// Which rows of ledgers to look at.
const (
	Failed  = "failed"
	Skipped = "skipped"
	All     = "all"
)

// DefaultBy are the columns by which failures are grouped by default.
var DefaultBy = []string{"op", "class", "message"}

// Options of Groups.
type Options struct {
	// By names columns: stage, op, framework, version, the columns of a ledger,
	// or parameters of the cases. Nil means DefaultBy. "message" groups messages
	// that differ in numbers alone.
	By []string
	// Status is Failed, Skipped or All; empty means Failed.
	Status string
}

// Group is a set of cases that agree in the columns grouped by.
type Group struct {
	By      []string `json:"by"`
	Values  []string `json:"values"`
	Count   int      `json:"count"`
	Example Example  `json:"example"`
}

// Value returns the group's value of a column that it was grouped by, or "".
func (g Group) Value(column string) string {
	if i := slices.Index(g.By, column); i >= 0 {
		return g.Values[i]
	}
	return ""
}

// Example is the first case of a group.
type Example struct {
	Stage     string `json:"stage"`
	Op        string `json:"op,omitempty"`
	CaseID    string `json:"case_id"`
	Params    string `json:"params"`
	Status    string `json:"status"`
	Class     string `json:"class"`
	Type      string `json:"type,omitempty"`
	Message   string `json:"message"`
	Traceback string `json:"traceback,omitempty"`
	Attempts  int64  `json:"attempts,omitempty"`
	Worker    string `json:"worker,omitempty"`
	Device    string `json:"device_uuid,omitempty"`
	At        string `json:"at,omitempty"`
	// Attachments are the files of the case, objects of the state folder.
	Attachments []stage.Attachment `json:"attachments,omitempty"`
}

// Case is the example's parameters as people read them: "m=1 n=128".
func (e Example) Case() string { return Params(e.Params) }

// ledger is the columns of one StageLedger.
type ledger struct {
	src      StageLedger
	cols     map[string]*table.Col[string]
	attempts *table.Col[int64]
	params   []map[string]any // decoded when a parameter is grouped by
}

func open(src StageLedger) (*ledger, error) {
	l := &ledger{src: src, cols: map[string]*table.Col[string]{}}
	for _, f := range stage.LedgerSchema.Fields() {
		if f.Name == "attempts" {
			continue
		}
		c, err := table.Strings(src.Ledger, f.Name)
		if err != nil {
			return nil, fmt.Errorf("ledger of %s: %w", src.Address, err)
		}
		l.cols[f.Name] = c
	}

	var err error
	if l.attempts, err = table.Int64s(src.Ledger, "attempts"); err != nil {
		return nil, fmt.Errorf("ledger of %s: %w", src.Address, err)
	}

	return l, nil
}

// value returns the value of a row in a column. known is false if there is no such
// column and no case has such a parameter.
func (l *ledger) value(name string, row int) (text string, known bool) {
	switch name {
	case "stage":
		return l.src.Address, true
	case "op":
		return l.src.Op, true
	case "framework":
		return l.src.Framework, true
	case "version":
		return l.src.Version, true
	case "attempts":
		return fmt.Sprint(l.attempts.Values[row]), true
	case "message":
		return Pattern(l.cols[name].Values[row]), true
	}

	if c, ok := l.cols[name]; ok {
		return c.Values[row], true
	}

	if l.params == nil {
		l.params = make([]map[string]any, l.src.Ledger.NumRows())
	}

	if l.params[row] == nil {
		l.params[row] = decodeParams(l.cols["params"].Values[row])
	}

	v, ok := l.params[row][name]
	if !ok {
		return "", false
	}

	return fmt.Sprint(v), true
}

// Groups groups the rows of all ledgers, the largest group first. An unknown
// column is an error that lists the known ones.
func Groups(sources []StageLedger, o Options) ([]Group, error) {
	by := o.By
	if len(by) == 0 {
		by = DefaultBy
	}

	status := cmp.Or(o.Status, Failed)
	if status != Failed && status != Skipped && status != All {
		return nil, fmt.Errorf("status %q is unknown; it is %s, %s or %s", status, Failed, Skipped, All)
	}

	known := map[string]bool{}
	index := map[string]int{}
	var groups []Group

	rows := 0
	for _, src := range sources {
		if src.Ledger == nil || src.Ledger.NumRows() == 0 {
			continue
		}

		l, err := open(src)
		if err != nil {
			return nil, err
		}

		for row := range int(src.Ledger.NumRows()) {
			if s := l.cols["status"].Values[row]; status != All && s != status {
				continue
			}

			rows++
			values := make([]string, len(by))
			for i, name := range by {
				text, ok := l.value(name, row)
				values[i] = text
				known[name] = known[name] || ok
			}

			key := strings.Join(values, "\x00")
			at, ok := index[key]
			if !ok {
				at = len(groups)
				index[key] = at
				groups = append(groups, Group{By: by, Values: values, Example: l.example(row)})
			}

			groups[at].Count++
		}
	}

	for _, name := range by {
		if rows > 0 && !known[name] {
			return nil, fmt.Errorf("there is no column %q to group by; there are %s", name, strings.Join(Columns(sources), ", "))
		}
	}

	slices.SortStableFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), slices.Compare(a.Values, b.Values))
	})

	return groups, nil
}

func (l *ledger) example(row int) Example {
	at := func(name string) string { return l.cols[name].Values[row] }
	attached, err := stage.Attachments(l.src.Ledger, row)
	if err != nil {
		attached = nil // damaged: the failure itself is worth more
	}
	return Example{
		Attachments: attached,
		Stage:       l.src.Address, Op: l.src.Op, CaseID: at("case_id"), Params: at("params"), Status: at("status"),
		Class: at("class"),
		Type:  at("type"), Message: at("message"), Traceback: at("traceback"), Attempts: l.attempts.Values[row],
		Worker: at("worker"), Device: at("device_uuid"), At: at("at"),
	}
}

// Columns lists what the ledgers can be grouped by: the common columns, then
// parameters of cases by name.
func Columns(sources []StageLedger) []string {
	out := []string{"stage", "op", "class", "type", "message", "status", "group", "framework", "version", "worker",
		"device_uuid", "attempts"}
	params := map[string]bool{}
	for _, src := range sources {
		if src.Ledger == nil || src.Ledger.NumRows() == 0 {
			continue
		}

		c, err := table.Strings(src.Ledger, "params")
		if err != nil {
			continue
		}

		for name := range decodeParams(c.Values[0]) {
			params[name] = true
		}
	}

	var names []string
	for name := range params {
		names = append(names, name)
	}

	slices.Sort(names)
	return append(out, names...)
}

func decodeParams(text string) map[string]any {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	m := map[string]any{}
	if d.Decode(&m) != nil {
		return map[string]any{}
	}
	return m
}

// Total adds up the groups.
func Total(groups []Group) int {
	n := 0
	for _, g := range groups {
		n += g.Count
	}
	return n
}
