package gate

import (
	"fmt"
	"math"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// saturation checks that the client of a load test was not the bottleneck.
type saturation struct{}

func (c *saturation) prepare(hcl.Range) hcl.Diagnostics { return nil }

func (c *saturation) run(s *subject) finding {
	limits := []struct {
		column string
		max    float64
		unit   string
	}{{"send_lag_p99", 10, " ms"}, {"client_sched_p99", 10, " ms"}, {"client_cpu_share", 0.9, ""}}

	out := finding{total: s.selected, ok: true}
	var texts []string

	bad, unknown := map[int]string{}, map[int]bool{}
	for _, l := range limits {
		texts = append(texts, fmt.Sprintf("%s at most %s%s", l.column, number(l.max), l.unit))
		col, err := numbers(s.rec, l.column)
		if err != nil {
			return s.cannot("the data has no column \"" + l.column + "\": only rows of a load carry it")
		}

		for i, v := range col.val {
			switch {
			case !s.has(i):
			case col.null[i] || math.IsNaN(v) || v < 0:
				unknown[i] = true
			case v > l.max:
				bad[i] += fmt.Sprintf(" %s=%s", l.column, number(v))
			}
		}
	}

	var list []offender
	for i := range s.rec.NumRows() {
		switch note, isBad := bad[int(i)]; {
		case isBad:
			list = append(list, offender{row: int(i), note: "(" + strings.TrimSpace(note) + ")"})
		case unknown[int(i)]:
			out.left.row(int(i), "the client was not measured")
		}
	}

	out.ok, out.limit = len(list) == 0, strings.Join(texts, ", ")
	out.message = fmt.Sprintf("%d of %d load points were held up by the client", len(list), s.selected-out.left.count())
	if !out.ok {
		out.rows = s.worst(list)
		out.fix = "run the client on a machine with idle processors, or ask for less load; these rows show the limits of the client, not of the server"
	}

	return out
}

// prefixCache checks that prompts did not hit a cache that the load itself had warmed.
type prefixCache struct {
	Max float64 `hcl:"max_hit_rate,optional" json:"max_hit_rate"`
}

func (c *prefixCache) prepare(r hcl.Range) hcl.Diagnostics {
	return shareBetween("max_hit_rate", c.Max, r)
}

func shareBetween(name string, v float64, r hcl.Range) hcl.Diagnostics {
	if v >= 0 && v <= 1 {
		return nil
	}
	return hcl.Diagnostics{problem("Wrong share",
		fmt.Sprintf("%s is %s; a share lies between 0 and 1.", name, number(v)), r)}
}

func (c *prefixCache) run(s *subject) finding {
	out := finding{total: s.selected, limit: "at most " + percent(c.Max)}
	unique, err := numbers(s.rec, "unique_prompts")
	if err != nil {
		return s.cannot("the data has no column \"unique_prompts\": only rows of a load carry it")
	}

	requests, err := numbers(s.rec, "requests")
	if err != nil {
		return s.cannot(err.Error())
	}

	// A server that does not report its cache has no such columns.
	rates := [][]float64{nil, nil}
	for k, name := range []string{"cache_hit_rate", "cached_prompt_share"} {
		rates[k] = make([]float64, s.rec.NumRows())
		col, err := numbers(s.rec, name)
		for i := range rates[k] {
			rates[k][i] = math.NaN()
			if err == nil && !col.null[i] {
				rates[k][i] = col.val[i]
			}
		}
	}

	var bad []offender
	worst := math.NaN()
	for i := range unique.val {
		if !s.has(i) {
			continue
		}

		rate := rates[0][i]
		if math.IsNaN(rate) {
			rate = rates[1][i]
		}

		switch {
		case rate < 0 || rate > 1:
			out.left.row(i, "its hit rate is no share")
		case !math.IsNaN(rate):
			if !(worst >= rate) {
				worst = rate
			}
			if rate > c.Max {
				bad = append(bad, offender{row: i, worse: rate,
					note: "(" + percent(rate) + " of the prompts' tokens were found in the cache)"})
			}
		case unique.null[i] || requests.null[i] || !(unique.val[i] >= 0) || !(requests.val[i] > 0) ||
			math.IsInf(requests.val[i], 0):
			out.left.row(i, "the row does not say how many prompts there were")
		case unique.val[i] > requests.val[i]:
			out.left.row(i, "it says more prompts than requests")
		case unique.val[i] < requests.val[i]:
			out.left.row(i, "prompts were used again, and the server does not tell its hit rate")
		}
	}

	out.ok = len(bad) == 0
	if !math.IsNaN(worst) {
		out.value = percent(worst)
	}

	out.message = fmt.Sprintf("%d of %d load points found more of their prompts in a cache", len(bad),
		s.selected-out.left.count())
	if !out.ok {
		out.rows = s.worst(bad)
		out.fix = "give every request a prompt of its own (leave entries away), have the server reset its cache (cache_reset = \"require\"), or say which hit rate is meant with max_hit_rate"
	}

	return out
}

// loadShare checks that a share reported by each load point is at most Max.
type loadShare struct {
	Max float64 `hcl:"max,optional" json:"max"`

	column, text, fix, unknown string
}

func (c *loadShare) prepare(r hcl.Range) hcl.Diagnostics { return shareBetween("max", c.Max, r) }

func (c *loadShare) run(s *subject) finding {
	col, err := numbers(s.rec, c.column)
	if err != nil {
		return s.cannot(c.unknown)
	}

	out := finding{total: s.selected, limit: "at most " + percent(c.Max)}
	var bad []offender

	worst := 0.0
	for i, v := range col.val {
		switch {
		case !s.has(i):
		case col.null[i] || math.IsNaN(v):
			out.left.row(i, c.unknown)
		case v < 0 || v > 1:
			out.left.row(i, "the value is no share")
		default:
			worst = max(worst, v)
			if v > c.Max {
				bad = append(bad, offender{row: i, worse: v, note: "(" + percent(v) + ")"})
			}
		}
	}

	out.ok, out.value = len(bad) == 0, percent(worst)
	out.message = fmt.Sprintf("%d of %d load points have more %s", len(bad), s.selected-out.left.count(), c.text)
	if !out.ok {
		out.rows, out.fix = s.worst(bad), c.fix
	}

	return out
}

func newShortOutputs() check {
	return &loadShare{Max: 0.01, column: "short_outputs", text: "outputs that are shorter than asked for",
		fix:     "add extra_inputs = { ignore_eos = true } or min_tokens, where the server knows them",
		unknown: "the load asked for no length, or tokens were not counted"}
}

func newTokenMismatch() check {
	return &loadShare{Max: 0.01, column: "token_mismatch",
		text:    "requests whose tokens server and client count differently",
		fix:     "take the tokenizer of the model that is served; without one the server's counts are taken",
		unknown: "there was nothing to compare: it needs a tokenizer, and usage from the server"}
}

func newRequestErrors() check {
	return &loadShare{column: "error_rate", text: "failed requests",
		fix:     "the errors are in profile_export_aiperf.json (error_summary) and line by line in profile_export.jsonl",
		unknown: "the data has no column \"error_rate\": only rows of a load carry it"}
}
