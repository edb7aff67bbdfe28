package perf

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
	"github.com/google/go-cmp/cmp"

	"aicplan/sink/table"
)

// other writes a file as other writers do: one column, two row groups.
func other(t *testing.T, node schema.Node, write func(file.ColumnChunkWriter)) []byte {
	t.Helper()
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, schema.FieldList{node}, -1)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := file.NewParquetWriter(&b, root)
	for range 2 {
		rg := w.AppendRowGroup()
		cw, err := rg.NextColumn()
		if err != nil {
			t.Fatal(err)
		}
		write(cw)
		if err := cw.Close(); err != nil {
			t.Fatal(err)
		}
		if err := rg.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func leaf(t *testing.T, rep parquet.Repetition, logical schema.LogicalType, typ parquet.Type) schema.Node {
	t.Helper()
	n, err := schema.NewPrimitiveNodeLogical("c", rep, logical, typ, -1, -1)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestReadParquetOfOtherWriters reads the types that perf tables of other
// writers have, and names those that it does not take.
func TestReadParquetOfOtherWriters(t *testing.T) {
	must := parquet.Repetitions.Required
	may := parquet.Repetitions.Optional
	none := schema.NoLogicalType{}
	int32s := func(levels []int16, v ...int32) func(file.ColumnChunkWriter) {
		return func(cw file.ColumnChunkWriter) {
			if _, err := cw.(*file.Int32ColumnChunkWriter).WriteBatch(v, levels, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	int64s := func(v ...int64) func(file.ColumnChunkWriter) {
		return func(cw file.ColumnChunkWriter) {
			if _, err := cw.(*file.Int64ColumnChunkWriter).WriteBatch(v, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		node  schema.Node
		write func(file.ColumnChunkWriter)
		want  []any
		err   string
	}{
		"required int32": {node: leaf(t, must, none, parquet.Types.Int32), write: int32s(nil, -1, 7),
			want: []any{int64(-1), int64(7)}},
		"optional int32": {node: leaf(t, may, none, parquet.Types.Int32), write: int32s([]int16{0, 1, 0}, 7),
			want: []any{nil, int64(7), nil}},
		"uint32": {node: leaf(t, must, schema.NewIntLogicalType(32, false), parquet.Types.Int32),
			write: int32s(nil, -1), want: []any{int64(math.MaxUint32)}},
		"uint64": {node: leaf(t, must, schema.NewIntLogicalType(64, false), parquet.Types.Int64), write: int64s(5),
			want: []any{int64(5)}},
		"uint64 too big": {node: leaf(t, must, schema.NewIntLogicalType(64, false), parquet.Types.Int64), write: int64s(-1),
			err: "18446744073709551615 is larger"},
		"nothing at all": {node: leaf(t, may, schema.NullLogicalType{}, parquet.Types.Int32), write: int32s([]int16{0, 0}),
			want: []any{nil, nil}},
		"date": {node: leaf(t, must, schema.DateLogicalType{}, parquet.Types.Int32), write: int32s(nil, 1),
			err: `column "c": the type is Date; only`},
		"a list of int32": {node: leaf(t, parquet.Repetitions.Repeated, none, parquet.Types.Int32),
			write: func(cw file.ColumnChunkWriter) {
				if _, err := cw.(*file.Int32ColumnChunkWriter).WriteBatch([]int32{1, 2}, []int16{1, 1}, []int16{0, 1}); err != nil {
					t.Fatal(err)
				}
			}, err: "one value a cell"},
		"float32": {node: leaf(t, may, none, parquet.Types.Float), write: func(cw file.ColumnChunkWriter) {
			if _, err := cw.(*file.Float32ColumnChunkWriter).WriteBatch([]float32{0.5}, []int16{1, 0}, nil); err != nil {
				t.Fatal(err)
			}
		}, want: []any{0.5, nil}},
		"bytes": {node: leaf(t, must, none, parquet.Types.ByteArray), write: func(cw file.ColumnChunkWriter) {
			if _, err := cw.(*file.ByteArrayColumnChunkWriter).WriteBatch([]parquet.ByteArray{{1}}, nil, nil); err != nil {
				t.Fatal(err)
			}
		}, err: "only integers, floats, strings and booleans"},
	} {
		rec, err := ReadParquet(other(t, c.node, c.write))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []any
		for i := range int(rec.NumRows()) {
			got = append(got, table.Value(rec, 0, i))
		}
		if d := cmp.Diff(append(c.want, c.want...), got); d != "" { // both row groups
			t.Errorf("%s: %s", name, d)
		}
	}
}
