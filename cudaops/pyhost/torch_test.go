package pyhost_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"aicplan/cudaops/worker"
)

// torchWorker starts a worker with the op functions of plans/modules/torch, on
// the GPU where there is one. It skips without torch.
func torchWorker(t testing.TB, verify bool, measure m) (*client, worker.Hello) {
	t.Helper()
	path, err := filepath.Abs("../../plans/modules/torch")
	if err != nil {
		t.Fatal(err)
	}
	init := worker.Init{Kind: "python", Slot: "w0", Device: -1, Seed: 1, Measure: raw(t, measure),
		Options: hostSettings{Package: "torch", Path: []string{path}, Verify: verify}.Options(m{"torch": true})}
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		init.Device = 0
	}
	c, hello := start(t, init)
	if hello.Error != nil && hello.Error.Class == worker.ClassUnsupportedConfig {
		t.Skipf("no torch: %s", hello.Error.Message)
	}
	if hello.Error != nil {
		t.Fatalf("%s\n%s", hello.Error.Message, hello.Error.Traceback)
	}
	return c, hello
}

func onGPU(h worker.Hello) bool { return h.Env["sm"] != "" }

// torchCases are cases of every op: small ones for a CPU, and with them the
// corners of the grids on a GPU.
func torchCases(gpu bool) map[string][]m {
	cases := map[string][]m{}
	add := func(op string, params m) { cases[op] = append(cases[op], params) }
	type size struct{ m, n, k int }
	sizes := []size{{33, 48, 64}, {64, 128, 256}}
	heads := [][3]int{{4, 4, 64}, {8, 2, 64}}
	batches, lengths := []int{1, 3}, []int{1, 17, 64}
	tokens := []int{1, 7, 32}
	experts := []m{{"hidden_size": 64, "inter_size": 32, "topk": 2, "num_experts": 8}}
	if gpu {
		sizes = []size{{1, 1024, 1024}, {17, 4096, 7168}, {128, 8192, 1024}, {4096, 7168, 2048}, {16384, 8192, 8192},
			{8192, 5120, 5120}}
		heads = [][3]int{{32, 8, 128}, {8, 1, 128}, {32, 32, 128}, {64, 8, 64}}
		batches, lengths = []int{1, 16}, []int{1, 16, 512, 4096}
		tokens = []int{1, 7, 128, 4096}
		experts = []m{{"hidden_size": 7168, "inter_size": 2048, "topk": 8, "num_experts": 256},
			{"hidden_size": 4096, "inter_size": 14336, "topk": 2, "num_experts": 8}}
	}
	for _, s := range sizes {
		for _, dtype := range []string{"bfloat16", "float16", "fp8", "int8"} {
			if dtype != "int8" || s.m > 16 {
				add("gemm", m{"gemm_dtype": dtype, "m": s.m, "n": s.n, "k": s.k})
			}
		}
		add("compute_scale", m{"m": s.m, "k": s.k})
	}
	backends := []string{"torch_flash"}
	if gpu {
		backends = append(backends, "torch_cudnn")
	}
	for _, h := range heads {
		for _, b := range batches {
			for _, s := range lengths {
				for _, backend := range backends {
					p := m{"batch_size": b, "num_heads": h[0], "num_key_value_heads": h[1], "head_dim": h[2], "kernel_source": backend,
						"window_size": 0}
					ctx, gen := maps.Clone(p), maps.Clone(p)
					ctx["isl"], gen["step"] = s, s
					add("attention_context", ctx)
					add("attention_generation", gen)
				}
			}
		}
	}
	for _, n := range tokens {
		for _, h := range []int{1, 16, 128} {
			add("mla_bmm_gen_pre", m{"num_tokens": n, "num_heads": h, "bmm_dtype": "bfloat16"})
			add("mla_bmm_gen_post", m{"num_tokens": n, "num_heads": h, "bmm_dtype": "bfloat16"})
		}
	}
	if gpu {
		// What is left of two times that a CPU's noise is larger than.
		for _, n := range tokens {
			for _, kernel := range []string{"rms_norm", "silu_and_mul"} {
				add("elementwise", m{"kernel": kernel, "num_tokens": n, "hidden_size": 5120})
			}
		}
		for _, l := range []m{{"phase": "prefill", "batch_size": 2, "isl": 512},
			{"phase": "decode", "batch_size": 8, "isl": 1}} {
			maps.Copy(l, m{"cached": 512, "hidden_size": 4096, "num_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
				"intermediate_size": 14336})
			add("layer", l)
		}
	}
	for _, e := range experts {
		for _, split := range [][2]int{{1, 1}, {1, 4}, {2, 2}} {
			for _, d := range []string{"balanced", "power_law_1.01", "power_law_1.2"} {
				p := maps.Clone(e)
				p["moe_dtype"], p["moe_tp_size"], p["moe_ep_size"], p["distribution"] = "bfloat16", split[0], split[1], d
				p["model_name"] = "test"
				add("moe", p)
			}
		}
	}
	return cases
}

