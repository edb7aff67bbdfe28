package pyhost_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

// checkout starts a worker that hosts collectors of the test checkout.
func checkout(t testing.TB, pkg string, ops m, env ...string) (*client, worker.Hello) {
	t.Helper()
	init := worker.Init{
		Options: hostSettings{Package: pkg, CollectorRoot: testdata(t, "checkout")}.Options(nil),
		Ops:     raw(t, ops),
	}
	c, hello := start(t, init, append(env, "PYTHONPATH="+testdata(t, "frameworks"))...)
	if hello.Error != nil {
		t.Fatalf("%s: %s\n%s", hello.Error.Exception, hello.Error.Message, hello.Error.Traceback)
	}
	return c, hello
}

var mlaMatch = m{
	"isl": "input_len", "batch_size": "batch_size", "native_num_heads": "num_heads", "tp_size": "tp_size",
	"kv_cache_dtype": m{"param": "kv_cache_dtype", "map": m{"bf16": "bfloat16", "fp8": "fp8"}},
}

func TestHostedCasesWithEnumsAreFoundInTheGetter(t *testing.T) {
	c, hello := checkout(t, "tensorrt_llm", m{"mla_context": m{
		"module": "collector.trtllm.collect_mla", "getter": "get_context_mla_test_cases", "run": "run_mla",
		"perf_filename": "context_mla_perf.txt", "match": mlaMatch,
	}})
	if hello.Version != "1.3.0rc20" || hello.Env["tensorrt_llm"] != "1.3.0rc20" {
		t.Errorf("hello = %+v", hello)
	}
	params := m{"isl": 32, "batch_size": 1, "num_heads": 32, "tp_size": 4, "native_num_heads": 128,
		"kv_cache_dtype": "fp8"}
	rows := c.rows("mla_context", params, nil)
	if len(rows) != 1 {
		t.Fatalf("rows = %v", rows)
	}
	want := m{"kv_cache_dtype": "fp8", "num_heads": 32.0, "tp_size": 4.0, "isl": 32.0, "op_name": "mla_context",
		"kernel_source": "default"}
	for k, v := range want {
		if rows[0][k] != v {
			t.Errorf("%s = %v, want %v", k, rows[0][k], v)
		}
	}
	// The measurement is the host's own: its statistics ride along.
	if rows[0]["samples"] == nil || rows[0]["rel_stdev"] == nil || !(rows[0]["latency"].(float64) > 0) {
		t.Errorf("row = %v", rows[0])
	}
	for _, label := range []string{"framework", "version", "device", "logged_version", "logged_device", "perf_table"} {
		if _, ok := rows[0][label]; ok {
			t.Errorf("the row has a column %s", label)
		}
	}
	params["isl"] = 48
	if f := c.fails("mla_context", params); f.Class != worker.ClassUnsupportedConfig ||
		!strings.Contains(f.Message, "isl=48") {
		t.Errorf("a case that the getter does not list: %+v", f)
	}
}

func TestHostedCasesWithWordsThatNobodyMapped(t *testing.T) {
	match := m{"isl": "input_len", "tp_size": "tp_size",
		"kv_cache_dtype": m{"param": "kv_cache_dtype", "map": m{"bf16": "bfloat16"}}}
	c, _ := checkout(t, "tensorrt_llm", m{"mla_context": m{
		"module": "collector.trtllm.collect_mla", "getter": "get_context_mla_test_cases", "run": "run_mla", "match": match,
	}})
	// The getter lists fp8, too: that costs the cases that ask for it, and no other.
	c.rows("mla_context", m{"isl": 16, "tp_size": 1, "kv_cache_dtype": "bfloat16"}, nil)
	f := c.fails("mla_context", m{"isl": 16, "tp_size": 1, "kv_cache_dtype": "fp8"})
	if f.Class != worker.ClassUnsupportedConfig || !strings.Contains(f.Message, "does not know kv_cache_dtype = fp8") {
		t.Errorf("failure = %+v", f)
	}
}

func TestHostedMatchMustBeUnique(t *testing.T) {
	c, _ := checkout(t, "tensorrt_llm", m{"mla_context": m{
		"module": "collector.trtllm.collect_mla", "getter": "get_context_mla_test_cases", "run": "run_mla",
		"match": m{"isl": "input_len"},
	}})
	if f := c.fails("mla_context", m{"isl": 16}); f.Class != worker.ClassCollectorBug ||
		!strings.Contains(f.Message, "lists 6 cases") {
		t.Errorf("failure = %+v", f)
	}
}

