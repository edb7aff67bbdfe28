package export

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/importer"
)

// oldColumns are what the reader of 0.4 asks of each file: text columns with
// their words, integer columns, and optional ones.
var oldColumns = map[string]struct {
	words map[string][]string
	ints  []string
}{
	"gemm_perf": {map[string][]string{"gemm_dtype": oldGemm}, []string{"m", "n", "k"}},
	"context_attention_perf": {map[string][]string{"attn_dtype": oldFMHA, "kv_cache_dtype": oldKV},
		[]string{"batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim"}},
	"generation_attention_perf": {map[string][]string{"attn_dtype": oldFMHA, "kv_cache_dtype": oldKV},
		[]string{"batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "step"}},
	"generation_mla_perf": {map[string][]string{"mla_dtype": oldFMHA, "kv_cache_dtype": oldKV},
		[]string{"batch_size", "isl", "step", "num_heads"}},
	"custom_allreduce_perf": {nil, []string{"num_gpus", "message_size"}},
	"nccl_perf": {map[string][]string{"nccl_dtype": {"half", "int8", "fp8"}},
		[]string{"num_gpus", "message_size"}},
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
		heads := map[string]map[int]bool{}
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

				if heads[s] == nil {
					heads[s] = map[int]bool{}
				}

				heads[s][num["num_heads"]] = true
			}
		}

		for s, heads := range heads {
			if len(heads) < 2 {
				return nil, fmt.Errorf("%s: AssertionError: the slice %s has %d number of heads", path, s, len(heads))
			}
		}
	}

	return out, nil
}

// oldSpec is the part of a system spec that the old reader needs.
const oldSpec = "data_dir: data/h200_sxm\ngpu: {mem_bw: 4800000000000, float16_tc_flops: 989000000000000}\nmisc: " +
	"{nccl_version: '2.29.2'}\n"

func TestOldLoaderReadsTheExport(t *testing.T) {
	dir := database(t, func(c *Config) { c.Layout, c.Reader = tree.Systems, ReaderOld })
	if err := os.WriteFile(filepath.Join(dir, "h200_sxm.yaml"), []byte(oldSpec), 0o644); err != nil {
		t.Fatal(err)
	}

	got, err := loadOld(dir, "h200_sxm", "trtllm", "1.3.0rc20")
	if err != nil {
		t.Fatal(err)
	}

	// Of attention the excerpt has multi-head rows of 8 heads alone: 306 and 328
	// rows that old readers cannot take.
	want := map[string]int{"gemm_perf": 1332, "context_attention_perf": 1377 - 306,
		"generation_attention_perf": 1240 - 328, "generation_mla_perf": 724, "custom_allreduce_perf": 69, "nccl_perf": 504}
	if !maps.Equal(got, want) {
		t.Errorf("loaded %v, want %v", got, want)
	}
}

// The rules bite: what today's readers take loses the old ones the database.
func TestOldLoaderRefusesTodaysFiles(t *testing.T) {
	dir := database(t, func(c *Config) { c.Layout = tree.Systems })
	if err := os.WriteFile(filepath.Join(dir, "h200_sxm.yaml"), []byte(oldSpec), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := loadOld(dir, "h200_sxm", "trtllm", "1.3.0rc20"); err == nil ||
		!strings.Contains(err.Error(), `KeyError "bfloat16"`) {
		t.Errorf("%v, error %v", got, err)
	}
}

func TestWhatOldReadersCannotTakeIsLeftOutAndSaid(t *testing.T) {
	set, err := importer.Load(filepath.Join(published,
		"h200_sxm/attention/trtllm/1.3.0rc20/context_attention_perf.parquet"), importer.Options{})
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
	out := mustRun(t, config(func(c *Config) { c.Layout, c.Reader = tree.Systems, ReaderOld }), dir, &ds)
	if len(out.Checks) != 1 || out.Checks[0].Result != "warn" ||
		!strings.Contains(out.Checks[0].Rows[0], fmt.Sprintf("%d rows of attn_dtype=fp8", lost)) {
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

	if diags := config(func(c *Config) {
		c.Layout, c.Reader = tree.Families,
			ReaderOld
	}).Check(&stage.CheckContext{}); !diags.HasErrors() {
		t.Error("Parquet for CSV readers is accepted")
	}
}
