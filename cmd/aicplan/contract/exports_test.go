package contract

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// table makes a perf file of n rows from a header and a function of the row's
// number. Most latencies have 16 digits or more: a format that rounds loses some.
func table(head string, n int, row func(i int) string) string {
	var b strings.Builder
	b.WriteString(head + "\n")
	for i := range n {
		fmt.Fprintf(&b, "%s,%v\n", row(i), 0.125+1/float64(3+i*i%37))
	}
	return b.String()
}

// fixtures are tables of four families with numbers from a rule.
func fixtures() []string {
	const (
		head = "framework,version,device,op_name,kernel_source,"
		from = "TRTLLM,1.3.0rc20,NVIDIA H200,"
	)
	return []string{
		"in/gemm_perf.txt", table(head+"gemm_dtype,m,n,k,latency", 60, func(i int) string {
			return fmt.Sprintf("%sgemm,torch_flow,%s,%d,%d,%d", from, []string{"bfloat16", "fp8", "fp8_block"}[i%3],
				1<<(i%5), 128<<(i/5%3), 1024<<(i/15))
		}),
		"in/context_attention_perf.txt", table(head+"batch_size,isl,num_heads,num_key_value_heads,head_dim,window_size,"+
			"beam_width,attn_dtype,kv_cache_dtype,step,latency", 48, func(i int) string {
			return fmt.Sprintf("%scontext_attention,torch_flow,%d,%d,%d,8,128,0,1,bfloat16,%s,0", from, 1<<(i%4),
				16<<(i/16), 16<<(i/8%2), []string{"bfloat16", "fp8"}[i/4%2])
		}),
		"in/moe_perf.txt", table(head+"moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,"+
			"moe_tp_size,moe_ep_size,distribution,latency", 30, func(i int) string {
			return fmt.Sprintf("%smoe,moe_torch_flow,fp8_block,%d,2048,768,8,128,1,%d,%s", from, 1<<(i%5), 1<<(i/5%3),
				[]string{"balanced", "power_law_1.2"}[i/15])
		}),
		"in/computescale_perf.txt", table(head+"m,k,quant_dtype,latency", 8, func(i int) string {
			return fmt.Sprintf("%scompute_scale,default,%d,%d,fp8", from, 1<<(i%4), 1024<<(i/4))
		}),
		"in/power_perf.txt", table(head+"power,power_limit,gemm_dtype,m,n,k,latency", 6, func(i int) string {
			return fmt.Sprintf("%sgemm,torch_flow,%d.5,700,fp8,%d,256,256", from, 300+i, 1+i)
		}),
	}
}

const exportPlan = `
locals {
  tables = ["gemm_perf", "context_attention_perf", "moe_perf", "computescale_perf"]
}
system "h200" {
  name = "h200_sxm"
}
import "t" {
  for_each = toset(local.tables)
  path     = "./in/${each.key}.txt"
}
dedupe "t" {
  for_each = import.t
  input    = each.value
  keep     = "read"
}
gate "t" {
  for_each = dedupe.t
  input    = each.value
  check "schema" {}
  check "duplicates" {}
  check "rows" { condition = latency > 0 }
}
export "flat" {
  for_each = gate.t
  input    = each.value
}
export "parquet" {
  for_each = gate.t
  input    = each.value
  file     = "${each.key}.parquet"
  dir      = "binary"
}
export "systems" {
  for_each = gate.t
  input    = each.value
  layout   = "systems"
  system   = system.h200
  dir      = "systems"
}
export "systems_parquet" {
  for_each = gate.t
  input    = each.value
  layout   = "systems"
  format   = "parquet"
  system   = system.h200
  dir      = "systems_parquet"
}
export "old" {
  for_each = gate.t
  input    = each.value
  layout   = "systems"
  reader   = "0.4"
  system   = system.h200
  dir      = "old"
}
export "families" {
  for_each        = gate.t
  input           = each.value
  layout          = "families"
  system          = system.h200
  system_spec     = true
  current         = true
  attention_lanes = { "90" = "fa3" }
  dir             = "families"
  reuse "mla_bmm_perf" {
    from_version = "1.2.0"
    reason       = "unchanged"
    approved_by  = "A. Name"
  }
}
import "power" {
  path  = "./in/power_perf.txt"
  table = "gemm_perf"
}
export "power" {
  input = import.power
  file  = "power.txt"
  power = "require"
}
export "no_power" {
  input = import.power
  file  = "no_power.txt"
  power = "never"
}
`

