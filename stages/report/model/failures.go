package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
)

// StageLedger is the ledger of one stage.
type StageLedger struct {
	Address string
	*stage.Dataset
}

// FailureGroup is a set of cases that agree in the columns grouped by.
type FailureGroup struct {
	By      []string `json:"by"`
	Values  []string `json:"values"`
	Count   int      `json:"count"`
	Example Example  `json:"example"`
}

// Value returns the group's value of a column that it was grouped by, or "".
func (g FailureGroup) Value(column string) string {
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
func (e Example) Case() string { return paramText(e.Params) }

// ledger is the columns of one StageLedger.
type ledger struct {
	src      StageLedger
	cols     map[string]*table.Col[string]
	attempts *table.Col[int64]
	params   []map[string]any // decoded when a parameter is grouped by
}

func openLedger(src StageLedger) (*ledger, error) {
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
		return l.src.Info.Op, true
	case "framework":
		return l.src.Info.Framework, true
	case "version":
		return l.src.Info.Version, true
	case "attempts":
		return fmt.Sprint(l.attempts.Values[row]), true
	case "message":
		return messagePattern(l.cols[name].Values[row]), true
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

// GroupFailures groups the cases with a status, failed, skipped or all, the largest group first. The columns are stage,
// op, framework, version, those of a ledger, or parameters of the cases. An unknown column is an error that lists the
// known ones. Messages that differ only in numbers are equal.
func GroupFailures(sources []StageLedger, status string, by ...string) ([]FailureGroup, error) {
	known := map[string]bool{}
	index := map[string]int{}
	var groups []FailureGroup

	rows := 0
	for _, src := range sources {
		if src.Ledger == nil || src.Ledger.NumRows() == 0 {
			continue
		}

		l, err := openLedger(src)
		if err != nil {
			return nil, err
		}

		for row := range int(src.Ledger.NumRows()) {
			if s := l.cols["status"].Values[row]; status != "all" && s != status {
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
				groups = append(groups, FailureGroup{By: by, Values: values, Example: l.example(row)})
			}

			groups[at].Count++
		}
	}

	for _, name := range by {
		if rows > 0 && !known[name] {
			return nil, fmt.Errorf("there is no column %q to group by; there are %s", name,
				strings.Join(ledgerColumns(sources), ", "))
		}
	}

	slices.SortStableFunc(groups, func(a, b FailureGroup) int {
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
		Stage:       l.src.Address, Op: l.src.Info.Op, CaseID: at("case_id"), Params: at("params"), Status: at("status"),
		Class: at("class"),
		Type:  at("type"), Message: at("message"), Traceback: at("traceback"), Attempts: l.attempts.Values[row],
		Worker: at("worker"), Device: at("device_uuid"), At: at("at"),
	}
}

// ledgerColumns lists what the ledgers can be grouped by: the common columns, then
// parameters of cases by name.
func ledgerColumns(sources []StageLedger) []string {
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

	return append(out, slices.Sorted(maps.Keys(params))...)
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

// TotalFailures adds up the groups.
func TotalFailures(groups []FailureGroup) int {
	n := 0
	for _, g := range groups {
		n += g.Count
	}
	return n
}

// number matches the parts that vary between messages of one fault: addresses, digests,
// sizes (1x4353x2048), process ids, fractions before a unit (0.5s). Other digits
// inside a word (fp8, sm90, H200) belong to it.
var number = regexp.MustCompile(
	`\b(0x[0-9a-fA-F]+\b|[0-9a-f]{16,}\b|[0-9]+(x[0-9]+)+\b|` +
		`[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+([eE][+-]?[0-9]+)?\b)`,
)

// maxPattern is the number of bytes of a message that are compared.
const maxPattern = 4096

// messagePattern is a message with its numbers replaced by #, so that messages of one
// fault are equal.
func messagePattern(message string) string {
	message = strings.ToValidUTF8(message[:min(len(message), maxPattern)], "")
	return strings.Join(strings.Fields(number.ReplaceAllString(message, "#")), " ")
}

// paramText writes parameters, a JSON object, as "m=1 n=128", in the object's
// order. Text that is no object is returned as it is.
func paramText(object string) string {
	d := json.NewDecoder(strings.NewReader(object))
	d.UseNumber()

	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return object
	}

	var parts []string
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return object
		}

		var v any
		if err := d.Decode(&v); err != nil {
			return object
		}

		parts = append(parts, fmt.Sprintf("%v=%v", name, v))
	}

	return strings.Join(parts, " ")
}

// WriteFailuresMarkdown writes a table of the groups with one example each.
func WriteFailuresMarkdown(w io.Writer, groups []FailureGroup) error {
	if len(groups) == 0 {
		return nil
	}

	t := new(textutil.Table).Right("cases").Left(groups[0].By...).Left("example")
	for _, g := range groups {
		row := []any{g.Count}
		for _, v := range g.Values {
			row = append(row, v)
		}
		t.Row(append(row, textutil.Code(g.Example.Case()))...)
	}

	return t.Markdown(w)
}

// mostLines is how many lines a message takes.
const mostLines = 6

// WriteText writes a group for a terminal of that many columns: the count and the values, an example,
// and the advice. The command is on a line of its own so that it can be copied.
func (g FailureGroup) WriteText(w io.Writer, columns int, advice, command string) error {
	var b strings.Builder
	write := func(text, first string) {
		for i, line := range textutil.Wrap(text, columns-8, mostLines) {
			if i > 0 {
				first = ""
			}
			fmt.Fprintf(&b, "%6s  %s\n", first, line)
		}
	}

	values := slices.DeleteFunc(slices.Clone(g.Values), func(v string) bool { return v == "" })
	write(strings.Join(values, ", "), fmt.Sprint(g.Count))
	write("e.g. "+g.Example.Case(), "")

	if g.Value("message") != g.Example.Message {
		write(textutil.OneLine(g.Example.Message), "")
	}

	if advice != "" {
		write("next: "+advice, "")
	}

	if command != "" {
		b.WriteString("          " + command + "\n")
	}

	_, err := io.WriteString(w, b.String())
	return err
}
