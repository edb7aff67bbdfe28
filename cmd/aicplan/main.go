// Command aicplan collects GPU performance data from declarative plans.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/alecthomas/kong"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/run"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/stages/runtimes"
)

// version is the release.
const version = "0.1.0"

// commit is the git commit of the source, set by the linker.
var commit string

func main() {
	tuneCollector()
	os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Main runs one command line and returns its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return mainWith(runtimes.Kinds(), args, stdin, stdout, stderr)
}

// mainWith is Main with other kinds of runtimes.
func mainWith(kinds []*runtimes.Kind, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cli := &cli{}
	app := &app{stdin: stdin, environ: os.Environ(), kinds: kinds}
	terminal := app.isTerminal(stdout)
	if !terminal { // progress bars need the terminal itself
		app.out = &checkedOutput{w: stdout}
		stdout = app.out
	}

	app.endPlanning = func() {}
	if len(args) == 0 || !strings.HasPrefix(args[0], "worker") { // the engine ends its workers
		app.endPlanning = endOnInterrupt()
	}

	defer func() { app.endPlanning() }()
	// Escape control characters in text from workers, plans and files.
	stdout = &textutil.Writer{W: stdout, Colors: terminal}
	stderr = &textutil.Writer{W: stderr, Colors: app.isTerminal(stderr)}
	app.stdout, app.stderr = stdout, stderr
	for _, entry := range app.environ {
		// A CI job sets a variable that it does not have to the empty text.
		name, value, _ := strings.Cut(entry, "=")
		if value == "" && strings.HasPrefix(name, "AICPLAN_") && !strings.HasPrefix(name, config.EnvPrefix) {
			os.Unsetenv(name)
		}
	}

	args = negatives(args)
	grammar, command := cli.grammar(args)
	parser, err := kong.New(grammar, command, kong.Name("aicplan"),
		kong.Description("Collect GPU performance data by declarative plans."),
		kong.Writers(stdout, stderr), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 80}),
		kong.Help(app.help), kong.PostBuild(describeFlags), kong.ValueFormatter(withDefault), kong.Bind(app),
		kong.BindSingletonProvider(app.store),
		kong.Exit(func(code int) { panic(exitPanic(code)) }))

	if err != nil {
		panic(err) // cannot happen: the command structs are constant
	}

	return parse(parser, app, cli, args)
}

// exitPanic carries the exit code of kong (after --help) out of its parser.
type exitPanic int

func parse(parser *kong.Kong, app *app, cli *cli, args []string) (code int) {
	defer func() {
		if p := recover(); p != nil {
			e, ok := p.(exitPanic)
			if !ok {
				fmt.Fprintf(app.stderr, "Error: internal error: %v\nThis is a mistake in aicplan, not in your plan. Please "+
					"report it with the lines below.\n\n%s",
					p, debug.Stack())
				e = run.ExitError
			}
			code = int(e)
		}
		code = app.outputLost(code)
	}()

	args = aliases(args)
	if len(args) == 1 && slices.Contains([]string{"--version", "-V", "version"}, args[0]) {
		fmt.Fprintln(app.stdout, versionText())
		return 0
	}

	ctx, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(app.stderr, usage(err, args))
		return run.ExitError
	}

	app.global = cli.Global
	defer app.close()
	if err := ctx.Run(); err != nil {
		return app.fail(err)
	}

	return app.code
}

// aliases maps no arguments, and help alone, to --help.
func aliases(args []string) []string {
	if len(args) == 0 || len(args) == 1 && args[0] == "help" {
		return []string{"--help"}
	}
	return args
}

// versionText describes the build.
func versionText() string {
	text := "aicplan " + version
	if commit != "" {
		text += " (" + commit + ")"
	}
	return fmt.Sprintf("%s %s %s/%s", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// negatives joins a flag and a negative number behind it, which kong would take for another flag.
func negatives(args []string) []string {
	out := make([]string, 0, len(args))
	for i, a := range args {
		if a == "--" {
			return append(out, args[i:]...)
		}

		if last := len(out) - 1; last >= 0 && negative.MatchString(a) && strings.HasPrefix(out[last], "--") &&
			!strings.Contains(out[last], "=") {
			out[last] += "=" + a
			continue
		}

		out = append(out, a)
	}

	return out
}

var negative = regexp.MustCompile(`^-[0-9.]+$`)

// exitError ends a command with its exit code. The reason was already printed.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exitIf returns an exitError if a command failed in a way that it has printed.
func exitIf(failed bool, code int) error {
	if failed {
		return exitError(code)
	}
	return nil
}

// fail prints err and returns its exit code.
func (a *app) fail(err error) int {
	if e, ok := errors.AsType[exitError](err); ok {
		return int(e)
	}

	code := run.ExitError
	if errors.Is(err, checkpoint.ErrLocked) || errors.Is(err, fileutil.ErrBusy) {
		code = run.ExitLocked
	}

	fmt.Fprintf(a.stderr, "Error: %s\n", a.here(err.Error()))
	return code
}

// checkedOutput records an error of writing to standard output, which most commands do not check
// themselves.
type checkedOutput struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

func (o *checkedOutput) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err = err
	}
	return n, err
}

// outputLost returns code, or run.ExitError if standard output is incomplete, so that a reader does not
// take partial output for all of it.
func (a *app) outputLost(code int) int {
	if a.out == nil {
		return code
	}

	a.out.mu.Lock()
	defer a.out.mu.Unlock()
	if a.out.err == nil || code == run.ExitError {
		return code
	}

	if a.goesOn && errors.Is(a.out.err, syscall.EPIPE) {
		fmt.Fprintln(a.stderr, "Note: whatever read the output has gone; the run went on without it. "+
			a.command("report")+" shows the result.")
		return code
	}

	fmt.Fprintf(a.stderr, "Error: standard output cannot be written, so what was printed is not whole: %v\n", a.out.err)
	return run.ExitError
}
