package comm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"aicplan/cudaops/worker"
)

// Markdown writes rows of the op p2p as matrices: for every size and direction
// one of bandwidths, or of latencies where the copies are small, and one of the
// paths. Rows of other ops are left out.
func Markdown(rows []worker.Row) string {
	type cell struct{ src, dst int }
	type table struct {
		bytes     int64
		direction string
	}
	values := map[table]map[cell]worker.Row{}
	paths := map[cell]worker.Row{}
	gpus := 0
	for _, r := range rows {
		src, okSrc := integer(r["src"])
		dst, okDst := integer(r["dst"])
		bytes, okBytes := integer(r["bytes"])
		if !okSrc || !okDst || !okBytes {
			continue
		}
		direction, _ := r["direction"].(string)
		if direction == "" {
			direction = "one_way"
		}
		k, at := table{bytes, direction}, cell{int(src), int(dst)}
		if values[k] == nil {
			values[k] = map[cell]worker.Row{}
		}
		values[k][at] = r
		paths[at] = r
		gpus = max(gpus, int(src)+1, int(dst)+1)
	}
	if gpus == 0 {
		return ""
	}
	var b strings.Builder
	matrix := func(title string, text func(cell) string) {
		fmt.Fprintf(&b, "%s\n\n| from \\ to |", title)
		for i := range gpus {
			fmt.Fprintf(&b, " %d |", i)
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", gpus) + "\n")
		for i := range gpus {
			fmt.Fprintf(&b, "| %d |", i)
			for j := range gpus {
				t := ""
				if i != j {
					t = text(cell{i, j})
				}
				fmt.Fprintf(&b, " %s |", t)
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	matrix("Paths (NVLinks, access, native atomics, performance rank)", func(c cell) string {
		r, ok := paths[c]
		if !ok {
			return "-"
		}
		links := "links unknown"
		if n, ok := integer(r["nvlinks"]); ok {
			links = fmt.Sprintf("NV%d", n)
		}
		return fmt.Sprintf("%s, %s, %s, %v", links, word(r["access"], "access", "no access"), word(r["native_atomics"], "atomics", "no atomics"), r["performance_rank"])
	})
	keys := slices.SortedFunc(maps.Keys(values), func(a, b table) int {
		if a.direction != b.direction {
			return strings.Compare(b.direction, a.direction)
		}
		return int(a.bytes - b.bytes)
	})
	for _, k := range keys {
		title := fmt.Sprintf("%s of %d bytes, ", strings.ReplaceAll(k.direction, "_", " "), k.bytes)
		small := k.bytes < 1<<20
		if small {
			title += "microseconds per copy"
		} else {
			title += "GB/s"
		}
		matrix(strings.ToUpper(title[:1])+title[1:], func(c cell) string {
			r, ok := values[k][c]
			if !ok {
				return "-"
			}
			if small {
				ms, _ := r["latency"].(float64)
				return fmt.Sprintf("%.2f", ms*1e3)
			}
			gb, _ := r["gb_per_s"].(float64)
			return fmt.Sprintf("%.1f", gb)
		})
	}
	return b.String()
}

func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64:
		return int64(n), n == float64(int64(n))
	}
	if s, ok := v.(fmt.Stringer); ok {
		var n int64
		if _, err := fmt.Sscanf(s.String(), "%d", &n); err == nil {
			return n, true
		}
	}
	return 0, false
}

func word(v any, yes, no string) string {
	if b, _ := v.(bool); b {
		return yes
	}
	return no
}
