package export

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// oldColumns are what the reader of 0.4 asks of each file: text columns with
// their words, integer columns, and optional ones.
var oldColumns = map[string]struct {
	words map[string][]string
	ints  []string
}{
	"gemm_perf":                 {map[string][]string{"gemm_dtype": oldGemm}, []string{"m", "n", "k"}},
	"context_attention_perf":    {map[string][]string{"attn_dtype": oldFMHA, "kv_cache_dtype": oldKV}, []string{"batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim"}},
	"generation_attention_perf": {map[string][]string{"attn_dtype": oldFMHA, "kv_cache_dtype": oldKV}, []string{"batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "step"}},
	"generation_mla_perf":       {map[string][]string{"mla_dtype": oldFMHA, "kv_cache_dtype": oldKV}, []string{"batch_size", "isl", "step", "num_heads"}},
	"custom_allreduce_perf":     {nil, []string{"num_gpus", "message_size"}},
	"nccl_perf":                 {map[string][]string{"nccl_dtype": {"half", "int8", "fp8"}}, []string{"num_gpus", "message_size"}},
}

var (
	oldGemm = []string{"float16", "int8_wo", "int4_wo", "fp8", "sq", "fp8_block", "fp8_ootb", "nvfp4"}
	oldFMHA = []string{"float16", "fp8", "fp8_block"}
	oldKV   = []string{"float16", "int8", "fp8"}
)

// loadOld reads a database as 0.4 does: any bad file loses all of it, a missing
// one only itself. It returns the number of entries of every table.
func loadOld(dir, system, backend, version string) (map[string]int, error) {
	spec, err := readYAML(filepath.Join(dir, system+".yaml"))
	if err != nil {
		return nil, err
	}
	nccl := spec["misc"].(map[string]any)["nccl_version"].(string)
	out := map[string]int{}
	for name, want := range oldColumns {
		path := filepath.Join(dir, "data", system, backend, version, name+".txt")
		if name == "nccl_perf" {
			path = filepath.Join(dir, "data", system, "nccl", nccl, name+".txt")
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rows, err := csv.NewReader(f).ReadAll()
		f.Close()
		if err != nil {
			return nil, err
		}
		at := map[string]int{}
		for i, h := range rows[0] {
			at[h] = i
		}
		seen := map[string]bool{}
		slices2 := map[string]map[int]bool{}
		for n, row := range rows[1:] {
			var key []string
			for column, words := range want.words {
				i, ok := at[column]
				if !ok {
					return nil, fmt.Errorf("%s: KeyError %s", path, column)
				}
				if !slices.Contains(words, row[i]) {
					return nil, fmt.Errorf("%s, row %d: KeyError %q of %s", path, n+1, row[i], column)
				}
			}
			for _, column := range slices.Sorted(maps.Keys(want.words)) {
				key = append(key, row[at[column]])
			}
			num := map[string]int{}
			for _, column := range want.ints {
				i, ok := at[column]
				if !ok {
					return nil, fmt.Errorf("%s: KeyError %s", path, column)
				}
				if num[column], err = strconv.Atoi(row[i]); err != nil {
					return nil, fmt.Errorf("%s, row %d: %w", path, n+1, err)
				}
				key = append(key, row[i])
			}
			for _, column := range []string{"latency", "power"} {
				i, ok := at[column]
				if !ok && column == "power" {
					continue
				}
				if _, err := strconv.ParseFloat(row[i], 64); err != nil {
					return nil, fmt.Errorf("%s, row %d: %w", path, n+1, err)
				}
			}
			if i, ok := at["window_size"]; ok {
				key = append(key, row[i])
			}
			if i, ok := at["op_name"]; ok && name == "nccl_perf" {
				key = append(key, row[i])
			}
			if k := strings.Join(key, "|"); !seen[k] {
				seen[k] = true
				out[name]++
			}
			if name == "context_attention_perf" || name == "generation_attention_perf" {
				kv := num["num_key_value_heads"]
				if kv == num["num_heads"] {
					kv = 0
				}
				s := fmt.Sprint(kv, num["head_dim"], row[at["kv_cache_dtype"]], row[at["window_size"]])
				if name == "context_attention_perf" {
					s += row[at["attn_dtype"]]
				}
				if slices2[s] == nil {
					slices2[s] = map[int]bool{}
				}
				slices2[s][num["num_heads"]] = true
			}
		}
		for s, heads := range slices2 {
			if len(heads) < 2 {
				return nil, fmt.Errorf("%s: AssertionError: the slice %s has %d number of heads", path, s, len(heads))
			}
		}
	}
	return out, nil
}

func readYAML(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var v map[string]any
	return v, yaml.Unmarshal(data, &v)
}

// oldSpec is the part of a system spec that the old reader needs.
const oldSpec = "data_dir: data/h200_sxm\ngpu: {mem_bw: 4800000000000, float16_tc_flops: 989000000000000}\nmisc: {nccl_version: '2.29.2'}\n"

func TestOldLoaderReadsTheExport(t *testing.T) {
	dir := database(t, func(c *Config) { c.Layout, c.Reader = string(tree.Systems), ReaderOld })
	if err := os.WriteFile(filepath.Join(dir, "h200_sxm.yaml"), []byte(oldSpec), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := loadOld(dir, "h200_sxm", "trtllm", "1.3.0rc20")
	if err != nil {
		t.Fatal(err)
	}
	// Of attention the excerpt has multi-head rows of 8 heads alone: 306 and 328
	// rows that old readers cannot take.
	want := map[string]int{"gemm_perf": 1332, "context_attention_perf": 1377 - 306, "generation_attention_perf": 1240 - 328, "generation_mla_perf": 724, "custom_allreduce_perf": 69, "nccl_perf": 504}
	if !maps.Equal(got, want) {
		t.Errorf("loaded %v, want %v", got, want)
	}
}

// The rules bite: what today's readers take loses the old ones the database.
func TestOldLoaderRefusesTodaysFiles(t *testing.T) {
	dir := database(t, func(c *Config) { c.Layout = string(tree.Systems) })
	if err := os.WriteFile(filepath.Join(dir, "h200_sxm.yaml"), []byte(oldSpec), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := loadOld(dir, "h200_sxm", "trtllm", "1.3.0rc20"); err == nil || !strings.Contains(err.Error(), `KeyError "bfloat16"`) {
		t.Errorf("%v, error %v", got, err)
	}
}

func TestWhatOldReadersCannotTakeIsLeftOutAndSaid(t *testing.T) {
	set, err := importer.Load(filepath.Join(published, "h200_sxm/attention/trtllm/1.3.0rc20/context_attention_perf.parquet"), importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// One slice keeps a single number of heads.
	ds := *set.Data
	ds.Info.System = "h200_sxm"
	heads, _ := table.Int64s(ds.Table, "num_heads")
	dtype, _ := table.Strings(ds.Table, "attn_dtype")
	lost := 0
	ds.Table = table.Filter(ds.Table, func(row int) bool {
		if heads.Values[row] == 8 {
			return false // multi-head attention
		}
		if dtype.Values[row] != "fp8" {
			return true
		}
		if heads.Values[row] == 16 {
			lost++
		}
		return heads.Values[row] == 16
	})
	dir := t.TempDir()
	out := mustRun(t, config(func(c *Config) { c.Layout, c.Reader = string(tree.Systems), ReaderOld }), dir, &ds)
	if len(out.Checks) != 1 || out.Checks[0].Result != "warn" || !strings.Contains(out.Checks[0].Rows[0], fmt.Sprintf("%d rows of attn_dtype=fp8", lost)) {
		t.Errorf("checks %+v, want %d rows", out.Checks, lost)
	}
	if out.Artifacts[0].Rows != int(ds.Table.NumRows())-lost {
		t.Errorf("%d rows of %d, %d were to be left out", out.Artifacts[0].Rows, ds.Table.NumRows(), lost)
	}
	if err := os.WriteFile(filepath.Join(dir, "h200_sxm.yaml"), []byte(oldSpec), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := loadOld(dir, "h200_sxm", "trtllm", "1.3.0rc20"); err != nil {
		t.Error(err)
	}
	words := gemm(order(3))
	words.Table = table.WithColumn(words.Table, "gemm_dtype", table.Texts([]string{"bfloat16", "fp8_static", "fp8"}, nil))
	out = mustRun(t, config(func(c *Config) { c.Reader = ReaderOld }), t.TempDir(), words)
	if out.Artifacts[0].Rows != 2 || !strings.Contains(out.Checks[0].Rows[0], "1 rows with gemm_dtype fp8_static") {
		t.Errorf("%+v", out.Checks)
	}
	if diags := config(func(c *Config) { c.Layout, c.Reader = string(tree.Families), ReaderOld }).Check(&stage.CheckContext{}); !diags.HasErrors() {
		t.Error("Parquet for CSV readers is accepted")
	}
}

// todayColumns are the key columns, integers marked, and the metric that
// today's reader needs of each table.
var todayColumns = map[string][]string{
	"gemm_perf":                 {"gemm_dtype", "m#", "n#", "k#"},
	"computescale_perf":         {"quant_dtype", "m#", "k#"},
	"scale_matrix_perf":         {"quant_dtype", "m#", "k#"},
	"context_attention_perf":    {"attn_dtype", "kv_cache_dtype", "num_heads#", "num_key_value_heads#", "head_dim#", "isl#", "batch_size#"},
	"generation_attention_perf": {"kv_cache_dtype", "num_heads#", "num_key_value_heads#", "head_dim#", "batch_size#", "isl#", "step#"},
	"generation_mla_perf":       {"kv_cache_dtype", "num_heads#", "batch_size#", "isl#", "step#"},
	"custom_allreduce_perf":     {"num_gpus#", "message_size#"},
	"nccl_perf":                 {"op_name", "nccl_dtype", "num_gpus#", "message_size#"},
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
	dir := database(t, func(c *Config) { c.Layout, c.SystemSpec = string(tree.Families), true })
	spec, err := readYAML(filepath.Join(dir, "h200_sxm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// What the reader asks of a system spec.
	for section, keys := range map[string][]string{
		"gpu":  {"sm_version", "mem_bw", "mem_bw_empirical_scaling_factor", "mem_empirical_constant_latency", "bfloat16_tc_flops", "fp8_tc_flops"},
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

// strict holds a table against its folder's sidecar as strict provenance does.
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