func moe(extra m) m {
	b := m{"module": "collector.trtllm.collect_moe", "run": "run_moe_torch", "perf_filename": "moe_perf.txt",
		"args": []any{
			"moe_dtype", m{"sweep": "num_tokens"}, "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size",
			"moe_ep_size",
			"min_latency_mode", "model_name",
			m{"column": "distribution", "map": m{"balanced": "balanced", "power_law_1.01": "power_law"}},
			m{"column": "distribution", "map": m{"balanced": 0.0, "power_law_1.01": 1.01}},
		}}
	for k, v := range extra {
		b[k] = v
	}
	return m{"moe": b}
}

var moeParams = m{
	"moe_dtype": "bfloat16", "hidden_size": 64, "inter_size": 32, "topk": 2, "num_experts": 8, "moe_tp_size": 1,
	"moe_ep_size": 1, "distribution": "power_law_1.01", "min_latency_mode": false, "model_name": "some/model",
}

func TestHostedSweepThatExitsWithTen(t *testing.T) {
	c, _ := checkout(t, "tensorrt_llm", moe(nil))
	rows := c.rows("moe", moeParams, []m{{"num_tokens": 1}, {"num_tokens": 64}, {"num_tokens": 2}})
	var tokens []string
	for _, r := range rows {
		tokens = append(tokens, fmt.Sprint(r["num_tokens"], r["distribution"]))
	}
	if got := strings.Join(tokens, " "); got != "1power_law_1.01 64power_law_1.01 2power_law_1.01" {
		t.Errorf("rows = %s", got)
	}
	if fmt.Sprint(c.told) != fmt.Sprint(rows) {
		t.Errorf("told on the way: %v, at the end: %v", c.told, rows)
	}
	if bye := c.bye(); !strings.Contains(bye.Restart, "exit status 10") {
		t.Errorf("restart = %q", bye.Restart)
	}
	if !slices.ContainsFunc(c.logs, func(l worker.Log) bool { return strings.Contains(l.Text, "1.2.0") }) {
		t.Errorf("no word about rows that are labelled with another version: %v", c.logs)
	}
}

func TestHostedEnvironmentIsSetBeforeTheImport(t *testing.T) {
	c, _ := checkout(t, "tensorrt_llm", moe(m{"env": m{"TRTLLM_MOE_RESTART_WORKER": 0}}))
	for range 2 {
		c.rows("moe", moeParams, []m{{"num_tokens": 1}})
	}
	if bye := c.shutdown(); bye.Restart != "" {
		t.Errorf("restart = %q", bye.Restart)
	}
}

func TestHostedExitStackAndDerivedArguments(t *testing.T) {
	args := []any{"batch_size", "step", "num_heads", "num_key_value_heads", "head_dim",
		m{"column": "kv_cache_dtype", "map": m{"bfloat16": false, "fp8": true}}, false, "window_size"}
	c, hello := checkout(t, "vllm", m{"attention_generation": m{
		"module": "collector.vllm.collect_attn", "run": "run_attention_torch",
		"perf_filename": "generation_attention_perf.txt", "args": args,
	}})
	if hello.Version != "0.24.0+cu130" {
		t.Errorf("version = %s, want it as installed", hello.Version)
	}
	params := m{"batch_size": 2, "step": 127, "num_heads": 8, "num_key_value_heads": 1, "head_dim": 128, "window_size": 0,
		"kv_cache_dtype": "fp8"}
	row := c.rows("attention_generation", params, nil)[0]
	if row["kv_cache_dtype"] != "fp8" || row["step"] != 127.0 || row["isl"] != 1.0 {
		t.Errorf("row = %v", row)
	}
	params["kv_cache_dtype"] = "int8"
	if f := c.fails("attention_generation", params); f.Class != worker.ClassCollectorBug ||
		!strings.Contains(f.Message, "no entry for int8") {
		t.Errorf("failure = %+v", f)
	}
}

func TestHostedArgumentsByTheFunctionsOwnNames(t *testing.T) {
	// Without args and match, columns are passed under the parameters' names.
	c, _ := checkout(t, "vllm", m{"attn": m{"module": "collector.vllm.collect_attn", "run": "run_attention_torch"}})
	row := c.rows("attn", m{"batch_size": 2, "input_len": 9, "num_heads": 8, "num_kv_heads": 1, "head_dim": 128,
		"use_fp8_kv_cache": true, "is_context_phase": true, "window_size": 0}, nil)[0]
	if row["isl"] != 9.0 || row["num_key_value_heads"] != 1.0 {
		t.Errorf("row = %v", row)
	}
}