// TestExports compares the bytes of exports in every layout and format, with
// the files beside them.
func TestExports(t *testing.T) {
	t.Parallel()
	f := newFolder(t, append(fixtures(), "plan.hcl", exportPlan)...)
	a := f.apply(0, "plan.hcl")
	if s := a.stages[`export.flat["gemm_perf"]`]; s.Status != "ok" || s.Counts.Rows != 60 {
		t.Errorf("export.flat: %+v", s)
	}
	first := f.files("out")
	golden(t, *update, "exports", first)

	// A second apply has nothing to do, and one that writes again writes the same.
	var p planned
	f.json(&p, 0, "plan", "--json", "plan.hcl")
	if p.Work {
		t.Error("there is work after an apply")
	}
	for _, s := range f.apply(0, "plan.hcl").stages {
		if !s.Reused && s.Samples > 0 {
			t.Errorf("a second apply works: %+v", s)
		}
	}
	f.apply(0, "--replace", "export.*", "plan.hcl")
	if d := differences("out", anyMap(first), anyMap(f.files("out"))); d != nil {
		t.Errorf("other bytes when written again: %v", d)
	}
	fresh := newFolder(t, append(fixtures(), "plan.hcl", exportPlan)...)
	fresh.apply(0, "plan.hcl")
	if d := differences("out", anyMap(first), anyMap(fresh.files("out"))); d != nil {
		t.Errorf("other bytes in another folder: %v", d)
	}
}

func anyMap(m map[string]string) any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// TestExportsReadBack imports what was exported: every layout gives the rows of
// the flat file again.
func TestExportsReadBack(t *testing.T) {
	t.Parallel()
	f := newFolder(t, append(fixtures(), "plan.hcl", exportPlan, "back.hcl", `
variable "path" { type = string }
variable "table" { type = string }
import "back" { path = var.path }
export "back" {
  input = import.back
  file  = "${var.table}.txt"
  dir   = "back"
}
`)...)
	f.apply(0, "plan.hcl")
	var found []string
	for name := range f.files("out") {
		if strings.HasPrefix(name, "old/") || !strings.Contains(name, "/") {
			continue
		}
		base := name[strings.LastIndex(name, "/")+1:]
		table, ext, _ := strings.Cut(base, ".")
		if !strings.HasSuffix(table, "_perf") || ext != "txt" && ext != "parquet" {
			continue
		}
		found = append(found, name)
		f.apply(0, "--var", "path=./out/"+name, "--var", "table="+table, "back.hcl")
		got, want := f.read("out/back/"+table+".txt"), f.read("out/"+table+".txt")
		if !bytes.Equal(got, want) {
			t.Errorf("%s has other rows than the flat file:\n%s\nwant\n%s", name, got, want)
		}
	}
	slices.Sort(found)
	if len(found) != 16 {
		t.Errorf("%d files were read back: %v", len(found), found)
	}
}

// TestRepeatedRows dedupes rows of one key and merges new rows into a database.
func TestRepeatedRows(t *testing.T) {
	t.Parallel()
	const head = "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"
	const from = "TRTLLM,1.0.0,NVIDIA H200,gemm,torch_flow,bfloat16,"
	f := newFolder(t,
		"in/gemm_perf.txt", head+from+"1,128,128,0.5\n"+from+"1,128,128,0.25\n"+from+"1,128,128,1\n"+from+"2,128,128,0.5\n",
		"more/gemm_perf.txt", head+from+"2,128,128,0.75\n"+from+"4,128,128,0.5\n",
		"plan.hcl", `
variable "keep" { default = "first" }
import "p" { path = "./in/gemm_perf.txt" }
dedupe "d" {
  input = import.p
  keep  = var.keep
}
export "e" {
  input = dedupe.d
  file  = "${var.keep}.txt"
}
`, "strict.hcl", `
import "p" { path = "./in/gemm_perf.txt" }
gate "g" {
  input = import.p
  check "duplicates" {}
}
export "e" { input = gate.g }
`, "merge.hcl", `
variable "from" { default = "in" }
import "p" { path = "./${var.from}/gemm_perf.txt" }
dedupe "d" {
  input = import.p
}
export "e" {
  input  = dedupe.d
  layout = "families"
  system = "h200_sxm"
}
`)
	got := map[string]any{}
	for _, keep := range []string{"first", "median", "read"} {
		f.apply(0, "--var", "keep="+keep, "plan.hcl")
		got[keep] = strings.Split(strings.TrimSpace(string(f.read("out/"+keep+".txt"))), "\n")
	}
	f.apply(4, "strict.hcl")
	f.apply(0, "merge.hcl")
	f.apply(0, "--var", "from=more", "merge.hcl")
	for name, sum := range f.files("out/data") {
		got[name] = sum
		if strings.HasSuffix(name, ".yaml") {
			got[name] = strings.Split(string(f.read("out/data/"+name)), "\n")
		}
	}
	golden(t, *update, "repeated_rows", got)
}