var moeTokens = []m{{"num_tokens": 1}, {"num_tokens": 16}, {"num_tokens": 300}}

func sweepOf(op string) any {
	if op == "moe" {
		return moeTokens
	}
	return nil
}

// TestTorchOps holds every op against its reference and looks at its rows.
func TestTorchOps(t *testing.T) {
	c, hello := torchWorker(t, true, m{"passes": 1, "max_samples": 3})
	gpu := onGPU(hello)
	t.Logf("%s, torch %s, env %v", hello.Device, hello.Version, hello.Env)
	cases := torchCases(gpu)
	for _, op := range slices.Sorted(maps.Keys(cases)) {
		t.Run(op, func(t *testing.T) {
			unsupported, began := 0, time.Now()
			for _, p := range cases[op] {
				a := c.run(op, p, sweepOf(op))
				if f := a.Failure; f != nil {
					if f.Class == worker.ClassUnsupportedConfig && gpu {
						unsupported++
						t.Logf("%v: %s", p, f.Message)
						continue
					}
					t.Fatalf("%v: %s %s: %s\n%s", p, f.Class, f.Exception, f.Message, f.Traceback)
				}
				for _, row := range a.Rows {
					checkTorchRow(t, op, p, row, gpu)
				}
				if op == "moe" && len(a.Rows) != len(moeTokens) {
					t.Fatalf("%v: %d rows for %d points", p, len(a.Rows), len(moeTokens))
				}
			}
			t.Logf("%d cases checked, %d unsupported, %.1f cases/s", len(cases[op]), unsupported,
				float64(len(cases[op]))/time.Since(began).Seconds())
			if unsupported > len(cases[op])/2 {
				t.Errorf("%d of %d cases are unsupported", unsupported, len(cases[op]))
			}
		})
	}
	for _, l := range c.logs {
		t.Logf("%s: %s", l.Level, l.Text)
	}
}

func checkTorchRow(t *testing.T, op string, p m, row worker.Row, gpu bool) {
	t.Helper()
	latency, ok := row["latency"].(float64)
	if !ok || !(latency >= 0) || (latency == 0 && row["op_name"] != "compute_scale") {
		t.Fatalf("%s %v: latency %v", op, p, row["latency"])
	}
	ofTable := op != "elementwise" && op != "layer"
	if row["kernel_source"] == nil || ofTable && row["op_name"] == nil {
		t.Fatalf("%s %v: row %v", op, p, row)
	}
	if gpu && row["used_cuda_graph"] != true {
		t.Errorf("%s %v: measured without a graph", op, p)
	}
	if mhz, _ := row["sm_clock_mhz"].(float64); gpu && (mhz < 300 || mhz > 4000) {
		t.Errorf("%s %v: an SM clock of %v MHz", op, p, row["sm_clock_mhz"])
	}
}

// BenchmarkTorch measures rows/s of every op, and of GEMM under the reference
// protocol too, on a GPU. With AICPLAN_TORCH_OUT=FOLDER the rows of all rounds
// are kept there; -benchtime 2x gives two rounds to compare.
func BenchmarkTorch(b *testing.B) {
	out := os.Getenv("AICPLAN_TORCH_OUT")
	for _, protocol := range []string{"adaptive", "reference"} {
		b.Run(protocol, func(b *testing.B) {
			c, hello := torchWorker(b, false, m{"protocol": protocol})
			if !onGPU(hello) {
				b.Skip("no GPU")
			}
			cases := torchCases(true)
			cases["gemm"] = gemmLadder()
			for _, op := range slices.Sorted(maps.Keys(cases)) {
				if protocol == "reference" && op != "gemm" {
					continue
				}
				b.Run(op, func(b *testing.B) {
					var rows []worker.Row
					b.ResetTimer()
					for round := range b.N {
						for _, p := range cases[op] {
							for _, row := range c.run(op, p, sweepOf(op)).Rows {
								full := worker.Row{"round": round}
								maps.Copy(full, p)
								maps.Copy(full, row)
								rows = append(rows, full)
							}
						}
					}
					b.ReportMetric(float64(len(rows))/b.Elapsed().Seconds(), "rows/s")
					b.StopTimer()
					if out != "" && b.N > 1 {
						name := filepath.Join(out, protocol+"-"+op+".json")
						if err := os.WriteFile(name, raw(b, rows), 0o644); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

// gemmLadder is every token count on nine weights.
func gemmLadder() []m {
	var cases []m
	for _, n := range []int{1024, 4096, 8192} {
		for _, k := range []int{1024, 4096, 7168} {
			for tokens := 1; tokens <= 16384; tokens *= 2 {
				cases = append(cases, m{"gemm_dtype": "bfloat16", "m": tokens, "n": n, "k": k})
			}
		}
	}
	return cases
}
