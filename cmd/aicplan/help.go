package main

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"aicplan/engine/run"
)

// help prints the help of a command, with an example and its exit codes.
func (a *app) help(options kong.HelpOptions, ctx *kong.Context) error {
	options.WrapUpperBound = min(options.WrapUpperBound, a.columns())
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}

	verb, detail := "", ""
	if node := ctx.Selected(); node != nil {
		verb, detail = strings.TrimPrefix(node.Path(), "aicplan "), node.Detail
	}

	var lines []string
	if e := examples[verb]; e != "" && !strings.Contains(detail, "  aicplan ") {
		lines = append(lines, "", "Example:", "  "+e)
	}

	if !strings.Contains(detail, "Exit codes:") && !strings.Contains(detail, "Exit code 0") {
		lines = append(lines, "", "Exit codes:")
		for _, e := range exitCodes {
			if !e.of(verb) {
				continue
			}
			line := fmt.Sprintf("  %-4d %s", e.Code, e.Meaning)
			if n := len(e.Verbs); verb == "" && n > 0 && n <= 3 {
				line += " (" + strings.Join(e.Verbs, ", ") + ")"
			}
			lines = append(lines, line)
		}
	}

	_, err := fmt.Fprintln(ctx.Stdout, strings.Join(lines, "\n"))
	return err
}

// exitCode describes an exit code. If Verbs is empty, it applies to all commands.
type exitCode struct {
	Code    int
	Meaning string
	Verbs   []string
}

// of reports whether a command can return the code. It is true for "", which is aicplan itself, and for
// the parents of a matching command.
func (e exitCode) of(verb string) bool {
	if verb == "" || len(e.Verbs) == 0 {
		return true
	}
	for _, v := range e.Verbs {
		if v == verb || strings.HasPrefix(v, verb+" ") {
			return true
		}
	}
	return false
}

var exitCodes = []exitCode{
	{run.ExitOK, "done", nil},
	{run.ExitError, "error: bad input, or something failed", nil},
	{run.ExitWork, "--detailed-exitcode: there is work to do", []string{"plan"}},
	{run.ExitPartial, "partial data: cases failed or were skipped", []string{"apply"}},
	{run.ExitPartial, "--check: files would change", []string{"fmt"}},
	{run.ExitGate, "a quality gate failed", []string{"apply"}},
	{run.ExitGate, "beyond a limit", []string{"diff", "data lint", "data matrix"}},
	{run.ExitPreflight, "a preflight check failed", []string{"apply", "doctor"}},
	{run.ExitLocked, "another aicplan uses the state folder or the device", []string{
		"apply", "ckpt gc", "ckpt import", "doctor", "systems"}},
	{run.ExitInterrupted, "interrupted", nil},
}

// describeFlags sets placeholders for flags without one. kong would otherwise show the default, which
// the help text already contains.
func describeFlags(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok {
			if f.Name == "help" {
				f.Help = "Show this help."
			}
			if f.PlaceHolder == "" && !f.IsBool() {
				f.PlaceHolder = placeholder(f)
			}
		}
		return next(nil)
	})
}

func placeholder(f *kong.Flag) string {
	switch f.Target.Kind() {
	case reflect.Int, reflect.Int64, reflect.Float64, reflect.Uint64:
		return "N"
	}
	words := strings.Split(f.Name, "-")
	return strings.ToUpper(words[len(words)-1])
}

// withDefault returns the help text of a flag with its default.
func withDefault(v *kong.Value) string {
	text := kong.DefaultHelpValueFormatter(v)
	if v.Default == "" || v.Default == "0s" || v.IsBool() || strings.Contains(text, "("+v.Default) {
		return text
	}
	return strings.TrimSuffix(text, ".") + " (default " + v.Default + ")."
}

