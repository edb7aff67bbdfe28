// Package parquetrows reads the rows of Parquet files whose columns may be lists of groups, without pqarrow, which
// would add gRPC to the program.
package parquetrows

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// listLevels are the names of the inner groups of lists, by writer.
var listLevels = []string{"list", "element", "item", "array", "bag", "array_element"}

// Objects returns the rows of a Parquet file as JSON objects: columns of texts and whole numbers, and lists of
// groups of them such as messages. Other columns are left out.
func Objects(in parquet.ReaderAtSeeker) ([][]byte, error) {
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
				err = fillRows(rows[at:at+int(group.NumRows())], in)
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
func fillRows(rows []map[string]any, in file.ColumnChunkReader) error {
	c := in.Descriptor()
	path := slices.DeleteFunc(slices.Clone(c.ColumnPath()), func(n string) bool { return slices.Contains(listLevels, n) })
	if c.MaxRepetitionLevel() > 1 || len(path) > 2 || len(path) == 0 || (len(path) == 2) != (c.MaxRepetitionLevel() == 1) {
		return nil
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

// eachValue calls f for each value of a column of texts or whole numbers with its levels. A missing value is nil.
func eachValue(in file.ColumnChunkReader, f func(v any, def, rep int16)) error {
	switch r := in.(type) {
	case *file.ByteArrayColumnChunkReader:
		return readLevels(in, r.ReadBatch, func(b parquet.ByteArray) any { return string(b) }, f)
	case *file.Int64ColumnChunkReader:
		return readLevels(in, r.ReadBatch, func(n int64) any { return n }, f)
	case *file.Int32ColumnChunkReader:
		return readLevels(in, r.ReadBatch, func(n int32) any { return n }, f)
	}
	return nil
}

func readLevels[T any](in file.ColumnChunkReader, read func(int64, []T, []int16, []int16) (int64, int, error),
	value func(T) any, f func(v any, def, rep int16)) error {
	const batch = 1024
	c := in.Descriptor()
	values, def, rep := make([]T, batch), make([]int16, batch), make([]int16, batch)
	for in.HasNext() {
		n, _, err := read(batch, values, def, rep)
		if err != nil || n == 0 {
			return err
		}

		next := 0
		for i := range n {
			d, r := def[i], rep[i]
			if c.MaxDefinitionLevel() == 0 {
				d = 0
			}
			if c.MaxRepetitionLevel() == 0 {
				r = 0
			}

			var v any
			if d == c.MaxDefinitionLevel() {
				v = value(values[next])
				next++
			}
			f(v, d, r)
		}
	}
	return in.Err()
}
