package export

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/zclconf/go-cty/cty"
	"go.yaml.in/yaml/v3"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/importer"
)

// These tests read exported databases by the rules of aiconfigurator's own
// loaders, written down here independently of the code that exports.

const published = "../../sink/testdata/published"

// database exports every published excerpt of trtllm and NCCL.
func database(t testing.TB, change func(*Config)) string {
	t.Helper()
	dir := t.TempDir()

	scan, err := tree.Walk(published)
	if err != nil {
		t.Fatal(err)
	}

	n := 0
	for _, e := range scan.Entries {
		if e.Backend != "trtllm" && e.Version != "2.29.2" {
			continue
		}

		set, err := importer.Load(filepath.Join(published, filepath.FromSlash(e.Path)), importer.Options{})
		if err != nil {
			t.Fatal(err)
		}

		mustRun(t, config(func(c *Config) {
			c.System, c.Version = cty.StringVal("h200_sxm"), e.Version
			change(c)
		}), dir, set.Data)

		n++
	}

	if n < 8 {
		t.Fatalf("only %d tables were exported", n)
	}

	return dir
}

func readYAML(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var v map[string]any
	return v, yaml.Unmarshal(data, &v)
}

// todayColumns are the key columns, integers marked, and the metric that
// today's reader needs of each table.
var todayColumns = map[string][]string{
	"gemm_perf":         {"gemm_dtype", "m#", "n#", "k#"},
	"computescale_perf": {"quant_dtype", "m#", "k#"},
	"scale_matrix_perf": {"quant_dtype", "m#", "k#"},
	"context_attention_perf": {"attn_dtype", "kv_cache_dtype", "num_heads#", "num_key_value_heads#",
		"head_dim#", "isl#", "batch_size#"},
	"generation_attention_perf": {"kv_cache_dtype", "num_heads#", "num_key_value_heads#", "head_dim#",
		"batch_size#", "isl#", "step#"},
	"generation_mla_perf":   {"kv_cache_dtype", "num_heads#", "batch_size#", "isl#", "step#"},
	"custom_allreduce_perf": {"num_gpus#", "message_size#"},
	"nccl_perf":             {"op_name", "nccl_dtype", "num_gpus#", "message_size#"},
}

// loadToday reads one table as today's reader does: physical types, one row
// group, codecs, required columns, ranges. It returns the usable rows.
func loadToday(path string) (int, error) {
	r, err := file.OpenParquetFile(path, false)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	schema := r.MetaData().Schema

	types := map[string]parquet.Type{}
	for i := range schema.NumColumns() {
		c := schema.Column(i)
		types[c.Name()] = c.PhysicalType()
		switch {
		case c.PhysicalType() == parquet.Types.ByteArray && c.ConvertedType().String() == "UTF8":
		case c.PhysicalType() == parquet.Types.Int64, c.PhysicalType() == parquet.Types.Double:
		default:
			return 0, fmt.Errorf("column %s is %s (%s)", c.Name(), c.PhysicalType(), c.ConvertedType())
		}

		if c.MaxDefinitionLevel() != 1 {
			return 0, fmt.Errorf("column %s is not nullable", c.Name())
		}
	}

	if r.NumRowGroups() != 1 {
		return 0, fmt.Errorf("%d row groups", r.NumRowGroups())
	}

	group := r.MetaData().RowGroup(0)
	for i := range schema.NumColumns() {
		chunk, err := group.ColumnChunk(i)
		if err != nil {
			return 0, err
		}
		if codec := chunk.Compression(); codec != compress.Codecs.Zstd && codec != compress.Codecs.Snappy {
			return 0, fmt.Errorf("column %s is compressed with %s", schema.Column(i).Name(), codec)
		}
	}

	name := strings.TrimSuffix(filepath.Base(path), ".parquet")
	want, ok := todayColumns[name]
	if !ok {
		return 0, fmt.Errorf("no reader for %s", name)
	}

	if types["latency"] != parquet.Types.Double {
		return 0, fmt.Errorf("latency is %s", types["latency"])
	}

	rec, err := tree.ReadFile(path)
	if err != nil {
		return 0, err
	}

	for _, column := range want {
		column, isInt := strings.CutSuffix(column, "#")
		typ, there := types[column]
		switch {
		case !there:
			return 0, fmt.Errorf("missing required column %s", column)
		case isInt && typ != parquet.Types.Int64, !isInt && typ != parquet.Types.ByteArray:
			return 0, fmt.Errorf("column %s is %s", column, typ)
		}

		if isInt {
			c, err := table.Int64s(rec, column)
			if err != nil {
				return 0, err
			}

			for i, v := range c.Values {
				if c.Null(i) || v < 0 || v > math.MaxUint32 {
					return 0, fmt.Errorf("column %s, row %d: %d does not fit", column, i+1, v)
				}
			}
		}
	}

	if rec.NumRows() == 0 {
		return 0, fmt.Errorf("no usable rows")
	}

	return int(rec.NumRows()), nil
}

