package main

import (
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"aicplan/engine/run"
	"aicplan/sink/base/fileutil"
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
	if e := examples()[verb]; e != "" && !strings.Contains(detail, "  aicplan ") {
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

//go:embed examples.json
var examplesJSON []byte

// examples maps every command to an example command line.
var examples = fileutil.Embedded[map[string]string]("examples.json", examplesJSON)

//go:embed elsewhere.json
var elsewhereJSON []byte

// elsewhere are commands of other tools, with what to use here.
var elsewhere = fileutil.Embedded[map[string]string]("elsewhere.json", elsewhereJSON)

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
	if missing, ok := strings.CutPrefix(text, "expected "); ok && examples()[verb] != "" {
		text = fmt.Sprintf("%s needs %s, as in %s", verb, strings.ReplaceAll(missing, `"`, ""), examples()[verb])
	}

	unknown, _, _ := strings.Cut(strings.TrimPrefix(text, "unexpected argument "), ",")
	if hint := elsewhere()[unknown]; hint != "" && verb == "" {
		return fmt.Sprintf("aicplan: there is no command %s: %s", unknown, hint)
	}

	where := "Run aicplan --help for the commands, aicplan COMMAND --help for the flags of one."
	if verb != "" {
		where = "Run aicplan " + verb + " --help for its arguments and flags."
	}

	return fmt.Sprintf("aicplan: %s\n%s", text, where)
}
