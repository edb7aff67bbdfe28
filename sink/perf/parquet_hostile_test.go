package perf

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/metadata"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// integers writes one row of columns of integers, with metadata beside.
func integers(t *testing.T, names []string, meta map[string]string, props ...parquet.WriterProperty) []byte {
	t.Helper()
	var fields schema.FieldList
	for _, n := range names {
		node, err := schema.NewPrimitiveNode(n, parquet.Repetitions.Required, parquet.Types.Int64, -1, -1)
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, node)
	}
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1)
	if err != nil {
		t.Fatal(err)
	}
	kv := metadata.NewKeyValueMetadata()
	for k, v := range meta {
		if err := kv.Append(k, v); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	w := file.NewParquetWriter(&b, root, file.WithWriteMetadata(kv),
		file.WithWriterProps(parquet.NewWriterProperties(props...)))
	rg := w.AppendRowGroup()
	for range names {
		cw, err := rg.NextColumn()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cw.(*file.Int64ColumnChunkWriter).WriteBatch([]int64{1}, nil, nil); err != nil {
			t.Fatal(err)
		}
		if err := cw.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := rg.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestParquetOfTooManyRows rejects a file of one megabyte with hundreds of millions of equal cells, which would
// exhaust the memory.
func TestParquetOfTooManyRows(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*metadata.FileMetaData){
		"the file":       func(m *metadata.FileMetaData) { m.NumRows = maxCells/2 + 1 },
		"a row group":    func(m *metadata.FileMetaData) { m.RowGroups[0].NumRows = math.MaxInt64 },
		"its row groups": func(m *metadata.FileMetaData) { m.RowGroups[0].NumRows = maxCells / 2 },
		"no more rows than is allowed": func(m *metadata.FileMetaData) {
			m.RowGroups = m.RowGroups[:1]
		},
	} {
		pf, err := file.NewParquetReader(bytes.NewReader(integers(t, []string{"m", "latency"}, nil)))
		if err != nil {
			t.Fatal(err)
		}
		m := pf.MetaData()
		second := *m.RowGroups[0]
		m.RowGroups = append(m.RowGroups, &second)
		spoil(m)
		err = cellsOf(pf)
		if allowed := strings.HasPrefix(name, "no more"); allowed != (err == nil) || !allowed &&
			!strings.Contains(err.Error(), "rows or more of 2 columns") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// arrowSchema is what Arrow's writers put beside the columns.
func arrowSchema(f arrow.Field) map[string]string {
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(arrow.NewSchema([]arrow.Field{f}, nil)),
		ipc.WithAllocator(memory.DefaultAllocator))
	_ = w.Close() // bytes.Buffer does not fail
	return map[string]string{"ARROW:schema": base64.StdEncoding.EncodeToString(b.Bytes())}
}

// Files that could be read in two ways, or that would cost more than any perf file,
// are refused with the column.
func TestParquetThatIsRefused(t *testing.T) {
	t.Parallel()
	wide := make([]string, maxColumns+1)
	for i := range wide {
		wide[i] = fmt.Sprint("c", i)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"same column": {integers(t, []string{"m", "latency", "m"}, nil), `two columns are called "m"`},
		"wide":        {integers(t, wide, nil), "it has 4097 columns, and 4096 are the most"},
		"duration": {integers(t, []string{"latency"},
			arrowSchema(arrow.Field{Name: "latency",
				Type: arrow.FixedWidthTypes.Duration_us})), `column "latency": the type is a duration in us; write it as a float`},
		"odd schema": {integers(t, []string{"latency"}, map[string]string{"ARROW:schema": "%"}), ""},
		"plain schema": {integers(t, []string{"latency"},
			arrowSchema(arrow.Field{Name: "latency", Type: arrow.PrimitiveTypes.Int64})), ""},
		"snappy": {integers(t, []string{"latency"}, nil, parquet.WithCompression(compress.Codecs.Snappy)), ""},
	} {
		rec, err := ReadParquet(c.data)
		switch {
		case c.want == "" && (err != nil || rec.NumRows() != 1):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	good := integers(t, []string{"latency"}, nil)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty": {nil, "the file is empty"},
		"CSV":   {[]byte("m,latency\n1,0.1\n"), "this is no Parquet file; the name of a CSV file ends in .csv or .txt"},
		"cut off": {good[:len(good)-3], fmt.Sprintf("the file is cut off: it begins as Parquet and does not end as such, "+
			"after %d bytes", len(good)-3)},
		"a mark":  {good[:4], "the file is cut off"},
		"no head": {good[6:], "this is no Parquet file"},
	} {
		if _, err := ReadParquet(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	header := strings.Join(wide, ",")
	if _, err := ReadCSV([]byte(header+"\n"), nil); err == nil || !strings.Contains(err.Error(), "4097 columns") {
		t.Errorf("wide CSV: %v", err)
	}
	if _, err := ReadCSV([]byte(strings.Repeat(header+",", 200)), nil); err == nil {
		t.Error("a header of 800,000 names is read")
	}
}

// The library's decoder does not return from a page that ends early.
func TestParquetWithPageThatEndsEarly(t *testing.T) {
	data, err := os.ReadFile("testdata/early_end.parquet")
	if err != nil {
		t.Fatal(err)
	}
	defer func(before time.Duration) { readTime = before }(readTime)
	readTime = 100 * time.Millisecond

	if _, err := ReadParquet(data); err == nil || !strings.Contains(err.Error(), "the reader did not finish within") {
		t.Errorf("error %v", err)
	}
}
