package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
)

// Declaration is a table that a plan declares. Its JSON form is written beside the files
// of the table (SchemaFile), so that tools read the table without the plan.
type Declaration struct {
	Name    string   `json:"name"`   // ends in _perf
	Family  string   `json:"family"` // folder of the table in a database
	Doc     string   `json:"doc,omitempty"`
	Ops     []string `json:"ops,omitempty"` // ops of grids whose rows go to the table
	Columns []Field  `json:"columns"`       // in file order, without the identity columns
	Key     []string `json:"key"`           // columns that name a row
	Metrics []string `json:"metrics"`       // measured columns; rows are compared by the first
}

// Field is one column of a declared table.
type Field struct {
	Name   string `json:"name"`
	Type   string `json:"type"` // int64, float64, string or bool
	Unit   string `json:"unit,omitempty"`
	Doc    string `json:"doc,omitempty"`
	Better string `json:"better,omitempty"` // of a metric: lower, which is the default, or higher
	// Nullable is true for metrics that a row may lack.
	Nullable bool `json:"nullable,omitempty"`
	// Zero is true for metrics that may be zero.
	Zero bool `json:"zero,omitempty"`
}

// SchemaFile returns the name of the file that describes a declared table.
func SchemaFile(table string) string { return table + ".schema.json" }

// The lengths of names are checked beside their patterns, because a pattern that counts is slow to compile.
const longestTable, longestColumn = 65, 63

var (
	tableName  = regexp.MustCompile(`^[a-z][a-z0-9_]*_perf$`)
	columnName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	fieldTypes = map[string]arrow.DataType{
		"int64": table.Int64, "float64": table.Float64, "string": table.String, "bool": table.Bool,
	}
)

// Table checks the declaration and returns the table. An error names the part of the
// declaration that is wrong.
func (d *Declaration) Table() (*Table, error) {
	switch {
	case len(d.Name) > longestTable || !tableName.MatchString(d.Name):
		return nil, fmt.Errorf("the table name %q: use lower-case letters, digits and _, and end it in _perf", d.Name)
	case len(d.Family) > longestColumn || !columnName.MatchString(d.Family):
		return nil, fmt.Errorf("the family %q of %s: use lower-case letters, digits and _", d.Family, d.Name)
	case len(d.Key) == 0:
		return nil, fmt.Errorf("%s has no key: name the columns that identify a row", d.Name)
	case len(d.Metrics) == 0:
		return nil, fmt.Errorf("%s has no metrics: name its measured columns", d.Name)
	}
	if _, taken := Lookup(d.Name); taken {
		return nil, fmt.Errorf("%s is a built-in table: choose another name", d.Name)
	}
	if _, taken := LookupBackend(d.Family); taken {
		return nil, fmt.Errorf("the family %q of %s is the folder of a backend: choose another name", d.Family, d.Name)
	}

	t := &Table{
		Name: d.Name, Family: d.Family, Doc: d.Doc, Declared: true, KernelSourceKey: slices.Contains(d.Key, "kernel_source"),
		OpNames: d.Ops, OpNameKey: len(d.Ops) > 1 || slices.Contains(d.Key, "op_name"),
		columns: builtIn().role(Identity, identity...),
	}
	for _, f := range d.Columns {
		c, err := d.column(f)
		if err != nil {
			return nil, err
		}
		if _, twice := t.Column(f.Name); twice {
			return nil, fmt.Errorf("%s has the column %s twice, or it is one of every table", d.Name, f.Name)
		}
		t.columns = append(t.columns, c)
	}
	own := append(t.Key(), t.Metrics()...)
	for _, name := range slices.Concat(d.Key, d.Metrics) {
		if !slices.Contains(own, name) {
			return nil, fmt.Errorf("%s has no column %s of its own, which its key or its metrics name", d.Name, name)
		}
	}
	// The first metric is the one that rows are compared by.
	slices.SortStableFunc(t.columns, func(a, b Column) int { return cmp.Compare(d.rank(a), d.rank(b)) })
	t.ZeroLegal = t.Schema().Primary().Zero
	return t, nil
}

// rank sorts metrics after the other columns, in their own order.
func (d *Declaration) rank(c Column) int { return slices.Index(d.Metrics, c.Name) }

