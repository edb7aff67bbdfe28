package plans_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/sink/base/testutil"
	"aicplan/stages"
	"aicplan/systems"
)

// FuzzLoad loads and plans texts that were plans once. Seed 0 takes the text
// as it is; every other seed makes some changes to its tokens, which
// keeps most of it sensible and so reaches deeper than single bytes do.
//
// Whatever the text: no panic, and every diagnostic has a place and says
// something.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"*.hcl", "modules/*/*.hcl", "../engine/config/testdata/*.txtar",
		"../engine/grid/testdata/*.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds at %s: %v", pattern, err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			for seed := range uint64(testutil.Rounds(1, 2)) {
				f.Add(string(text), seed)
			}
		}
	}
	f.Add(fuzzPlan, uint64(0))
	for seed := uint64(1); seed < uint64(testutil.Rounds(40, 80)); seed++ {
		f.Add(fuzzPlan, seed)
	}
	dir := f.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "modules"), os.DirFS("modules")); err != nil {
		f.Fatal(err)
	}
	all := stages.All()
	f.Cleanup(func() { all.Close() })
	store, err := checkpoint.Open(filepath.Join(dir, "state"), checkpoint.Options{ReadOnly: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { store.Close() })
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if seed != 0 {
			text = mutate(text, seed)
		}
		path := filepath.Join(t.TempDir(), "plan.hcl")
		if err := os.Symlink(filepath.Join(dir, "modules"), filepath.Join(filepath.Dir(path), "modules")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, diags := config.Load(config.Options{
			Path: path, Kinds: all.Kinds,
			Systems: func(name, file string) (*systems.Spec, error) {
				if file != "" {
					return systems.LoadFile(file)
				}
				return systems.Load(name)
			},
		})
		soundDiags(t, text, diags)
		if diags.HasErrors() {
			return
		}
		// A mutated grid may be large; what it takes is not the matter here.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		p, diags := plan.Build(ctx, cfg, store, plan.Options{})
		soundDiags(t, text, diags)
		outs, diags := cfg.Outputs()
		soundDiags(t, text, diags)
		for _, o := range outs {
			o.Value.IsWhollyKnown()
		}
		if sum := plan.Summarize(p); len(sum.Stages) != len(p.Stages) {
			t.Errorf("a summary of %d stages for a plan of %d", len(sum.Stages), len(p.Stages))
		}
	})
}

func soundDiags(t *testing.T, text string, diags hcl.Diagnostics) {
	t.Helper()
	for _, d := range diags {
		switch {
		case d.Subject == nil || d.Subject.Filename == "":
			t.Errorf("a diagnostic without a place: %s: %s\n%s", d.Summary, d.Detail, text)
		case d.Summary == "" || d.Detail == "":
			t.Errorf("a diagnostic that says nothing: %v\n%s", d, text)
		case strings.Contains(d.Detail, "panic") || strings.Contains(d.Detail, "goroutine "):
			t.Errorf("a panic as a diagnostic: %s: %s\n%s", d.Summary, d.Detail, text)
		}
	}
}

// odd are values where something else is expected.
var odd = []string{
	"null", "true", "0", "-1", "0.5", "1e400", "9007199254740993", "1e12", `""`, `"x"`, "[]", "{}", "[null]", "[[1]]",
	`["a", 1]`, `{ a = 1 }`,
	"collect.c", "collect.c.rows", "grid.g", `grid.g["b"]`, "local.l", "local.self", "var.v", "var.o", "each.key",
	"each.value", "runtime.cpu",
	"system.h200_sxm", "module.m", "module.m.x", "path.module", `"${collect.c.rows}"`, "[for x in var.v : x]",
	"{ for x in var.v : x => x }",
	"collect.c.rows > 1 ? collect.c : null", "powers(2, 0, 4)", "m", "n", "1 / 0", "log(-1, 2)", "pow(-1, 0.5)",
	"[for g in grid.g : g]",
	`jsondecode("[1]")`, "setproduct([1], [2])", "try(local.nope, 1)", "toset([])", "collect.c.digest", "sum([])",
}