func TestHostedCasesThatCarryTheirPerfFile(t *testing.T) {
	dsa := func(extra m) m {
		b := m{"module": "collector.trtllm.collect_dsa", "run": "run_dsa"}
		for k, v := range extra {
			b[k] = v
		}
		return b
	}
	c, _ := checkout(t, "tensorrt_llm", m{
		"listed": dsa(m{"getter": "get_generation_dsa_test_cases", "perf_filename": "dsa_generation_perf.txt",
			"match": m{"step": "seq_len", "batch_size": "batch_size", "tp_size": "tp_size"}}),
		"args":  dsa(m{"perf_filename": "dsa_context_perf.txt", "args": []any{"isl", "batch_size", "tp_size", true}}),
		"names": dsa(m{"perf_filename": "dsa_context_perf.txt"}),
		"other": dsa(m{"getter": "get_context_dsa_test_cases", "perf_filename": "another_perf.txt",
			"match": m{"isl": "seq_len", "batch_size": "batch_size", "tp_size": "tp_size"}}),
	})
	for op, params := range map[string]m{
		"listed": {"step": 64, "batch_size": 2, "tp_size": 8},
		"args":   {"isl": 64, "batch_size": 2, "tp_size": 8},
		"names":  {"seq_len": 64, "batch_size": 2, "tp_size": 8, "is_context": true},
		"other":  {"isl": 64, "batch_size": 2, "tp_size": 8},
	} {
		row := c.rows(op, params, nil)[0]
		if row["num_heads"] != 16.0 || row["batch_size"] != 2.0 || row["samples"] == nil || row["perf_table"] != nil {
			t.Errorf("%s: %v", op, row)
		}
		if want := map[bool]string{true: "dsa_generation", false: "dsa_context"}[op == "listed"]; row["op_name"] != want {
			t.Errorf("%s: op_name %v, want %s", op, row["op_name"], want)
		}
	}
}

func TestHostedRowsOfASecondTable(t *testing.T) {
	c, _ := checkout(t, "tensorrt_llm", m{"compute_scale": m{
		"module": "collector.trtllm.collect_computescale", "run": "run_computescale",
		"perf_filename": "computescale_perf.txt",
	}})
	rows := c.rows("compute_scale", m{"m": 4, "k": 128}, nil)
	if len(rows) != 2 || rows[0]["perf_table"] != nil || rows[1]["perf_table"] != "scale_matrix_perf" ||
		rows[1]["latency"] != 0.25 {
		t.Errorf("rows = %v", rows)
	}
}

func dsa(run, perf string) m {
	return m{"dsa": m{
		"module": "collector.sglang.collect_mla_module", "getter": "get_dsa_context_module_test_cases", "run": run,
		"perf_filename": perf, "match": m{"batch_size": "batch_size"},
	}}
}

func TestHostedChildProcessesLogThroughTheHost(t *testing.T) {
	for perf, phase := range map[string]string{"dsa_context_module_perf.txt": "context",
		"dsa_generation_module_perf.txt": "generation"} {
		c, _ := checkout(t, "sglang", dsa("run_mla_module_worker", perf))
		for range 2 { // nothing of the first call is left in the second
			rows := c.rows("dsa", m{"batch_size": 2}, nil)
			if len(rows) != 2 || rows[1]["isl"] != 2.0 || rows[0]["mode"] != phase {
				t.Fatalf("rows = %v", rows)
			}
			if rows[0]["samples"] == nil {
				t.Errorf("the child did not measure with the host's method: %v", rows[0])
			}
		}
		c.shutdown()
	}
}

func TestHostedChildrenWithoutTheHelperWriteFilesThatAreRead(t *testing.T) {
	c, _ := checkout(t, "sglang", dsa("run_isolated", "dsa_context_module_perf.txt"))
	for range 2 {
		rows := c.rows("dsa", m{"batch_size": 4}, nil)
		if len(rows) != 2 || rows[0]["latency"] != 7.5 || rows[0]["batch_size"] != 4.0 ||
			rows[0]["op_name"] != "dsa_context_module" {
			t.Fatalf("rows = %v", rows)
		}
	}
}

func TestHostedForkedChildren(t *testing.T) {
	c, _ := checkout(t, "sglang", dsa("run_forked", "dsa_context_module_perf.txt"))
	if rows := c.rows("dsa", m{"batch_size": 1}, nil); len(rows) != 1 || rows[0]["mode"] != "forked" {
		t.Errorf("rows = %v", rows)
	}
}

func TestHostedChildThatFails(t *testing.T) {
	c, _ := checkout(t, "sglang", dsa("run_failing_child", "x_perf.txt"))
	if f := c.fails("dsa", m{"batch_size": 1}); f.Exception != "CalledProcessError" ||
		!strings.Contains(f.Message, "exit status 3") {
		t.Errorf("failure = %+v", f)
	}
}

