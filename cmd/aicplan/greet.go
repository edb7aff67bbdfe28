package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"aicplan/engine/run"
	"aicplan/stages/runtimes"
)

// greet is what aicplan alone prints: what to begin with, on this machine.
func (a *app) greet() int {
	fmt.Fprintln(a.stdout, `aicplan collects GPU performance data from declarative plans. To begin with:

  aicplan plan plans/quickstart.hcl      what would be measured, and why; runs nothing
  aicplan apply plans/quickstart.hcl     measure, check, export to out/; goes on where it stopped
  aicplan show ADDRESS                   what was measured; aicplan failures: what was not`)
	if gpus := seen(); len(gpus) > 0 {
		fmt.Fprintf(a.stdout, `
This machine has %s. What they can do, and a plan for them that needs no framework:

  aicplan doctor
  aicplan apply plans/h200_cuda.hcl
`, strings.Join(gpus, ", "))
	}
	fmt.Fprintln(a.stdout, `
aicplan help lists all commands, aicplan help COMMAND explains one; docs/tutorial.md is a walk of 15 minutes.`)
	return run.ExitOK
}

// seen names the NVIDIA GPUs that the kernel's driver shows.
func seen() []string {
	all, err := runtimes.Devices()
	if err != nil {
		return nil // doctor says why
	}
	var out []string
	for _, d := range all {
		out = append(out, d.Name)
	}
	return out
}

// usual takes the words that users of other tools try first: help, --version.
func usual(args []string) []string {
	switch {
	case args[0] == "help":
		return append(args[1:len(args):len(args)], "--help")
	case len(args) == 1 && (args[0] == "--version" || args[0] == "-V"):
		return []string{"version"}
	}
	return args
}

// withDefault is the help of a flag with its default.
func withDefault(v *kong.Value) string {
	text := kong.DefaultHelpValueFormatter(v)
	if v.Default == "" || v.Default == "0s" || v.Flag == nil || v.IsBool() || strings.Contains(text, "("+v.Default) {
		return text
	}
	return strings.TrimSuffix(text, ".") + " (default " + v.Default + ")."
}

// examples are a command line of every verb.
var examples = map[string]string{
	"validate":         "aicplan validate plans/h200_trtllm.hcl",
	"fmt":              "aicplan fmt -check -diff plans",
	"test":             "aicplan test plans/modules -filter 'one model*'",
	"plan":             "aicplan plan plans/h200_trtllm.hcl -var 'models=[\"Qwen/Qwen3-32B\"]'",
	"apply":            "aicplan apply plans/quickstart.hcl -out-dir out",
	"status":           "aicplan status -json",
	"watch":            "aicplan watch",
	"serve":            "aicplan serve -listen :8765",
	"preflight":        "aicplan preflight plans/h200_trtllm.hcl",
	"report":           "aicplan report -format html -out report.html",
	"failures":         "aicplan failures",
	"diff":             "aicplan diff old/gemm_perf.txt new/gemm_perf.txt -max-median 0.02",
	"data lint":        "aicplan data lint out",
	"data matrix":      "aicplan data matrix out",
	"show":             "aicplan show 'module.measured[\"gemm\"].collect.op' -where 'm >= 64' -slowest 10",
	"publish":          "aicplan publish -dry-run plans/h200_vllm.hcl",
	"data read-back":   "aicplan data read-back -against before out",
	"history":          "aicplan history collect.gemm -where 'm == 64'",
	"trace":            "aicplan trace profile.json.gz",
	"gpus":             "aicplan gpus",
	"graph":            "aicplan graph plans/quickstart.hcl -format mermaid",
	"describe":         "aicplan describe plans/h200_trtllm.hcl",
	"eval":             "aicplan eval plans/quickstart.hcl 'var.max_gflop'",
	"cases":            "aicplan cases plans/h200_trtllm.hcl grid.gemm -limit 10",
	"why":              "aicplan why plans/h200_trtllm.hcl grid.gemm m=1 n=65536 k=65536 gemm_dtype=fp8",
	"new op":           "aicplan new op my_op",
	"ckpt list":        "aicplan ckpt list",
	"ckpt show":        "aicplan ckpt show collect.gemm",
	"ckpt verify":      "aicplan ckpt verify",
	"ckpt gc":          "aicplan ckpt gc -dry-run",
	"ckpt rm":          "aicplan ckpt rm collect.gemm",
	"ckpt import":      "aicplan ckpt import plan.hcl collect.gemm old/gemm_perf.txt",
	"ckpt prune":       "aicplan ckpt prune plans/quickstart.hcl",
	"unlock":           "aicplan unlock",
	"models":           "aicplan models Qwen/Qwen3-32B",
	"doctor":           "aicplan doctor",
	"bench-protocol":   "aicplan bench-protocol -limit 20",
	"systems list":     "aicplan systems list",
	"systems show":     "aicplan systems show h200_sxm",
	"systems validate": "aicplan systems validate my_system.yaml",
	"systems probe":    "aicplan systems probe",
	"docs run":         "aicplan docs run docs/serving.md",
	"runtimes":         "aicplan runtimes cuda",
	"mock-server":      "aicplan mock-server -listen 127.0.0.1:8000 -ttft 200ms -itl 20ms",
	"version":          "aicplan version -json",
	"completion":       "aicplan completion bash > /etc/bash_completion.d/aicplan",
}
