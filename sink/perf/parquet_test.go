package perf

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
	"github.com/google/go-cmp/cmp"

	"aicplan/sink/table"
)

// The sums are those that pyarrow gives for the same files.
func TestReadPublishedTables(t *testing.T) {
	for _, tc := range []struct {
		file  string
		rows  int64
		sums  map[string]float64
		first map[string]any
	}{
		{"nccl_perf.parquet", 504, map[string]float64{"num_gpus": 2352, "message_size": 19327343616, "latency": 78.21294},
			map[string]any{"framework": "TRTLLM", "version": "2.29.2", "device": "NVIDIA H200", "op_name": "all_gather",
				"kernel_source": "NCCL",
				"nccl_dtype":    "half", "num_gpus": int64(2), "message_size": int64(256), "latency": 0.00536}},
		{"moe_perf_head.parquet", 300, map[string]float64{"num_tokens": 573172, "hidden_size": 1046528, "topk": 2724,
			"moe_ep_size": 7285, "latency": 106.70059450666109},
			map[string]any{"framework": "TRTLLM", "version": "1.3.0rc20", "device": "NVIDIA H200", "op_name": "moe",
				"kernel_source": "moe_torch_flow_cutlass",
				"moe_dtype":     "fp8", "num_tokens": int64(1), "hidden_size": int64(3072), "inter_size": int64(1024),
				"topk": int64(8), "num_experts": int64(256),
				"moe_tp_size": int64(16), "moe_ep_size": int64(16), "distribution": "power_law_1.01",
				"latency": 0.026169601082801818}},
	} {
		t.Run(tc.file, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", tc.file))
			if err != nil {
				t.Fatal(err)
			}
			rec, err := ReadParquet(data)
			if err != nil {
				t.Fatal(err)
			}
			if rec.NumRows() != tc.rows {
				t.Errorf("%d rows, want %d", rec.NumRows(), tc.rows)
			}
			if d := cmp.Diff(tc.first, table.Row(rec, 0)); d != "" {
				t.Error(d)
			}
			for name, want := range tc.sums {
				col, err := table.Float64s(rec, name)
				if err != nil {
					t.Fatal(err)
				}
				sum := 0.0
				for _, v := range col.Values {
					sum += v
				}
				if !(math.Abs(sum-want) <= 1e-9*want) {
					t.Errorf("the sum of %s is %v, want %v", name, sum, want)
				}
			}
			// Through CSV and back nothing changes.
			again, err := ReadCSV([]byte(toCSV(t, rec)), nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := difference(rec, again); d != "" {
				t.Error(d)
			}
		})
	}
}

func mixed(t testing.TB) arrow.Record {
	return build(t,
		map[string]any{"s": "b", "n": 1, "f": 0.5, "ok": true, "power": nil, "e": ""},
		map[string]any{"s": nil, "n": nil, "f": nil, "ok": nil, "power": nil, "e": nil},
		map[string]any{"s": "a", "n": math.MaxInt64, "f": math.Inf(-1), "ok": false, "power": nil, "e": "é"},
	)
}

