package rules

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/table"
)

// SchemaOptions select the parts of Schema.
type SchemaOptions struct {
	Words    bool // report words that readers do not know
	OldWords bool // report words that have another name now
	Kernel   bool // report rows that do not name their kernel
}

// Schema lists what keeps readers from reading rec as table t: missing key columns and metrics, wrong
// types, nulls in keys, words that readers do not know or take, and sizes that are too small.
func Schema(rec arrow.Record, t *catalog.Table, o SchemaOptions) []string {
	var out []string
	required := t.Required()
	if o.Kernel && !slices.Contains(required, "kernel_source") {
		required = append(required, "kernel_source")
	}
	for _, name := range required {
		if !table.Has(rec, name) {
			out = append(out, fmt.Sprintf("the column %s is missing", name))
		}
	}
	for i, name := range table.Names(rec) {
		want, known := t.Column(name)
		if !known || want.Role == catalog.Info {
			continue
		}
		arr := rec.Column(i)
		if arr.DataType().ID() != want.Type.ID() {
			out = append(out, fmt.Sprintf("%s is %s, and readers need %s", name, table.TypeName(arr.DataType()), want.Type))
			continue
		}
		lacking := arr.NullN()
		switch {
		case name == "kernel_source": // a text in a key may be empty
			col, _ := table.Strings(rec, name)
			lacking = table.Empty(col)

		case want.Role == catalog.Key && want.Type.ID() == arrow.FLOAT64:
			col, _ := table.Float64s(rec, name)
			for _, v := range col.Values { // those of null rows are 0
				if math.IsNaN(v) || math.IsInf(v, 0) {
					lacking++
				}
			}
		}
		if lacking > 0 && slices.Contains(required, name) {
			out = append(out, fmt.Sprintf("%s has no value in %d rows", name, lacking))
		}
		out = append(out, notTaken(rec, name, t)...)
		if o.Words {
			out = append(out, unknownWords(rec, name, t.Declared, o.OldWords)...)
		}
		if least, ok := want.Least(); ok {
			if n, first := below(rec, name, least); n > 0 {
				out = append(out, fmt.Sprintf("%s is below %d in %d rows, for example %d", name, least, n, first))
			}
		}
	}
	return out
}

// below counts the values of a column of integers under a limit; first is the
// first of them.
func below(rec arrow.Record, name string, least int64) (n int, first int64) {
	col, err := table.Int64s(rec, name)
	if err != nil {
		return 0, 0
	}
	for i, v := range col.Values {
		if v < least && !col.Null(i) {
			if n == 0 {
				first = v
			}
			n++
		}
	}
	return n, first
}

// notTaken counts the rows whose value readers of the table do not take.
func notTaken(rec arrow.Record, name string, t *catalog.Table) []string {
	takes := t.Takes[name]
	if takes == nil {
		return nil
	}
	col := rec.Column(table.Index(rec, name))
	others := map[string]int{}
	for i := range col.Len() {
		if v := table.Text(col, i); col.IsValid(i) && !slices.Contains(takes, v) {
			others[v]++
		}
	}
	var out []string
	for _, v := range slices.Sorted(maps.Keys(others)) {
		out = append(
			out,
			fmt.Sprintf("%s is %s in %d rows, and readers take %s only", name, v, others[v], strings.Join(takes, " or ")),
		)
	}
	return out
}

// unknownWords lists words that readers do not know. Declared tables have no vocabulary.
func unknownWords(rec arrow.Record, name string, declared, old bool) []string {
	if declared || catalog.Words(name) == nil && name != "distribution" {
		if text := Spaced(rec, name); text != "" {
			return []string{text}
		}
		return nil
	}
	var out []string
	for _, w := range table.Distinct(rec, name) {
		switch now, err := catalog.Word(name, w); {
		case err != nil:
			out = append(out, err.Error())
		case old && now != w:
			out = append(out, fmt.Sprintf("%s %q is called %q now", name, w, now))
		}
	}
	return out
}

// Spaced describes the first word of a column that has spaces around it. It returns "" if there is none.
func Spaced(rec arrow.Record, name string) string {
	for _, v := range table.Distinct(rec, name) {
		if word := strings.TrimSpace(v); word != v {
			return fmt.Sprintf("the column %s has spaces around %q: readers take that for another word than %q", name, v, word)
		}
	}
	return ""
}
