package reporttest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// Attention is a made-up table with cases that failed in two ways, and cases
// that a breaker skipped.
func Attention() (*stage.Dataset, error) {
	random := rand.New(rand.NewPCG(3, 4))
	params := []string{"batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "attn_dtype", "kv_cache_dtype"}
	planned := newRows(append(append([]string{"case_id"}, params...), "status")...)
	measured := newRows(append(append([]string{"case_id"}, params...), "framework", "version", "device",
		"kernel_source", "latency", "rel_stdev", "sm_clock_mhz", "worker", "device_uuid", "started_at")...)
	ledger := table.NewBuilder(stage.LedgerSchema.Fields()...)

	at := began.Add(3 * time.Hour)
	for _, kv := range []string{"bfloat16", "fp8"} {
		for b := 1; b <= 64; b *= 2 {
			for isl := 128; isl <= 16384; isl *= 2 {
				for _, heads := range []int{32, 64} {
					id := fmt.Sprintf("a-%s-%d-%d-%d", kv, b, isl, heads)
					planned.add(id, b, isl, heads, 8, 128, "bfloat16", kv, "planned")

					at = at.Add(90 * time.Millisecond)
					if b*isl > 262144 || kv == "fp8" && isl == 16384 {
						row := map[string]any{
							"case_id": id, "params": fmt.Sprintf(`{"batch_size":%d,"isl":%d,"num_heads":%d,"kv_cache_dtype":%q}`, b,
								isl, heads, kv),
							"status": "failed", "class": "resource_issue", "group": "", "type": "OutOfMemoryError",
							"message":   fmt.Sprintf("CUDA out of memory: tried to allocate %d.25 GiB", 100+b),
							"traceback": "Traceback (most recent call last):\n  File \"bench.py\", line 41, in run\n    torch.empty(<huge>)\nOutOfMemoryError", "attempts": 2, "worker": "w1",
							"device_uuid": "GPU-1a2b3c01", "at": at.Format(time.RFC3339Nano),
						}
						if kv == "fp8" {
							row["class"], row["type"], row["message"] = "framework_bug", "RuntimeError",
								"no kernel for head_dim=128 with an fp8 cache | <sm90>"
						}

						if heads == 64 && b > 16 {
							row["status"], row["class"], row["message"], row["traceback"], row["attempts"] = "skipped", "tripped",
								"its group failed 5 times from its first case on", "", 0
						}

						if err := ledger.Append(row); err != nil {
							return nil, err
						}

						continue
					}

					latency := 0.01 + float64(b)*float64(isl)*float64(isl)*float64(heads)*128*4/989e12*1000*(1.2+
						0.3*random.Float64())*(1+800/float64(isl)/float64(b))
					measured.add(id, b, isl, heads, 8, 128, "bfloat16", kv, "TRTLLM", "1.3.0rc20", "NVIDIA H200", "fmha_v2",
						latency, 0.003*(1+random.Float64()), 1700+20*random.NormFloat64(),
						"w1", "GPU-1a2b3c01", at.Format(time.RFC3339Nano))
				}
			}
		}
	}

	return &stage.Dataset{Info: info("attention_context", "context_attention_perf", params...),
		Table: measured.Record(), Planned: planned.Record(), Ledger: ledger.Record()}, nil
}

// allreduce is a small table as an import hands it on: no plan, no ledger.
func allreduce() *stage.Dataset {
	c := newRows("framework", "version", "device", "op_name", "kernel_source", "allreduce_dtype", "num_gpus",
		"message_size", "latency")
	for _, gpus := range []int{2, 4, 8} {
		for size := 256; size <= 1<<26; size *= 4 {
			c.add("TRTLLM", "1.2.0", "NVIDIA H200", "all_reduce", "TRTLLM", "bfloat16", gpus, size,
				0.006+float64(size)/3e8*float64(gpus)/4)
		}
	}

	i := info("custom_allreduce", "custom_allreduce_perf")
	i.Version, i.Params, i.Env, i.Image, i.ImageDigest = "1.2.0", nil, nil, "", ""
	return &stage.Dataset{Info: i, Table: c.Record()}
}
