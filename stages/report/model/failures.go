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

// entryValue returns the value of a ledger's row in a column. known is false if there is no such
// column and the case has no such parameter.
func (l StageLedger) entryValue(entry map[string]any, name string) (text string, known bool) {
	switch name {
	case "stage":
		return l.Address, true
	case "op":
		return l.Info.Op, true
	case "framework":
		return l.Info.Framework, true
	case "version":
		return l.Info.Version, true
	case "message":
		return messagePattern(textOf(entry, name)), true
	}

	v, ok := entry[name]
	if !ok {
		v, ok = decodeParams(textOf(entry, "params"))[name]
	}
	if v == nil {
		return "", ok
	}
	return fmt.Sprint(v), ok
}

// textOf returns a text of a ledger's row, "" if it has none.
func textOf(entry map[string]any, name string) string {
	text, _ := entry[name].(string)
	return text
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
		for row := range table.Len(src.Ledger) {
			entry := table.Row(src.Ledger, row)
			if s := textOf(entry, "status"); status != "all" && s != status {
				continue
			}

			rows++
			values := make([]string, len(by))
			for i, name := range by {
				text, ok := src.entryValue(entry, name)
				values[i] = text
				known[name] = known[name] || ok
			}

			key := strings.Join(values, "\x00")
			at, ok := index[key]
			if !ok {
				at = len(groups)
				index[key] = at
				groups = append(groups, FailureGroup{By: by, Values: values, Example: src.example(entry, row)})
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

func (l StageLedger) example(entry map[string]any, row int) Example {
	at := func(name string) string { return textOf(entry, name) }
	attached, err := stage.Attachments(l.Ledger, row)
	if err != nil {
		attached = nil // damaged: the failure itself is worth more
	}
	attempts, _ := entry["attempts"].(int64)
	return Example{
		Attachments: attached,
		Stage:       l.Address, Op: l.Info.Op, CaseID: at("case_id"), Params: at("params"), Status: at("status"),
		Class: at("class"),
		Type:  at("type"), Message: at("message"), Traceback: at("traceback"), Attempts: attempts,
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
		if table.Len(src.Ledger) == 0 {
			continue
		}

		for name := range decodeParams(textOf(table.Row(src.Ledger, 0), "params")) {
			params[name] = true
		}
	}

	return append(out, slices.Sorted(maps.Keys(params))...)
}

func decodeParams(text string) (params map[string]any) {
	_ = textutil.DecodeJSON([]byte(text), &params) // a collect has written it
	return params
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

		if v == nil {
			v = ""
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
