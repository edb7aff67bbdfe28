package catalog

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

//go:embed catalog.json
var catalogJSON []byte

// description is the content of catalog.json: the perf tables of published databases, and serving_perf.
type description struct {
	Backends []Backend           `json:"backends"`
	Words    map[string][]string `json:"words"`   // vocabularies by column
	Renamed  map[string]string   `json:"renamed"` // present names of words of older files
	// Columns describes every column: a name has the same type, unit and meaning in every table.
	Columns []Column         `json:"columns"`
	Tables  []describedTable `json:"tables"`
	Ops     []Op             `json:"ops"`

	tables       []*Table
	metrics      map[string]bool // metrics of all tables
	power, extra []Column
	own          Schema // of ops that no table is about
}

// describedTable is a table as catalog.json describes it. The columns are in the order in which most backends
// write them.
type describedTable struct {
	Table
	Columns []group `json:"columns"`
}

// group lists columns of one role. Maybe are metrics that a row may lack.
type group struct {
	Identity, Key, Optional, Needed, Info, Metric, Maybe []string

	Unit string // instead of that of the columns
}

// builtIn returns the built-in tables. Nothing may change them.
var builtIn = sync.OnceValue(func() *description {
	d := &description{metrics: map[string]bool{}}
	from := json.NewDecoder(bytes.NewReader(catalogJSON))
	from.DisallowUnknownFields()
	if err := from.Decode(d); err != nil {
		panic("catalog: catalog.json: " + err.Error())
	}

	for _, t := range d.Tables {
		if !slices.ContainsFunc(t.Columns, func(g group) bool { return g.Identity != nil }) {
			t.columns = d.role(Identity, identity...)
		}
		for _, g := range t.Columns {
			t.columns = append(t.columns, d.columns(g)...)
		}
		for _, name := range t.Metrics() {
			d.metrics[name] = true
		}
		d.tables = append(d.tables, &t.Table)
	}

	for i := range d.Ops {
		if o := &d.Ops[i]; o.Table == "" {
			o.Table, o.OpName = o.Name+"_perf", o.Name
		}
	}

	d.power = d.role(Metric, "power", "power_limit")
	d.extra = append(d.role(Info, "sample_count", "wire_dtype"), d.role(Optional, "default_eligible")...)
	d.own.Metrics = d.role(Metric, "latency")
	return d
})

// identity are the columns that open the rows of most tables.
var identity = []string{"framework", "version", "device", "op_name", "kernel_source"}

func (d *description) columns(g group) (out []Column) {
	for role, names := range [][]string{g.Identity, g.Key, g.Optional, g.Needed, g.Info, g.Metric} {
		out = append(out, d.role(Role(role), names...)...)
	}
	for _, c := range d.role(Metric, g.Maybe...) {
		c.Lacking = true
		out = append(out, c)
	}

	for i := range out {
		out[i].Unit = cmp.Or(g.Unit, out[i].Unit)
	}
	return out
}

// role looks columns up and gives them a role.
func (d *description) role(r Role, names ...string) (out []Column) {
	for _, name := range names {
		i := slices.IndexFunc(d.Columns, func(c Column) bool { return c.Name == name })
		if i < 0 {
			panic("catalog: unknown column " + name)
		}
		c := d.Columns[i]
		c.Role = r
		out = append(out, c)
	}
	return out
}

// parse finds the value of a word.
func parse[T any](text []byte, words map[string]T, into *T) error {
	v, ok := words[string(text)]
	if !ok {
		return fmt.Errorf("unknown word %q", text)
	}
	*into = v
	return nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Type) UnmarshalText(text []byte) error { return parse(text, fieldTypes, &t.DataType) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Direction) UnmarshalText(text []byte) error {
	return parse(text, map[string]Direction{"lower": Lower, "higher": Higher}, d)
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Repeats) UnmarshalText(text []byte) error {
	return parse(text, map[string]Repeats{"take_last": TakeLast, "give_up": GiveUp}, r)
}
