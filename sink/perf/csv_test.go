package perf

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"aicplan/sink/table"
)

var update = flag.Bool("update", false, "rewrite golden files")

func wantErr(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want %q", err, text)
	}
}

func toCSV(t testing.TB, rec arrow.Record) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteCSV(&b, rec); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func build(t testing.TB, rows ...map[string]any) arrow.Record {
	t.Helper()
	b := table.NewBuilder()
	for _, r := range rows {
		if err := b.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Record()
}

func TestWriteCSVGolden(t *testing.T) {
	rec := build(t,
		map[string]any{"op": "gemm", "m": 128, "latency": 0.1, "power": 700.0, "graph": true, "note": "plain"},
		map[string]any{"op": "gemm", "m": 16, "latency": 1e-7, "power": nil, "graph": false, "note": "a,b"},
		map[string]any{"op": "gemm", "m": 16, "latency": 0.30000000000000004, "power": 1.0, "graph": nil, "note": `say "hi"`},
		map[string]any{"op": "bmm", "m": -9, "latency": 123456789.125, "power": math.Copysign(0, -1), "graph": true,
			"note": ""},
		map[string]any{"op": "bmm", "m": math.MinInt64, "latency": math.NaN(), "power": math.Inf(1), "graph": true,
			"note": "two\nlines"},
		map[string]any{"op": "größe", "m": nil, "latency": 5e-324, "power": 1e21, "graph": true, "note": "cr\rhere"},
		map[string]any{"op": nil, "m": 1, "latency": 2.0, "power": 3.0, "graph": true, "note": nil},
	)
	ordered, err := table.Select(table.Take(rec, []int{4, 3, 1, 2, 0, 5, 6}), "op", "m", "latency", "power", "graph",
		"note")
	if err != nil {
		t.Fatal(err)
	}
	got := toCSV(t, ordered)
	golden := filepath.Join("testdata", "cells.csv")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Error(d)
	}
	back, err := ReadCSV([]byte(got), nil)
	if err != nil {
		t.Fatal(err)
	}
	if again := toCSV(t, back); again != got {
		t.Errorf("reading and writing again changes the bytes:\n%s", cmp.Diff(got, again))
	}
}

// encoding/csv reads what is written here as the same cells.
func TestCSVAgreesWithEncodingCSV(t *testing.T) {
	text := rapid.StringOf(rapid.SampledFrom([]rune("ab ,\"\n;é\t'")))
	rapid.Check(t, func(t *rapid.T) {
		cells := rapid.SliceOfN(rapid.SliceOfN(text, 2, 2), 1, 20).Draw(t, "cells")
		b := table.NewBuilder(table.Field("x", table.String), table.Field("y,z", table.String))
		for _, c := range cells {
			if err := b.Append(map[string]any{"x": c[0], "y,z": c[1]}); err != nil {
				t.Fatal(err)
			}
		}
		rec := b.Record()
		var buf bytes.Buffer
		if err := WriteCSV(&buf, rec); err != nil {
			t.Fatal(err)
		}
		theirs, err := csv.NewReader(bytes.NewReader(buf.Bytes())).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		want := [][]string{{"x", "y,z"}}
		for _, c := range cells {
			want = append(want, []string{c[0], c[1]})
		}
		if d := cmp.Diff(want, theirs); d != "" {
			t.Fatal(d)
		}
		ours, err := ReadCSV(buf.Bytes(), Texts("x", "y,z"))
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(rec, ours); d != "" {
			t.Fatal(d)
		}
	})
}

