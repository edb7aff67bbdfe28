package table

import (
	"bytes"
	"cmp"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"pgregory.net/rapid"
)

// drawRows makes random rows of a fixed set of columns.
func drawRows(t *rapid.T, label string) []map[string]any {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) map[string]any {
		maybe := func(name string, g *rapid.Generator[any]) any {
			if rapid.IntRange(0, 4).Draw(t, name+" null") == 0 {
				return nil
			}
			return g.Draw(t, name)
		}
		return map[string]any{
			"i": maybe("i", rapid.Int64Range(-3, 3).AsAny()),
			"f": maybe("f", rapid.SampledFrom([]float64{0, 1, 1.5, -2.25, 1e300, math.Inf(-1), math.NaN()}).AsAny()),
			"s": maybe("s", rapid.StringN(0, 3, 8).AsAny()),
			"b": maybe("b", rapid.Bool().AsAny()),
		}
	}), 0, 40).Draw(t, label)
}

var drawFields = []arrow.Field{Field("i", Int64), Field("f", Float64), Field("s", String), Field("b", Bool)}

func build(t *rapid.T, rows []map[string]any) arrow.Record {
	b := NewBuilder(drawFields...)
	for _, r := range rows {
		if err := b.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Record()
}

func TestRecordsAgreeWithRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rowsA, rowsB := drawRows(t, "a"), drawRows(t, "b")
		a, b := build(t, rowsA), build(t, rowsB)
		all, err := Concat(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(build(t, slices.Concat(rowsA, rowsB)), all); d != "" {
			t.Fatalf("Concat:\n%s", d)
		}
		n := int(all.NumRows())
		if n == 0 {
			return
		}
		pick := rapid.SliceOf(rapid.IntRange(-1, n-1)).Draw(t, "pick")
		want := make([]map[string]any, len(pick))
		for i, p := range pick {
			if want[i] = map[string]any{}; p >= 0 {
				want[i] = slices.Concat(rowsA, rowsB)[p]
			}
		}
		if d := difference(build(t, want), Take(all, pick)); d != "" {
			t.Fatalf("Take %v:\n%s", pick, d)
		}
		keys := Keys(all, "s", "i", "f", "b")
		for i := range keys {
			j := rapid.IntRange(0, n-1).Draw(t, "other")
			if (keys[i] == keys[j]) != (difference(Take(all, []int{i}), Take(all, []int{j})) == "") {
				t.Fatalf("rows %d and %d: keys say %v", i, j, keys[i] == keys[j])
			}
		}
		naive := make([]int, n)
		for i := range naive {
			naive[i] = i
		}
		data := slices.Concat(rowsA, rowsB)
		slices.SortStableFunc(naive, func(a, b int) int {
			for _, k := range []string{"f", "s", "i", "b"} {
				if c := compareCells(data[a][k], data[b][k], k == "i"); c != 0 {
					return c
				}
			}
			return 0
		})
		order, err := SortIndices(all, "f", "s", "-i", "b")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(naive, order) {
			t.Fatalf("sorted %v, want %v", order, naive)
		}
	})
}

// compareCells is the documented order, written the plain way.
func compareCells(a, b any, desc bool) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	r := 0
	switch a := a.(type) {
	case int64:
		r = cmp.Compare(a, b.(int64))
	case string:
		r = cmp.Compare(a, b.(string))
	case bool:
		r = cmp.Compare(boolInt(a), boolInt(b.(bool)))
	case float64:
		switch b := b.(float64); {
		case math.IsNaN(a) && math.IsNaN(b):
		case math.IsNaN(a):
			r = 1
		case math.IsNaN(b):
			r = -1
		default:
			r = cmp.Compare(a, b)
		}
	}
	if desc {
		return -r
	}
	return r
}

func TestIPCBytesDependOnTheDataAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := drawRows(t, "rows")
		rec := build(t, data)
		first, err := EncodeIPC(rec)
		if err != nil {
			t.Fatal(err)
		}
		// The same rows, cut out of a longer table and put together again.
		pad, err := Concat(rec, rec, rec)
		if err != nil {
			t.Fatal(err)
		}
		n := rec.NumRows()
		cut := rapid.Int64Range(0, n).Draw(t, "cut")
		glued, err := Concat(pad.NewSlice(n, n+cut), pad.NewSlice(2*n+cut, 3*n))
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 { // without rows Concat has nothing to take a type from but the schema, which it keeps
			second, err := EncodeIPC(pad.NewSlice(n, 2*n))
			if err != nil {
				t.Fatal(err)
			}
			third, err := EncodeIPC(glued)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(first, second) || !bytes.Equal(first, third) {
				t.Fatal("equal tables, different bytes")
			}
		}
		back, err := DecodeIPC(first)
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(rec, back); d != "" {
			t.Fatalf("round trip:\n%s", d)
		}
	})
}