func gdn(run string) m {
	return m{"gdn": m{"module": "collector.sglang.collect_gdn", "run": run, "perf_filename": "gdn_perf.txt"}}
}

func TestHostedRestartSentinelOfTheOtherHelper(t *testing.T) {
	c, _ := checkout(t, "sglang", gdn("run_gdn_torch"))
	c.rows("gdn", m{"phase": "context"}, nil)
	if bye := c.bye(); !strings.Contains(bye.Restart, "asked for a fresh process") {
		t.Errorf("restart = %q", bye.Restart)
	}
}

func TestHostedCallWithoutRowsIsAFailure(t *testing.T) {
	c, _ := checkout(t, "sglang", gdn("run_nothing"))
	if f := c.fails("gdn", m{"phase": "context"}); f.Class != worker.ClassCollectorBug ||
		!strings.Contains(f.Message, "without logging a row") {
		t.Errorf("failure = %+v", f)
	}
}

func TestHostedRowsAfterTheCallAreDropped(t *testing.T) {
	c, _ := checkout(t, "sglang", gdn("run_logging_late"))
	for range 2 {
		if rows := c.rows("gdn", m{"phase": "context"}, nil); len(rows) != 1 || rows[0]["latency"] != 1.0 {
			t.Errorf("rows = %v", rows)
		}
	}
	c.shutdown()
	if !slices.ContainsFunc(c.logs, func(l worker.Log) bool {
		return strings.Contains(l.Text,
			"after their case had ended")
	}) {
		t.Errorf("no word about the dropped row: %v", c.logs)
	}
}

func TestHostedVersionRoutesAndCompat(t *testing.T) {
	gemm := func(b m) worker.Init {
		b["run"] = "run_mla"
		return worker.Init{Ops: raw(t, m{"x": b}),
			Options: hostSettings{Package: "tensorrt_llm", CollectorRoot: testdata(t, "checkout")}.Options(nil)}
	}
	env := "PYTHONPATH=" + testdata(t, "frameworks")
	routes := []m{{"min": "1.0.0", "module": "collector.trtllm.collect_old"},
		{"min": "1.3.0rc20", "module": "collector.trtllm.collect_mla"}, {"min": "1.3.0", "module": "collector.trtllm.absent"}}
	if _, hello := start(t, gemm(m{"versions": routes}), env); hello.Error != nil {
		t.Errorf("the newest route that is not newer than 1.3.0rc20: %s", hello.Error.Message)
	}
	if _, hello := start(t, gemm(m{"versions": routes[2:]}), env); hello.Error == nil ||
		!strings.Contains(hello.Error.Message, "oldest route is for 1.3.0") {
		t.Errorf("no route: %+v", hello.Error)
	}
	_, hello := start(t, gemm(m{"module": "collector.trtllm.collect_old"}), env)
	if hello.Error == nil || hello.Error.Class != worker.ClassUnsupportedConfig ||
		!strings.Contains(hello.Error.Message, "<1.3.0rc20") {
		t.Errorf("__compat__ that excludes the version: %+v", hello.Error)
	}
	if _, hello := start(t, gemm(m{"module": "collector.trtllm.absent"}), env); hello.Error == nil ||
		!strings.Contains(hello.Error.Message, "no module collector.trtllm.absent") {
		t.Errorf("a module that is not there: %+v", hello.Error)
	}
}

func TestHostedOpThatWantsAProcessOfItsOwn(t *testing.T) {
	ops := moe(m{"isolate": true, "env": m{"TRTLLM_MOE_RESTART_WORKER": 0}})
	ops["compute_scale"] = m{"module": "collector.trtllm.collect_computescale", "run": "run_computescale"}
	c, _ := checkout(t, "tensorrt_llm", ops)
	c.rows("compute_scale", m{"m": 1, "k": 1}, nil)
	c.submit("moe", moeParams, []m{{"num_tokens": 1}})
	// The case is neither started nor ended: the next process gets it.
	if bye := c.bye(); !strings.Contains(bye.Restart, "process of its own") {
		t.Errorf("restart = %q", bye.Restart)
	}
}

func TestHostedModulesThatFailDoNotTakeOthersAlong(t *testing.T) {
	ops := gdn("run_where")
	ops["broken"] = m{"module": "collector.sglang.absent", "run": "run"}
	c, _ := checkout(t, "sglang", ops)
	if f := c.fails("broken", m{}); f.Class != worker.ClassCollectorBug {
		t.Errorf("failure = %+v", f)
	}
	c.rows("gdn", m{"phase": "context"}, nil)
}