// mutate changes some tokens of a text: other values, other names of the same
// text, tokens twice, swapped or left out.
func mutate(text string, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 7))
	tokens, _ := hclsyntax.LexConfig([]byte(text), "x", hcl.InitialPos)
	var values, names []int
	gaps := make([]string, len(tokens)) // the blanks before each token
	end := 0
	for i, tok := range tokens {
		gaps[i] = text[end:max(end, tok.Range.Start.Byte)]
		end = max(end, tok.Range.End.Byte)
		switch tok.Type {
		case hclsyntax.TokenIdent:
			names = append(names, i)
			values = append(values, i)
		case hclsyntax.TokenNumberLit, hclsyntax.TokenQuotedLit:
			values = append(values, i)
		}
	}
	if len(names) == 0 {
		return text
	}
	for range 1 + r.IntN(4) {
		i := r.IntN(len(tokens))
		switch r.IntN(8) {
		case 0:
			tokens[i].Bytes = nil
		case 1:
			tokens[i].Bytes = append(append([]byte{}, tokens[i].Bytes...), tokens[i].Bytes...)
		case 2:
			j := r.IntN(len(tokens))
			tokens[i], tokens[j] = tokens[j], tokens[i]
		case 3, 4:
			j := names[r.IntN(len(names))]
			tokens[names[r.IntN(len(names))]].Bytes = tokens[j].Bytes
		default:
			tokens[values[r.IntN(len(values))]].Bytes = []byte(odd[r.IntN(len(odd))])
		}
	}
	var b strings.Builder
	for i, tok := range tokens {
		b.WriteString(gaps[i])
		b.Write(tok.Bytes)
	}
	return b.String()
}

// fuzzPlan has a little of everything that the language has.
const fuzzPlan = `variable "v" {
  type        = list(number)
  default     = [1, 2, 4]
  description = "sizes"
  validation {
    condition     = length(var.v) > 0 && alltrue([for x in var.v : x > 0])
    error_message = "sizes are positive"
  }
}
variable "o" {
  type    = object({ a = number, b = optional(string, "x"), c = optional(list(object({ d = number })), []) })
  default = { a = 1 }
}
locals {
  l    = { for x in var.v : "k${x}" => x * var.o.a if x < 4 }
  rows = [{ h = 8, w = 64 }, { h = 16, w = null }]
  self = sum(var.v)
}
system "h200_sxm" {}
runtime "cpu" {
  kind      = "cpu"
  framework = "CPU"
  synthetic = true
  env       = { A = "b" }
}
preflight "node" {
  runtime = runtime.cpu
  check "writable" {}
  check "memory" { min_gb = 0.001 }
}
grid "g" {
  for_each    = local.l
  op          = "synthetic"
  columns     = ["n", "h", "z", "t"]
  constants   = { k = each.key }
  description = "one ${each.key}"
  axis "n" { values = [each.value, each.value + 1] }
  axis "t" { values = ["fp8", "bf16"] }
  rows "r" { values = local.rows }
  derive "z" { value = w == null ? h : h * w }
  filter "first" {
    keep   = w == null || w > 0 && n * h < 100
    reason = "no"
  }
  filter "second" {
    keep   = !(t == "fp8" && system.h200_sxm.sm_version < 89)
    reason = "never"
  }
  distinct {
    by     = ["n", "h", "t"]
    prefer = "min"
    of     = z
  }
}
grid "s" {
  op = "synthetic"
  case_set "a" {
    axis "n" { values = powers(2, 0, 3) }
    filter "x" {
      keep   = n > 1
      reason = "small"
    }
  }
  case_set "b" {
    rows "p" { values = [{ n = 3 }, { n = 5 }] }
  }
  sweep "m" { values = [1, 2, 3] }
}
collect "c" {
  grid       = grid.s
  runtime    = runtime.cpu
  depends_on = [preflight.node]
  ramp       = [1, 2]
  measure { power = false }
  breaker {
    group_by = ["n"]
    after    = 2
  }
}
collect "d" {
  for_each = grid.g
  enabled  = var.o.b == "x"
  grid     = each.value
  runtime  = runtime.cpu
}
dedupe "c" {
  input = collect.c
  keep  = "latest"
}
gate "c" {
  input = dedupe.c
  check "coverage" { min = 0.5 }
  check "rows" { condition = latency > 0 }
  check "duplicates" { max = 0 }
  check "rows" {
    condition = latency >= 0 && latency <= 1000
    max_share = 0.5
  }
  assert "enough" { condition = count > 1 && max.latency > 0 }
}
export "c" {
  input = gate.c
  file  = "c_${collect.c.rows}.txt"
}
export "d" {
  for_each = collect.d
  input    = each.value
  file     = "d_${each.key}.txt"
}
module "m" {
  source    = "./modules/measured"
  for_each  = { x = grid.s }
  grid      = each.value
  runtime   = runtime.cpu
  preflight = preflight.node
  file      = "m.txt"
}
output "files" {
  description = "what"
  value       = { for name, m in module.m : name => m.path }
}
output "c" { value = collect.c.rows > 1 ? collect.c : collect.c }
`
