package main

import (
	"fmt"
	"regexp"
	"strings"
)

// lies are workers that misbehave: half of the cases are sane and have to be
// measured, the others have to end as failures, or as rows after another try.
func lies() []*fault {
	var out []*fault
	for _, kind := range []string{"error", "unsupported", "fatal", "panic", "nan", "columns", "garbage", "utf8", "unknown_seq", "huge", "late",
		"transient", "oom", "exit0", "exit10", "segfault", "killed", "print", "fork", "leak", "half"} {
		out = append(out, &fault{name: "worker: " + kind, none: true, do: func(t *trial) { t.lie(kind) }})
	}
	return out
}

// ends are the exit codes of an apply whose cases failed, or did not.
var ends = map[int]bool{0: true, 3: true, 4: true}

func (t *trial) lie(kind string) {
	apply := []string{"apply", "-var", "size=6", "-var", fmt.Sprintf(`faults=["none","%s"]`, kind), "plan.hcl"}
	const sane = 12
	out, code := t.status(apply...)
	if !ends[code] {
		t.wrong("apply ends with %d: %s", code, clip(out))
	}
	t.note = fmt.Sprintf("exit code %d", code)
	if n := t.acknowledged(); n < sane {
		t.wrong("%d of %d sane cases are measured", n, sane)
	}
	// Again: nothing that was measured is measured again.
	out, code = t.status(apply...)
	if m := summary.FindStringSubmatch(out); !ends[code] || m != nil && m[1] != "0" {
		t.wrong("again, it ends with %d: %s", code, clip(out))
	}
	if out, code := t.status("ckpt", "verify"); code != 0 {
		t.wrong("ckpt verify ends with %d: %s", code, clip(out))
	}
}

// mutants are inputs with a few bytes changed: a command has to take them or to
// refuse them with a message.
func mutants() []*fault {
	yaml := `system: mine
gpu:
  sm_version: 90
  mem_bw: 4.8e12
  mem_capacity: 150754820096
`
	csv := "framework,version,device,op_name,kernel_source,m,n,k,gemm_dtype,latency\n" + strings.Repeat("TRTLLM,1.0,NVIDIA H200,gemm,default,1,2,3,bfloat16,0.5\n", 3)
	values := "faults = [\"none\", \"error\"]\n"
	return []*fault{
		{name: "mutated plan: validate", none: true, do: mutant("plan.hcl", thePlan, "validate", "plan.hcl")},
		{name: "mutated plan: plan", none: true, do: mutant("plan.hcl", thePlan, "plan", "plan.hcl")},
		{name: "mutated plan: describe", none: true, do: mutant("plan.hcl", thePlan, "describe", "plan.hcl")},
		{name: "mutated plan: fmt", none: true, do: mutant("plan.hcl", thePlan, "fmt", "-check", "plan.hcl")},
		{name: "mutated variables: plan", none: true, do: mutant("vars.hcl", values, "plan", "-var-file", "vars.hcl", "plan.hcl")},
		{name: "mutated system: validate", none: true, do: mutant("mine.yaml", yaml, "systems", "validate", "mine.yaml")},
		{name: "mutated CSV: data lint", none: true, do: mutant("gemm_perf.txt", csv, "data", "lint", ".")},
		{name: "mutated CSV: diff", none: true, do: func(t *trial) {
			t.write("old.txt", csv)
			mutant("gemm_perf.txt", csv, "diff", "old.txt", "gemm_perf.txt")(t)
		}},
		{name: "mutated saved plan: apply", none: true, do: func(t *trial) {
			if out, code := t.status("plan", "-out", "saved.plan", "plan.hcl"); code != 0 {
				t.wrong("plan -out ends with %d: %s", code, clip(out))
			}
			mutant("saved.plan", t.read("saved.plan"), "apply", "-smoke", "saved.plan")(t)
		}},
		{name: "mutated Parquet: diff", none: true, do: func(t *trial) {
			applied(t)
			mutant("out/g_perf.parquet", t.read("out/g_perf.parquet"), "diff", "out/g_perf.txt", "out/g_perf.parquet")(t)
		}},
		{name: "mutated command line", none: true, do: func(t *trial) {
			words := []string{"apply", "plan", "plan.hcl", "-var", "-smoke", "-limit", "x=1", "-target", "collect.*", "-json", "--", "-1", "", "ckpt", "gc", "\x00"[:0], "-retry", "report", "é", "grid.g"}
			var args []string
			for range 1 + t.random.IntN(5) {
				args = append(args, words[t.random.IntN(len(words))])
			}
			if _, code := t.status(args...); code < 0 || code == 2 {
				t.wrong("aicplan %q ends with %d", args, code)
			}
		}},
	}
}

var tokens = []string{"{", "}", "[", "]", "\"", "${", "}}", "null", "true", "-1", "1e999", "0x", "\\", "\n", "\x00", "\xff", "for", "...", "=", ",", "<<EOT\n", "18446744073709551616"}

// change makes one to four changes.
func (t *trial) change(text string) string {
	b := []byte(text)
	for range 1 + t.random.IntN(4) {
		at := t.random.IntN(len(b) + 1)
		to := min(len(b), at+t.random.IntN(40))
		switch t.random.IntN(5) {
		case 0:
			if at < len(b) {
				b[at] ^= 1 << t.random.IntN(8)
			}
		case 1:
			b = append(b[:at:at], b[to:]...)
		case 2:
			b = append(b[:to:to], b[at:]...)
		case 3:
			b = append(b[:at:at], append([]byte(tokens[t.random.IntN(len(tokens))]), b[at:]...)...)
		case 4:
			if t.random.IntN(8) == 0 {
				b = b[:at]
			}
		}
	}
	return string(b)
}

// place is how an error says where it is; words of other commands say which file.
var place = regexp.MustCompile(`\.(hcl|yaml|txt|parquet|plan)|[Rr]ow|line|column|stage|collect\.|grid\.|-var`)

func mutant(file, text string, args ...string) func(*trial) {
	return func(t *trial) {
		for range 5 {
			t.write(file, t.change(text))
			out, code := t.status(args...)
			if code < 0 || code == 2 {
				t.wrong("aicplan %s ends with %d: %s", strings.Join(args, " "), code, clip(out))
			}
			if code == 1 && !place.MatchString(out) {
				t.wrong("aicplan %s: an error without a place: %s", strings.Join(args, " "), out)
			}
		}
	}
}
