package tree

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/catalog"
	"aicplan/sink/perf"
	"aicplan/sink/table"
)

// ReadFile reads a perf file, CSV or Parquet by its extension. Text and
// measured columns have the types of the catalog; other columns of a CSV file
// are what their fields look like.
func ReadFile(path string) (arrow.Record, error) {
	data, err := fileutil.ReadFile(path)
	if err != nil {
		return nil, err
	}

	return Decode(path, data)
}

// Decode is ReadFile for bytes; path names the format, the table and the place
// of errors.
func Decode(path string, data []byte) (arrow.Record, error) {
	if strings.EqualFold(filepath.Ext(path), ".parquet") {
		rec, err := perf.ReadParquet(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}

		return rec, nil
	}

	rec, err := perf.ReadCSV(data, csvTypes(path))
	if ce, ok := errors.AsType[*perf.CSVError](err); ok {
		ce.Path = path
	}

	return rec, err
}

func csvTypes(path string) perf.Types {
	types := perf.Texts("framework", "version", "device", "op_name", "kernel_source", "case_id")
	types["power"], types["power_limit"] = table.Float64, table.Float64
	t, ok := TableOf(path)
	if !ok {
		types[catalog.SchemaOf("").Primary().Name] = table.Float64
		return types
	}

	for _, c := range t.Columns("", true) {
		if id := c.Type.ID(); id == arrow.STRING || id == arrow.FLOAT64 {
			types[c.Name] = c.Type.DataType
		}
	}

	return types
}

// WriteFile writes a perf file in the format of its extension, with the rows
// in the order of key, and returns the digest of its bytes. The same rows make
// the same bytes in whatever order they come.
func WriteFile(path string, rec arrow.Record, key []string) (string, error) {
	var b fileutil.Batch
	defer b.Discard()
	digest, err := Stage(&b, path, rec, key)
	if err != nil {
		return "", err
	}

	return digest, b.Commit()
}

// Stage is WriteFile as a part of a batch.
func Stage(b *fileutil.Batch, path string, rec arrow.Record, key []string) (string, error) {
	order := table.Order(rec, key)
	if !slices.IsSorted(order) {
		rec = table.Take(rec, order)
	}

	return StageInOrder(b, path, rec)
}

// StageInOrder is Stage for rows that stay in their order.
func StageInOrder(b *fileutil.Batch, path string, rec arrow.Record) (string, error) {
	write := perf.WriteCSV
	if strings.EqualFold(filepath.Ext(path), ".parquet") {
		write = perf.WriteParquet
	}
	return b.Stage(path, func(w io.Writer) error { return write(w, rec) })
}

// CheckCSV returns an error for rows that readers of CSV files cannot use: they parse power in every row
// of a file that has the column.
func CheckCSV(rec arrow.Record) error {

	for _, name := range []string{"power", "power_limit"} {
		if !table.Has(rec, name) {
			continue
		}
		col, err := table.Float64s(rec, name)
		if err != nil {
			return err
		}
		if n := col.Nulls(); n > 0 {
			return fmt.Errorf(
				"power in some rows only: %d of %d rows have no %s, and readers of CSV files fail on an empty one; "+
					"export with power = \"never\", or as Parquet",
				n,
				col.Len(),
				name,
			)
		}
	}

	return nil
}