func toParquet(t testing.TB, rec arrow.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteParquet(&b, rec); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestParquetRoundTripAndDeterminism(t *testing.T) {
	rec := mixed(t)
	data := toParquet(t, rec)
	back, err := ReadParquet(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := difference(rec, back); d != "" {
		t.Error(d)
	}
	if !bytes.Equal(data, toParquet(t, rec)) {
		t.Error("the same rows make other bytes")
	}
	for _, n := range []int{0, 1, 70_000} {
		rec := gemmLike(n)
		back, err := ReadParquet(toParquet(t, rec))
		if err != nil {
			t.Fatalf("%d rows: %v", n, err)
		}
		if d := difference(rec, back); d != "" {
			t.Errorf("%d rows: %s", n, d)
		}
	}
}

func TestParquetLayoutOnDisk(t *testing.T) {
	rec, err := table.Concat(gemmLike(150_000), build(t, map[string]any{"graph": true}))
	if err != nil {
		t.Fatal(err)
	}
	r, err := file.NewParquetReader(bytes.NewReader(toParquet(t, rec)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.NumRowGroups() != 1 || r.NumRows() != 150_001 {
		t.Errorf("%d row groups, %d rows", r.NumRowGroups(), r.NumRows())
	}
	types := map[string]parquet.Type{"framework": parquet.Types.ByteArray, "m": parquet.Types.Int64,
		"latency": parquet.Types.Double, "graph": parquet.Types.Boolean}
	for i := range r.MetaData().Schema.NumColumns() {
		col := r.MetaData().Schema.Column(i)
		if want, ok := types[col.Name()]; ok && col.PhysicalType() != want {
			t.Errorf("%s is stored as %s", col.Name(), col.PhysicalType())
		}
		if col.PhysicalType() == parquet.Types.ByteArray && !col.LogicalType().Equals(schema.StringLogicalType{}) {
			t.Errorf("%s is not marked as UTF8: %s", col.Name(), col.LogicalType())
		}
		if col.MaxDefinitionLevel() != 1 {
			t.Errorf("%s is not optional", col.Name())
		}
		chunk, err := r.MetaData().RowGroup(0).ColumnChunk(i)
		if err != nil {
			t.Fatal(err)
		}
		if chunk.Compression().String() != "ZSTD" {
			t.Errorf("%s is compressed with %s", col.Name(), chunk.Compression())
		}
		if col.Name() == "framework" && !chunk.HasDictionaryPage() {
			t.Error("strings are not dictionary encoded")
		}
	}
}

func TestReadParquetRefusesWhatIsNone(t *testing.T) {
	good := toParquet(t, mixed(t))
	for n := range good {
		if _, err := ReadParquet(good[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes were read as a table", n, len(good))
		}
	}
	if _, err := ReadParquet([]byte("version https://git-lfs.github.com/spec/v1\n")); err == nil || err.Error() != lfsHint {
		t.Errorf("not the hint about git-lfs: %v", err)
	}
}

// Another implementation of Parquet reads what is written here.
func TestPyarrowReadsParquet(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	if out, err := exec.Command(python, "-c", "import pyarrow").CombinedOutput(); err != nil {
		t.Skipf("pyarrow is not importable: %s", bytes.TrimSpace(out[max(0, len(out)-80):]))
	}
	rec, err := table.Concat(gemmLike(100_000), build(t, map[string]any{"power": 1.5, "graph": true}))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "gemm_perf.parquet")
	if err := os.WriteFile(path, toParquet(t, rec), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", `
import sys, pyarrow.parquet as pq
f = pq.ParquetFile(sys.argv[1])
t = f.read()
t.validate(full=True)
print(f.metadata.num_row_groups, t.num_rows, [str(c.type) for c in t.schema])
print(t.slice(1, 1).to_pylist(), t.slice(100000, 1).to_pylist()[0]["power"])
`, path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	latency := table.Value(rec, table.Index(rec, "latency"), 1)
	want := fmt.Sprintf(`1 100001 ['string', 'string', 'string', 'string', 'string', 'string', 'int64', 'int64', 'int64', 'double', 'bool', 'double']
[{'framework': 'TRTLLM', 'version': '1.3.0rc20', 'device': 'NVIDIA H200', 'op_name': 'gemm', 'kernel_source': 'torch_flow', 'gemm_dtype': 'fp8', 'm': 1, 'n': 0, 'k': 0, 'latency': %v, 'graph': None, 'power': None}] 1.5
`, latency)
	if d := cmp.Diff(want, string(out)); d != "" {
		t.Error(d)
	}
}

func BenchmarkWriteParquet(b *testing.B) {
	rec := gemmLike(100_000)
	for b.Loop() {
		toParquet(b, rec)
	}
	b.ReportMetric(100_000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkReadParquet(b *testing.B) {
	data := toParquet(b, gemmLike(100_000))
	for b.Loop() {
		if _, err := ReadParquet(data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100_000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// difference returns the text of two records if their columns, types or values are different, otherwise "".
// NaN equals NaN.
func difference(a, b arrow.Record) string {
	exact := []array.EqualOption{array.WithNaNsEqual(true), array.WithAbsTolerance(0)}
	if a.Schema().Equal(b.Schema()) && array.RecordApproxEqual(a, b, exact...) {
		return ""
	}
	return fmt.Sprintf("%v -> %v", a, b)
}
