package export

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/table"
)

// Readers that files can be written for: today's, and those of the CSV
// databases up to aiconfigurator 0.5.
const (
	ReaderToday = "today"
	ReaderOld   = "0.4"
)

// oldUnknown are words of today that the old readers do not have: one such row
// keeps them from the whole database.
var oldUnknown = map[string][]string{
	"gemm_dtype": {"fp8_static", "nvfp4_wo", "w4a16_nvfp4"},
	"moe_dtype": strings.Fields("nvfp4_wo w4a8_mxfp4_mxfp8 w4a8_mxfp4_mxfp8_trtllm w4a16_mxfp4_cutlass " +
		"w4a16_mxfp4_humming w4a16_nvfp4"),
	"kv_cache_dtype": {"fp8_e4m3"},
	"mla_dtype":      {"fp8_e4m3"},
}

// forOldReaders converts rows for the old readers. It spells 16 bits as float16 and leaves out rows with unknown
// words and attention rows of shapes with a single number of heads, over which these readers cannot
// interpolate. lines lists what was left out.
func forOldReaders(rec arrow.Record, t *catalog.Table) (out arrow.Record, lines []string, err error) {
	if t == nil || t.Declared {
		return rec, nil, nil
	}

	drop := make([]bool, rec.NumRows())
	for _, name := range table.Names(rec) {
		col, err := table.Strings(rec, name)
		if catalog.Words(name) == nil || name == "nccl_dtype" || err != nil {
			continue
		}

		words := slices.Clone(col.Values)
		lost := map[string]int{}
		for i, w := range words {
			switch {
			case w == "bfloat16":
				words[i] = "float16"
			case slices.Contains(oldUnknown[name], w):
				lost[w]++
				drop[i] = true
			}
		}

		for _, w := range slices.Sorted(maps.Keys(lost)) {
			lines = append(lines, fmt.Sprintf("%d rows with %s %s, which the readers of %s do not know", lost[w], name,
				w, ReaderOld))
		}

		rec = table.WithColumn(rec, name, table.Texts(words, nil))
	}

	lines = append(lines, singleHeads(rec, t, drop)...)
	rec = table.Filter(rec, func(row int) bool { return !drop[row] })
	if rec.NumRows() == 0 {
		return nil, nil, fmt.Errorf("no row is left for the readers of %s: %v", ReaderOld, lines)
	}

	return rec, lines, nil
}

// singleHeads marks attention rows whose dtype, key/value heads, head width
// and window occur with one number of query heads only.
func singleHeads(rec arrow.Record, t *catalog.Table, drop []bool) (lines []string) {
	var slice []string
	switch t.Name {
	case "context_attention_perf":
		slice = []string{"attn_dtype", "kv_cache_dtype", "kv", "head_dim", "window_size"}
	case "generation_attention_perf":
		slice = []string{"kv_cache_dtype", "kv", "head_dim", "window_size"}
	default:
		return nil
	}

	heads, _ := table.Int64s(rec, "num_heads") // the table requires both
	kv, _ := table.Int64s(rec, "num_key_value_heads")
	shared := slices.Clone(kv.Values)
	for i, h := range heads.Values {
		if shared[i] == h {
			shared[i] = 0 // multi-head attention is one slice whatever its heads
		}
	}

	with := table.WithColumn(rec, "kv", table.Ints(shared, nil))
	ix := table.NewKeyIndex(slice, table.KeyOptions{Missing: map[string]int64{"window_size": 0}})
	ids := ix.Number(with)
	rows, several := make([][]int, ix.Len()), make([]bool, ix.Len())
	for i, id := range ids {
		if !drop[i] {
			rows[id] = append(rows[id], i)
			several[id] = several[id] || heads.Values[i] != heads.Values[rows[id][0]]
		}
	}

	for id, lost := range rows {
		if several[id] || lost == nil {
			continue
		}
		for _, i := range lost {
			drop[i] = true
		}
		lines = append(lines, fmt.Sprintf("%d rows of %s, which have one number of heads only", len(lost),
			table.Describe(with, lost[0], append(slice, "num_heads"))))
	}
	return lines
}
