// Package parquetrows reads the rows of Parquet files whose columns may be lists of groups, without pqarrow, which
// would add gRPC to the program.
package parquetrows

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// listLevels are the names of the inner groups of lists, by writer.
var listLevels = []string{"list", "element", "item", "array", "bag", "array_element"}

// Objects returns the rows of a Parquet file as JSON objects: columns of texts and numbers, and lists of groups of them
// such as messages. Other columns are left out. If they belong to one of the columns in needed and have values, it
// returns an error.
func Objects(in parquet.ReaderAtSeeker, needed ...string) ([][]byte, error) {
	f, err := file.NewParquetReader(in)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	rows := make([]map[string]any, f.NumRows())
	for i := range rows {
		rows[i] = map[string]any{}
	}

	for c := range f.MetaData().Schema.NumColumns() {
		at := 0
		for g := range f.NumRowGroups() {
			group := f.RowGroup(g)
			in, err := group.Column(c)
			if err == nil && at+int(group.NumRows()) <= len(rows) {
				err = fillRows(rows[at:at+int(group.NumRows())], in, needed)
			}
			if err != nil {
				return nil, fmt.Errorf("column %s: %w", f.MetaData().Schema.Column(c).Path(), err)
			}
			at += int(group.NumRows())
		}
	}

	var out [][]byte
	for _, row := range rows {
		raw, err := json.Marshal(row)
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}

// fillRows sets the values of a column of a row group.
func fillRows(rows []map[string]any, in file.ColumnChunkReader, needed []string) error {
	c := in.Descriptor()
	path := slices.DeleteFunc(slices.Clone(c.ColumnPath()), func(n string) bool { return slices.Contains(listLevels, n) })
	if c.MaxRepetitionLevel() > 1 || len(path) > 2 || len(path) == 0 || (len(path) == 2) != (c.MaxRepetitionLevel() == 1) {
		lost := false
		if len(path) == 0 || !slices.Contains(needed, path[0]) {
			return nil
		}

		err := eachValue(in, func(v any, _, _ int16) { lost = lost || v != nil })
		if err == nil && lost {
			err = errors.New("lists and groups within a list of groups are not read; write the rows as JSON lines (.jsonl)")
		}
		return err
	}

	repeated := repeatedLevel(c.SchemaNode())
	row, element := -1, 0
	return eachValue(in, func(v any, def, rep int16) {
		if rep == 0 {
			row++
			element = -1
		}
		if row >= len(rows) || def < repeated { // the list is empty
			return
		}

		if len(path) == 1 {
			if v != nil {
				rows[row][path[0]] = v
			}
			return
		}

		list, _ := rows[row][path[0]].([]map[string]any)
		if element++; element == len(list) {
			list = append(list, map[string]any{})
			rows[row][path[0]] = list
		}
		if v != nil && element < len(list) {
			list[element][path[1]] = v
		}
	})
}

// repeatedLevel returns the definition level from which on the list of a column has an element, or 0 without a list.
func repeatedLevel(n schema.Node) int16 {
	level, found := int16(0), false
	for ; n != nil && n.Parent() != nil; n = n.Parent() {
		found = found || n.RepetitionType() == parquet.Repetitions.Repeated
		if found && n.RepetitionType() != parquet.Repetitions.Required {
			level++
		}
	}
	return level
}

// eachValue calls f for each value of a column of texts or numbers with its levels. A missing value is nil, and so is
// NaN, which pandas writes for one.
func eachValue(in file.ColumnChunkReader, f func(v any, def, rep int16)) error {
	switch in.Type() {
	case parquet.Types.ByteArray:
		return Each(in, func(v *parquet.ByteArray, def, rep int16) {
			if v == nil {
				f(nil, def, rep)
			} else {
				f(string(*v), def, rep)
			}
		})
	case parquet.Types.Int64:
		return Each(in, func(v *int64, def, rep int16) { f(value(v), def, rep) })
	case parquet.Types.Int32:
		return Each(in, func(v *int32, def, rep int16) { f(value(v), def, rep) })
	case parquet.Types.Double:
		return Each(in, func(v *float64, def, rep int16) { f(value(v), def, rep) })
	case parquet.Types.Float:
		return Each(in, func(v *float32, def, rep int16) { f(value(v), def, rep) })
	}
	return nil
}

func value[T comparable](v *T) any {
	if v == nil || *v != *v {
		return nil
	}
	return *v
}

// Each calls f for each value of a column chunk, whose type is T, with its levels. A missing value is nil. Values are
// valid during the call.
func Each[T any](in file.ColumnChunkReader, f func(v *T, def, rep int16)) error {
	r, ok := in.(interface {
		ReadBatch(int64, []T, []int16, []int16) (int64, int, error)
	})
	if !ok {
		return fmt.Errorf("its chunk is of the type %s", in.Type())
	}

	const batch = 1 << 12
	values, def, rep := make([]T, batch), make([]int16, batch), make([]int16, batch) // levels stay 0 without any
	for in.HasNext() {
		n, _, err := r.ReadBatch(batch, values, def, rep)
		if err != nil || n == 0 {
			return err
		}

		next := 0
		for i := range n {
			if def[i] < in.Descriptor().MaxDefinitionLevel() {
				f(nil, def[i], rep[i])
				continue
			}
			f(&values[next], def[i], rep[i])
			next++
		}
	}
	return in.Err()
}
