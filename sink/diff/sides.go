package diff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// Side is one of the two tables.
type Side struct {
	Name       string   `json:"name"`
	Rows       int      `json:"rows"`
	Duplicates int      `json:"duplicates"` // rows that repeat an earlier key and are not compared
	Framework  []string `json:"framework,omitempty"`
	Version    []string `json:"version,omitempty"`
	Device     []string `json:"device,omitempty"`
}

// canon compares words of older files as what they are called now.
func canon(column, word string) string {
	if now, err := catalog.Word(column, word); err == nil {
		return now
	}

	return word
}

func side(rec arrow.Record, name string) Side {
	return Side{
		Name:      name,
		Rows:      table.Len(rec),
		Framework: table.Distinct(rec, "framework"),
		Version:   table.Distinct(rec, "version"),
		Device:    table.Distinct(rec, "device"),
	}
}

// choose decides on key and metric and notes how the columns differ.
func (r *Comparison) choose(a, b arrow.Record, o Options) error {
	t, known := o.Schema, o.Schema != nil
	r.Key, r.Metric = slices.Clone(o.Key), o.Metric
	if r.Metric == "" {
		r.Metric = catalog.SchemaOf("").Primary().Name
		if known {
			r.Metric = t.Schema().Primary().Name
		}
	}

	if len(r.Key) == 0 && known && !t.Open {
		r.Key = t.KeyOf(a, b)
	}
	if len(r.Key) == 0 {
		r.Key = catalog.Shape(a.Schema())
	}
	for _, k := range o.Key {
		for i, name := range []string{r.A.Name, r.B.Name} {
			if _, err := table.Array([]arrow.Record{a, b}[i], k); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if known && len(o.Key) == 0 {
		if err := r.halfMissing(a, b, t); err != nil {
			return err
		}
	}

	// A column that one side lacks does not distinguish its rows, unless readers assume a value for it.
	r.Key = slices.DeleteFunc(r.Key, func(k string) bool {
		_, optional := tree.Defaults[k]
		return !optional && (!table.Has(a, k) || !table.Has(b, k)) || !table.Has(a, k) && !table.Has(b, k)
	})
	if slices.Contains(r.Key, r.Metric) {
		return fmt.Errorf("the key has the column %s, which is what is compared: rows of one value are always alike",
			r.Metric)
	}
	if len(r.Key) == 0 {
		return fmt.Errorf("%w: %s has %s; %s has %s", ErrNoKey, r.A.Name, strings.Join(table.Names(a), ", "), r.B.Name,
			strings.Join(table.Names(b), ", "))
	}
	r.Drift = drift(a.Schema(), b.Schema(), r.A.Name, r.B.Name)
	return nil
}

// halfMissing is the error of a key column that readers need and one side has:
// without it rows that differ would be taken for one.
func (r *Comparison) halfMissing(a, b arrow.Record, t *catalog.Table) error {
	for _, k := range r.Key {
		if c, _ := t.Column(k); c.Role == catalog.Optional || table.Has(a, k) == table.Has(b, k) {
			continue
		}
		lacks := r.A.Name
		if table.Has(a, k) {
			lacks = r.B.Name
		}

		return fmt.Errorf(
			"%s lacks the column %s, which distinguishes rows of %s; set the key to the columns to compare", lacks, k,
			t.Name)
	}

	return nil
}

func drift(a, b *arrow.Schema, nameA, nameB string) []string {
	var out []string
	for _, f := range a.Fields() {
		other, there := b.FieldsByName(f.Name)
		if !there {
			out = append(out, fmt.Sprintf("%s only in %s", f.Name, nameA))
			continue
		}
		if ta, tb := table.TypeName(f.Type), table.TypeName(other[0].Type); ta != tb {
			out = append(out, fmt.Sprintf("%s is %s in %s and %s in %s", f.Name, ta, nameA, tb, nameB))
		}
	}

	for _, f := range b.Fields() {
		if !a.HasField(f.Name) {
			out = append(out, fmt.Sprintf("%s only in %s", f.Name, nameB))
		}
	}

	return out
}
