package perf

import (
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/metadata"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// Columns are written and read one by one. The library's bridge between Arrow
// and Parquet would do it, too, but brings its compute kernels, gRPC and HTTP
// along: a third of what a cold build of this program takes.

// WriteParquet writes rec as Parquet with the types INT64, DOUBLE, BYTE_ARRAY (UTF8) and
// BOOLEAN, every column optional, dictionary encoded if that is smaller, compressed with
// zstd, in one row group.
func WriteParquet(w io.Writer, rec arrow.Record) error {
	root, err := parquetSchema(rec.Schema())
	if err != nil {
		return err
	}

	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithDictionaryDefault(true), parquet.WithMaxRowGroupLength(max(rec.NumRows(), 1)),
		parquet.WithVersion(parquet.V2_LATEST), parquet.WithCreatedBy("aicplan"))
	fw := file.NewParquetWriter(w, root, file.WithWriterProps(props), file.WithWriteMetadata(metadata.KeyValueMetadata{}))
	if err := writeColumns(fw.AppendRowGroup(), rec); err != nil {
		return err // closing the writer would panic
	}
	return fw.Close()
}

func parquetSchema(s *arrow.Schema) (*schema.GroupNode, error) {
	var fields schema.FieldList
	for _, f := range s.Fields() {
		var logical schema.LogicalType = schema.NoLogicalType{}
		var typ parquet.Type
		switch f.Type.ID() {
		case arrow.INT64:
			typ, logical = parquet.Types.Int64, schema.NewIntLogicalType(64, true)
		case arrow.FLOAT64:
			typ = parquet.Types.Double
		case arrow.STRING:
			typ, logical = parquet.Types.ByteArray, schema.StringLogicalType{}
		case arrow.BOOL:
			typ = parquet.Types.Boolean
		default:
			panic("column " + f.Name + " is not in normal form: " + f.Type.String())
		}

		node, err := schema.NewPrimitiveNodeLogical(f.Name, parquet.Repetitions.Optional, logical, typ, -1, -1)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		fields = append(fields, node)
	}

	return schema.NewGroupNode("schema", parquet.Repetitions.Repeated, fields, -1)
}

func writeColumns(rg file.SerialRowGroupWriter, rec arrow.Record) error {
	for i := range int(rec.NumCols()) {
		cw, err := rg.NextColumn()
		if err != nil {
			return err
		}
		if err := writeColumn(cw, rec.Column(i)); err != nil {
			return err
		}
		if err := cw.Close(); err != nil {
			return err
		}
	}

	return rg.Close()
}

// writeColumn writes the values that are there and, as definition levels, which
// those are.
func writeColumn(cw file.ColumnChunkWriter, arr arrow.Array) error {
	levels := make([]int16, arr.Len())
	there := make([]int, 0, arr.Len()-arr.NullN())
	for i := range levels {
		if arr.IsValid(i) {
			levels[i] = 1
			there = append(there, i)
		}
	}

	var err error
	switch w := cw.(type) {
	case *file.Int64ColumnChunkWriter:
		_, err = w.WriteBatch(pickValues(there, arr.(*array.Int64).Value), levels, nil)
	case *file.Float64ColumnChunkWriter:
		_, err = w.WriteBatch(pickValues(there, arr.(*array.Float64).Value), levels, nil)
	case *file.BooleanColumnChunkWriter:
		_, err = w.WriteBatch(pickValues(there, arr.(*array.Boolean).Value), levels, nil)
	case *file.ByteArrayColumnChunkWriter:
		text := arr.(*array.String)
		all := text.ValueBytes()
		_, err = w.WriteBatch(pickValues(there, func(i int) parquet.ByteArray {
			from := text.ValueOffset(i) - text.ValueOffset(0)
			return all[from : from+text.ValueLen(i)]
		}), levels, nil)
	default:
		panic(fmt.Sprintf("no column writer for %T", cw))
	}

	return err
}

func pickValues[T any](at []int, value func(int) T) []T {
	out := make([]T, len(at))
	for k, i := range at {
		out[k] = value(i)
	}

	return out
}