// examples maps every command to an example command line.
var examples = map[string]string{
	"validate":    "aicplan validate plans/h200_trtllm.hcl",
	"fmt":         "aicplan fmt --check --diff plans",
	"test":        "aicplan test plans/modules --filter 'one model*'",
	"plan":        "aicplan plan plans/h200_trtllm.hcl --var 'models=[\"Qwen/Qwen3-32B\"]'",
	"apply":       "aicplan apply plans/quickstart.hcl --out-dir out",
	"status":      "aicplan status --watch",
	"serve":       "aicplan serve --listen :8765",
	"report":      "aicplan report --format html --out report.html",
	"failures":    "aicplan failures",
	"diff":        "aicplan diff old/gemm_perf.txt new/gemm_perf.txt --max-median 0.02",
	"data lint":   "aicplan data lint out",
	"data matrix": "aicplan data matrix --models models.yaml out",
	"show": "aicplan show 'module.measured[\"gemm\"].collect.op' --where 'm >= 64' --sort latency:desc " +
		"--limit 10",
	"cancel":         "aicplan cancel collect.gemm",
	"publish":        "aicplan publish --dry-run plans/h200_vllm.hcl",
	"data read-back": "aicplan data read-back --against before out",
	"trace":          "aicplan trace profile.json.gz",
	"describe":       "aicplan describe plans/h200_trtllm.hcl",
	"cases":          "aicplan cases plans/h200_trtllm.hcl grid.gemm --limit 10",
	"why":            "aicplan why plans/h200_trtllm.hcl grid.gemm m=1 n=65536 k=65536 gemm_dtype=fp8",
	"new op":         "aicplan new op my_op",
	"ckpt list":      "aicplan ckpt list",
	"ckpt verify":    "aicplan ckpt verify",
	"ckpt gc":        "aicplan ckpt gc --dry-run",
	"ckpt import":    "aicplan ckpt import plan.hcl collect.gemm old/gemm_perf.txt",
	"doctor":         "aicplan doctor plans/h200_trtllm.hcl",
	"systems":        "aicplan systems h200_sxm",
	"help":           "aicplan help gate",
	"mock-server":    "aicplan mock-server --listen 127.0.0.1:8000 --ttft 200ms --itl 20ms",
	"completion":     "aicplan completion bash > /etc/bash_completion.d/aicplan",
}

// elsewhere are commands of other tools, with what to use here.
var elsewhere = map[string]string{
	"runs": "aicplan report --list lists the runs", "history": "aicplan report --list lists the runs",
	"list":   "aicplan report --list lists the runs, aicplan ckpt list the results",
	"output": "aicplan apply prints the outputs", "init": "nothing has to be prepared: aicplan plan PLAN",
	"destroy":   "aicplan ckpt gc removes what nothing refers to",
	"state":     "aicplan ckpt lists, checks and cleans the state",
	"watch":     "aicplan status --watch",
	"lint":      "aicplan data lint DIR, or aicplan validate PLAN",
	"run":       "aicplan apply PLAN",
	"schema":    "aicplan help gate prints the reference of a block",
	"console":   "aicplan describe PLAN --eval EXPRESSION",
	"preflight": "aicplan doctor PLAN",
}

// meant returns a suggestion for mistakes that kong does not recognise: an argument written as a flag,
// and a case given as name=value to a command with --where.
func meant(text, verb string, node *kong.Node) string {
	if flag, ok := strings.CutPrefix(text, "unknown flag --"); ok {
		flag, _, _ = strings.Cut(flag, ",")
		for _, p := range node.Positional {
			if p.Name == flag {
				return fmt.Sprintf("there is no flag --%s; it is an argument: aicplan %s %s", flag, verb, p.Summary())
			}
		}
	}

	name, value, pair := strings.Cut(strings.TrimPrefix(text, "unexpected argument "), "=")
	if pair && strings.HasPrefix(text, "unexpected argument ") && flagOf(node, "where") != nil {
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			value = strconv.Quote(value)
		}
		return fmt.Sprintf("%s; use --where '%s == %s'", text, name, value)
	}

	return text
}

// usage returns a message for a command line error, with a pointer to the help.
func usage(err error, args []string) string {
	text := strings.ReplaceAll(err.Error(), `one of "",`, "one of ")
	verb := ""
	if e, ok := errors.AsType[*kong.ParseError](err); ok && e.Context.Selected() != nil {
		node := e.Context.Selected()
		verb = strings.TrimPrefix(node.Path(), "aicplan ")
		text = meant(text, verb, node)
		for _, arg := range args {
			name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			if len(name) > 1 && strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && flagOf(node, name) != nil {
				text = fmt.Sprintf("%s: flags have two dashes; write --%s", arg, name)
				break
			}
		}
	}

	if before, _, ok := strings.Cut(text, ": time: "); ok {
		text = before + "; write it as 30s, 10m or 1h30m"
	}
	if missing, ok := strings.CutPrefix(text, "expected "); ok && examples[verb] != "" {
		text = fmt.Sprintf("%s needs %s, as in %s", verb, strings.ReplaceAll(missing, `"`, ""), examples[verb])
	}

	unknown, _, _ := strings.Cut(strings.TrimPrefix(text, "unexpected argument "), ",")
	if hint := elsewhere[unknown]; hint != "" && verb == "" {
		return fmt.Sprintf("aicplan: there is no command %s: %s", unknown, hint)
	}

	where := "Run aicplan --help for the commands, aicplan COMMAND --help for the flags of one."
	if verb != "" {
		where = "Run aicplan " + verb + " --help for its arguments and flags."
	}

	return fmt.Sprintf("aicplan: %s\n%s", text, where)
}