func (d *Declaration) column(f Field) (Column, error) {
	typ, ok := fieldTypes[f.Type]
	c := Column{Name: f.Name, Type: Type{typ}, Unit: f.Unit, Doc: f.Doc, Role: Info, Lacking: f.Nullable,
		Zero: f.Zero}
	inKey, measured := slices.Contains(d.Key, f.Name), slices.Contains(d.Metrics, f.Name)
	switch {
	case len(f.Name) > longestColumn || !columnName.MatchString(f.Name):
		return c, fmt.Errorf("the column %q of %s: use lower-case letters, digits and _", f.Name, d.Name)
	case !ok:
		return c, fmt.Errorf("the type %q of %s.%s: use int64, float64, string or bool", f.Type, d.Name, f.Name)
	case inKey && measured:
		return c, fmt.Errorf("%s.%s is in the key and a metric", d.Name, f.Name)
	case measured && typ != table.Float64:
		return c, fmt.Errorf("the metric %s.%s is %s: metrics are float64", d.Name, f.Name, f.Type)
	case f.Better != "" && f.Better != "lower" && f.Better != "higher":
		return c, fmt.Errorf("better = %q of %s.%s: use lower or higher", f.Better, d.Name, f.Name)
	case (f.Better != "" || f.Nullable || f.Zero) && !measured:
		return c, fmt.Errorf("%s.%s is not a metric: only metrics have better, nullable or zero", d.Name, f.Name)
	case f.Nullable && f.Name == d.Metrics[0]:
		return c, fmt.Errorf("%s.%s is the first metric: rows are compared by it, so that every row needs it", d.Name, f.Name)
	}

	if inKey {
		c.Role = Key
	}
	if measured {
		c.Role = Metric
	}
	if f.Better == "higher" {
		c.Better = Higher
	}
	return c, nil
}

// ParseDeclaration reads the JSON form of a declaration and checks it.
func ParseDeclaration(data []byte) (*Declaration, error) {
	var d Declaration
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	_, err := d.Table()
	return &d, err
}

// Encode returns the JSON form of the declaration.
func (d *Declaration) Encode() []byte {
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic(err) // strings and booleans only
	}
	return append(data, '\n')
}

// Catalog is the built-in tables and those that a plan declares. The nil catalog has the
// built-in ones.
type Catalog struct {
	declared []Declaration
	tables   []*Table
}

// New returns a catalog with declared tables. It reports declarations that are wrong, two
// of one name and two of one op.
func New(declared ...Declaration) (*Catalog, error) {
	c := &Catalog{declared: declared}
	for i := range declared {
		d := &declared[i]
		t, err := d.Table()
		if err != nil {
			return nil, err
		}
		if _, twice := c.Lookup(d.Name); twice {
			return nil, fmt.Errorf("the table %s is declared twice", d.Name)
		}
		for _, op := range d.Ops {
			if other, taken := c.LookupOp(op); taken {
				return nil, fmt.Errorf("the op %s of %s has the table %s already", op, d.Name, other.Table)
			}
		}
		c.tables = append(c.tables, t)
	}
	return c, nil
}

// Lookup finds a table by name, as the function Lookup does.
func (c *Catalog) Lookup(name string) (*Table, bool) {
	all := c.Tables()
	if i := slices.IndexFunc(all, func(t *Table) bool { return t.Name == Stem(name) }); i >= 0 {
		return all[i], true
	}
	return nil, false
}

// Tables returns all tables, the built-in ones first.
func (c *Catalog) Tables() []*Table {
	if c == nil {
		return Tables()
	}
	return append(Tables(), c.tables...)
}

// LookupOp finds an op, as the function LookupOp does.
func (c *Catalog) LookupOp(name string) (Op, bool) {
	if d := c.DeclaredFor("", name); d != nil {
		op := Op{Name: name, Table: d.Name}
		if len(d.Ops) > 0 {
			op.OpName = name
		}
		return op, true
	}
	return LookupOp(name)
}

// DeclaredFor returns the declaration of a table or, if table is "", of the table of an op.
// It returns nil if the plan declares no such table.
func (c *Catalog) DeclaredFor(table, op string) *Declaration {
	if c == nil {
		return nil
	}
	for i := range c.tables {
		d := &c.declared[i]
		if d.Name == Stem(table) || table == "" && slices.Contains(d.Ops, op) {
			return d
		}
	}
	return nil
}

// SchemaOf returns the schema of a table's rows, as the function SchemaOf does.
func (c *Catalog) SchemaOf(table string) *Schema {
	if t, ok := c.Lookup(table); ok {
		return t.Schema()
	}
	return &builtIn().own
}

// Suggest returns table names that are similar to name, best first.
func (c *Catalog) Suggest(name string) []string {
	var names []string
	for _, t := range c.Tables() {
		names = append(names, t.Name)
	}
	return textutil.Near(Stem(name), names, 3)
}

// DidYouMean returns a sentence with the tables that are similar to name, or "".
func (c *Catalog) DidYouMean(name string) string {
	near := c.Suggest(name)
	if len(near) == 0 {
		return ""
	}
	return " Did you mean " + strings.Join(near, " or ") + "?"
}
