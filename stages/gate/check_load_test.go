package gate

import (
	"math"
	"testing"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// points are four load points.
func points() *stage.Dataset {
	ds := flawless(4)
	for name, values := range map[string][]float64{
		"send_lag_p99": {0.1, 0.2, 0.3, 0.4}, "client_sched_p99": {0.1, 0.1, 0.1, 0.1},
		"client_cpu_share": {0.1, 0.2, 0.3, 0.4},
		"unique_prompts":   {64, 64, 64, 64}, "requests": {64, 64, 64, 64}, "short_outputs": {0, 0, 0, 0},
		"token_mismatch": {0, 0, 0, 0}, "error_rate": {0, 0, 0, 0},
	} {
		ds.Table = table.WithColumn(ds.Table, name, table.Floats(values, nil))
	}

	return ds
}

func TestLoadChecks(t *testing.T) {
	set := func(name string, v ...float64) *stage.Dataset { return with(points(), name, table.Floats(v, nil)) }
	null := func(name string) *stage.Dataset {
		return with(points(), name, table.Floats(make([]float64, 4), []bool{true, true, false, true}))
	}

	without := func(name string) *stage.Dataset {
		ds := points()
		ds.Table = table.Drop(ds.Table, name)
		return ds
	}
	for _, c := range []struct {
		ds           *stage.Dataset
		check        string
		result, text string
	}{
		{points(), `check "client_saturation" {}`, "pass", "0 of 4"},
		{set("send_lag_p99", 0, 0, 35, 0), `check "client_saturation" {}`, "fail",
			"1 of 4 load points were held up by the client"},
		{set("client_cpu_share", 0, 0, 0, 0.95), `check "client_saturation" {}`, "fail", "1 of 4"},
		{set("client_sched_p99", 0, 12, 0, 0), `check "client_saturation" {}`, "fail", "1 of 4"},
		{null("send_lag_p99"), `check "client_saturation" {}`, "fail", "1 of 4 could not be judged"},
		{without("client_cpu_share"), `check "client_saturation" {}`, "fail", "no column"},

		{points(), `check "prefix_cache" {}`, "pass", "0 of 4"},
		{set("cache_hit_rate", 0, 0.01, 0.5, 0), `check "prefix_cache" {}`, "fail",
			"1 of 4 load points found more of their prompts"},
		{set("cache_hit_rate", 0, 0.01, 0.5, 0), `check "prefix_cache" { max_hit_rate = 0.5 }`, "pass", ""},
		{set("cached_prompt_share", 0, 0.9, math.NaN(), 0), `check "prefix_cache" {}`, "fail", "1 of 4"},
		{set("unique_prompts", 8, 64, 64, 64), `check "prefix_cache" {}`, "fail",
			"1 of 4 could not be judged: prompts were used again"},
		{without("unique_prompts"), `check "prefix_cache" {}`, "fail", "no column"},

		{points(), `check "short_outputs" {}`, "pass", ""},
		{set("short_outputs", 0, 0.02, 0, 0), `check "short_outputs" {}`, "fail", "1 of 4"},
		{null("short_outputs"), `check "short_outputs" {}`, "fail", "1 of 4 could not be judged"},
		{set("token_mismatch", 0, 1, 0, 0), `check "token_mismatch" {}`, "fail", "count differently"},
		{without("token_mismatch"), `check "token_mismatch" { min_judged = 0 }`, "skip", ""},
		{set("error_rate", 0, 0.2, 0, 0), `check "request_errors" {}`, "fail", "1 of 4"},
		{set("error_rate", 0, 0.2, 0, 0), `check "request_errors" { max = 0.25 }`, "pass", ""},
	} {
		expect(t, only(t, run(t, c.ds, c.check)), c.result, c.text)
	}
}