func TestTodaysLoaderReadsTheExport(t *testing.T) {
	dir := database(t, func(c *Config) { c.Layout, c.SystemSpec = tree.Families, true })
	spec, err := readYAML(filepath.Join(dir, "h200_sxm.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	// What the reader asks of a system spec.
	for section, keys := range map[string][]string{
		"gpu": {"sm_version", "mem_bw", "mem_bw_empirical_scaling_factor", "mem_empirical_constant_latency",
			"bfloat16_tc_flops", "fp8_tc_flops"},
		"node": {"num_gpus_per_node", "inter_node_bw", "intra_node_bw", "p2p_latency"},
		"misc": {"nccl_version"},
	} {
		for _, k := range keys {
			if _, ok := spec[section].(map[string]any)[k]; !ok {
				t.Errorf("the spec lacks %s.%s", section, k)
			}
		}
	}

	if _, ok := spec["data_dir"]; !ok {
		t.Error("the spec lacks data_dir")
	}

	root := filepath.Join(dir, "data", "h200_sxm")
	tables := 0

	families, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}

	for _, fam := range families {
		if slices.Contains([]string{"trtllm", "sglang", "vllm", "nccl", "oneccl"}, fam.Name()) {
			t.Errorf("%s is taken for a backend, not a family", fam.Name())
		}

		paths, err := filepath.Glob(filepath.Join(root, fam.Name(), "*", "*", "*_perf.parquet"))
		if err != nil {
			t.Fatal(err)
		}

		for _, path := range paths {
			tables++
			n, err := loadToday(path)
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			strict(t, path, n)
		}
	}

	if tables != 8 {
		t.Errorf("%d tables are found, want 8", tables)
	}
}

// strict checks a table against its folder's sidecar like readers with strict provenance.
func strict(t *testing.T, path string, rows int) {
	t.Helper()
	meta, err := readYAML(filepath.Join(filepath.Dir(path), "collection_meta.yaml"))
	if err != nil {
		t.Error(err)
		return
	}

	runtime, _ := meta["runtime"].(map[string]any)
	for _, k := range []string{"framework", "version"} {
		if s, ok := runtime[k].(string); !ok || s == "" {
			t.Errorf("%s: runtime.%s is %v", path, k, runtime[k])
		}
	}

	entry, _ := meta["tables"].(map[string]any)[strings.TrimSuffix(filepath.Base(path), ".parquet")].(map[string]any)
	if meta["schema_version"] != 1 || entry == nil || entry["status"] != "complete" || entry["rows"] != rows {
		t.Errorf("%s: schema %v, entry %v, %d rows", path, meta["schema_version"], entry, rows)
	}
}

// The rules bite here too.
func TestTodaysLoaderRefuses(t *testing.T) {
	ds := gemm(order(3))
	for name, rec := range map[string]func() *stage.Dataset{
		"integer latency": func() *stage.Dataset {
			d := *ds
			d.Table = table.WithColumn(ds.Table, "latency", table.Ints([]int64{1, 2, 3}, nil))
			return &d
		},
		"missing column": func() *stage.Dataset { d := *ds; d.Table = table.Drop(ds.Table, "k"); return &d },
		"negative": func() *stage.Dataset {
			d := *ds
			d.Table = table.WithColumn(ds.Table, "m", table.Ints([]int64{1, -2, 3}, nil))
			return &d
		},
		"flags": func() *stage.Dataset {
			d := *ds
			d.Table = table.WithColumn(ds.Table, "extra", table.Flags([]bool{true, false, true}, nil))
			return &d
		},
	} {
		path := filepath.Join(t.TempDir(), "gemm_perf.parquet")
		if _, err := tree.WriteFile(path, rec().Table, nil); err != nil {
			t.Fatal(err)
		}
		if n, err := loadToday(path); err == nil {
			t.Errorf("%s: %d rows are read", name, n)
		}
	}
}