func TestReadCSVTypes(t *testing.T) {
	rec, err := ReadCSV([]byte("\xef\xbb\xbfi,f,mixed,b,s,lead,plus,none,quoted,big,nan\r\n"+
		"1,1.5,1,true,x,007,+1,,\"2\",9223372036854775807,nan\r\n\r\n"+
		"-3,1e-3,.5,False,,08,2,,\"3\",9223372036854775808,1\r\n"+
		",,,,\"\",,,,,,\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, f := range rec.Schema().Fields() {
		types = append(types, f.Name+" "+table.TypeName(f.Type))
	}
	want := []string{"i int64", "f float64", "mixed float64", "b bool", "s string", "lead string", "plus string",
		"none string", "quoted int64", "big float64", "nan float64"}
	if d := cmp.Diff(want, types); d != "" {
		t.Error(d)
	}
	if rec.NumRows() != 3 || table.Value(rec, 0, 1) != int64(-3) || table.Value(rec, 2, 1) != 0.5 ||
		table.Value(rec, 4, 1) != nil || table.Value(rec, 4, 2) != "" {
		t.Errorf("got %v", rec)
	}
	rec, err = ReadCSV([]byte("version,latency\n1.10,5\n"),
		Types{"version": table.String, "latency": table.Float64, "absent": table.Int64})
	if err != nil || table.Value(rec, 0, 0) != "1.10" || table.Value(rec, 1, 0) != 5.0 {
		t.Errorf("declared types: %v, %v", rec, err)
	}
	if one, err := ReadCSV([]byte("a\n1\n\n2\n"), nil); err != nil || one.NumRows() != 2 {
		t.Errorf("a blank line is no row: %v, %v", one, err)
	}
	if none, err := ReadCSV([]byte("a,b\n"), Types{"b": table.Float64}); err != nil || none.NumRows() != 0 ||
		none.Column(1).DataType() != table.Float64 {
		t.Errorf("a header alone: %v, %v", none, err)
	}
}

func TestReadCSVErrorsHavePlaces(t *testing.T) {
	for _, tc := range []struct{ name, data, want string }{
		{"empty", "", "f.txt:1:1: the file is empty"},
		{"short row", "a,b\n1,2\n3\n", "f.txt:3:1: this row has 1 fields, the header has 2"},
		{"two items in one line", "a,b\n1,21,2\n", "f.txt:2:1: this row has 3 fields, the header has 2"},
		{"open quote", "a,b\n1,\"x\n2,3\n", "f.txt:3:5: a quoted field does not end in a quote"},
		{"text after quote", "a,b\n\"x\"y,1\n", "f.txt:2:3: a quoted field does not end in a quote"},
		{"carriage returns", "a,b\n\"x\r\r\ny\",1\n", "f.txt:2:1: a line inside a field ends in several"},
		{"bare quote", "a,b\nx\"y,1\n", "f.txt:2:2: a quote inside a field"},
		{"not a number", "a,b\r\n\"l\nm\",1\r\nz,q\r\n", `f.txt:4:3: "q" in column "b" is not a number`},
		{"twice", "a,b,a\n", `f.txt:1:5: two columns are called "a"`},
		{"no name", "a,,b\n", "f.txt:1:3: a column without a name"},
		{"bom", "\xef\xbb\xbfa,,b\n", "f.txt:1:6: a column without a name"},
		{"lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:x\n", "fetch it with git lfs pull"},
		{"parquet", "PAR1....", "this is a Parquet file"},
		{"utf16", "a\x00,\x00b\x00", "f.txt:1:2: a NUL byte"},
		{"gzip", "\x1f\x8b\x08\x00", "f.txt:1:4: a NUL byte: this is not CSV text in UTF-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ReadCSV([]byte(tc.data), Types{"b": table.Float64})
			var ce *CSVError
			if !errors.As(err, &ce) {
				t.Fatalf("%T is not a *CSVError", err)
			}
			ce.Path = "f.txt"
			wantErr(t, err, tc.want)
		})
	}
}

func FuzzReadCSV(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "a\r\n\"x\"\"y\"\r\n", "a,b\n,\"\"\n", "a\n-0\n1e5\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := ReadCSV(data, nil)
		if err != nil {
			var ce *CSVError
			if !errors.As(err, &ce) || ce.Line < 1 || ce.Column < 1 {
				t.Fatalf("an error without a place: %v", err)
			}
			return
		}
		types := Types{}
		for _, fd := range rec.Schema().Fields() {
			types[fd.Name] = fd.Type
		}
		again, err := ReadCSV([]byte(toCSV(t, rec)), types)
		if err != nil {
			t.Fatalf("what was read cannot be written and read again: %v", err)
		}
		if d := difference(rec, again); d != "" {
			t.Fatal(d)
		}
	})
}

type fullDisk struct{ left int }

func (w *fullDisk) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, fmt.Errorf("write: %w", syscall.ENOSPC)
	}
	return len(p), nil
}

func TestWritersReportAFullDisk(t *testing.T) {
	rec := gemmLike(5000)
	for name, write := range map[string]func(io.Writer, arrow.Record) error{"csv": WriteCSV, "parquet": WriteParquet} {
		var whole bytes.Buffer
		if err := write(&whole, rec); err != nil {
			t.Fatal(err)
		}
		for tenths := range 10 {
			// Files are written through a buffer.
			w := bufio.NewWriterSize(&fullDisk{left: whole.Len() * tenths / 10}, 1000)
			if err := errors.Join(write(w, rec), w.Flush()); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s, %d0 %%: %v", name, tenths, err)
			}
		}
	}
}

func gemmLike(n int) arrow.Record {
	dtypes := []string{"bfloat16", "fp8", "fp8_block"}
	text, m, nn, k, lat := make([]string, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]float64, n)
	rnd := rand.New(rand.NewPCG(7, 7))
	for i := range n {
		text[i], m[i], nn[i], k[i] = dtypes[i%3], 1<<(i/3%15), int64(i/45%500)*128, int64(i/22500)*64
		lat[i] = math.Round(rnd.ExpFloat64()*1e6) / 1e6
	}
	return table.NewRecord(
		[]string{"framework", "version", "device", "op_name", "kernel_source", "gemm_dtype", "m", "n", "k", "latency"},
		[]arrow.Array{
			table.Constant("TRTLLM", n), table.Constant("1.3.0rc20", n), table.Constant("NVIDIA H200", n),
			table.Constant("gemm", n),
			table.Constant("torch_flow", n), table.Texts(text, nil), table.Ints(m, nil), table.Ints(nn, nil),
			table.Ints(k, nil), table.Floats(lat, nil),
		})
}

func BenchmarkWriteCSV(b *testing.B) {
	rec := gemmLike(1_000_000)
	var out bytes.Buffer
	for b.Loop() {
		out.Reset()
		if err := WriteCSV(&out, rec); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rec.NumRows())*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.SetBytes(int64(out.Len()))
}

func BenchmarkReadCSV(b *testing.B) {
	data := []byte(toCSV(b, gemmLike(300_000)))
	types := Texts("framework", "version", "device", "op_name", "kernel_source")
	for b.Loop() {
		if _, err := ReadCSV(data, types); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(300_000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