func gemmLike(n int) arrow.Record {
	dtypes := []string{"bfloat16", "fp8", "fp8_block"}
	text, m, lat := make([]string, n), make([]int64, n), make([]float64, n)
	for i := range n {
		text[i], m[i], lat[i] = dtypes[i%3], int64(i), float64(i*7919%10007)/1000
	}
	return NewRecord([]string{"framework", "gemm_dtype", "m", "latency"},
		[]arrow.Array{Constant("CPU", n), Texts(text, nil), Ints(m, nil), Floats(lat, nil)})
}

func TestIPCBytesDoNotDependOnProcessors(t *testing.T) {
	rec := gemmLike(200_000)
	want, err := EncodeIPC(rec)
	if err != nil {
		t.Fatal(err)
	}
	old := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(old)
	for _, n := range []int{1, 3, 8} {
		runtime.GOMAXPROCS(n)
		got, err := EncodeIPC(rec)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("other bytes with %d processors", n)
		}
	}
}

func TestDamagedIPCIsAnError(t *testing.T) {
	data, err := EncodeIPC(gemmLike(50))
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		if _, err := DecodeIPC(data[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes were read as a table", n, len(data))
		}
	}
	for _, text := range []string{"", "not arrow", "ARROW1\x00\x00ARROW1"} {
		_, err := DecodeIPC([]byte(text))
		wantErr(t, err, "reading Arrow")
	}
}

// Another implementation of Arrow reads what is written here.
func TestPyarrowReadsIPC(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	if out, err := exec.Command(python, "-c", "import pyarrow").CombinedOutput(); err != nil {
		t.Skipf("pyarrow is not importable: %s", bytes.TrimSpace(out[max(0, len(out)-80):]))
	}
	dir := t.TempDir()
	rec, err := Concat(gemmLike(3), rows(t, `{"power":1.5,"ok":true}`))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "table.arrow")
	data, err := EncodeIPC(rec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	script := `
import sys, pyarrow as pa
t = pa.ipc.open_file(sys.argv[1]).read_all()
t.validate(full=True)
print([(f.name, str(f.type)) for f in t.schema])
print(t.to_pylist())
`
	cmd := exec.Command(python, "-c", script, path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := `[('framework', 'string'), ('gemm_dtype', 'string'), ('m', 'int64'), ('latency', 'double'), ('ok', 'bool'), ('power', 'double')]
[{'framework': 'CPU', 'gemm_dtype': 'bfloat16', 'm': 0, 'latency': 0.0, 'ok': None, 'power': None}, ` +
		`{'framework': 'CPU', 'gemm_dtype': 'fp8', 'm': 1, 'latency': 7.919, 'ok': None, 'power': None}, ` +
		`{'framework': 'CPU', 'gemm_dtype': 'fp8_block', 'm': 2, 'latency': 5.831, 'ok': None, 'power': None}, ` +
		`{'framework': None, 'gemm_dtype': None, 'm': None, 'latency': None, 'ok': True, 'power': 1.5}]
`
	if string(out) != want {
		t.Errorf("pyarrow reads\n%s", out)
	}
}

func BenchmarkEncodeIPC(b *testing.B) {
	rec := gemmLike(100_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EncodeIPC(rec); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rec.NumRows())*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkDecodeIPC(b *testing.B) {
	rec := gemmLike(100_000)
	data, err := EncodeIPC(rec)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := DecodeIPC(data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rec.NumRows())*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkSort(b *testing.B) {
	rec := gemmLike(1_000_000)
	for b.Loop() {
		if _, err := SortIndices(rec, "gemm_dtype", "latency", "m"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rec.NumRows())*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkKeys(b *testing.B) {
	rec := gemmLike(200_000)
	for b.Loop() {
		Keys(rec, "framework", "gemm_dtype", "m")
	}
	b.ReportMetric(float64(rec.NumRows())*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
