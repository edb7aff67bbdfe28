package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/term"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/stages"
	"aicplan/stages/runtimes"
	"aicplan/systems"
)

// app is the state that all commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	global         globalFlags
	out            *checkedOutput    // stdout, unless that is a terminal
	endPlanning    func()            // removes the handler that exits on Ctrl-C
	secrets        *textutil.Secrets // values of sensitive variables
	sensitive      []string          // names of the root module's sensitive variables
	code           int               // exit code of a command that returned no error
	kinds          []*runtimes.Kind
	set            *stages.Set       // nil before a command needs it
	opened         *checkpoint.Store // nil before a command needs it
	provided       []io.Closer
	goesOn         bool                          // continue if the reader of the output has exited
	diagnosed      func([]config.DiagJSON) error // prints diagnostics for programs; nil if the output is for people
	behind         int                           // width of the terminal behind stdout, or 0
}

// stages returns the stage kinds of the command.
func (a *app) stages() *stages.Set {
	if a.set == nil {
		a.set = stages.With(a.kinds)
		a.provided = append(a.provided, a.set)
	}
	return a.set
}

// store returns the state folder of the command. It is opened for reading, unless the command has opened it.
func (a *app) store() (*checkpoint.Store, error) {
	if a.opened != nil {
		return a.opened, nil
	}
	return a.open(true)
}

// close closes the arguments of the command, the last one first.
func (a *app) close() {
	for _, c := range slices.Backward(a.provided) {
		_ = c.Close()
	}
}

// globalFlags are accepted by every command.
type globalFlags struct {
	StateDir     string        `help:"State folder." default:".aicplan" env:"AICPLAN_STATE_DIR" placeholder:"DIR"`
	ForeignState bool          `help:"Accept a state folder that another user owns." env:"AICPLAN_FOREIGN_STATE"`
	LockTimeout  time.Duration `help:"Wait for another aicplan, such as 10m." default:"0s" placeholder:"TIME"`
	NoColor      bool          `help:"No colours ($$NO_COLOR)."`

	LogLevel string `help:"Log level: ${enum}." default:"warn" env:"AICPLAN_LOG" enum:"trace,debug,info,warn,error,off"`
}

// planFlags select a plan and set its variables.
type planFlags struct {
	Path    string   `arg:"" help:"Plan file, or a folder of plan files." type:"path"`
	Var     []string `help:"Set a variable of the plan (repeatable)." placeholder:"NAME=VALUE" sep:"none"`
	VarFile []string `help:"Read variables from a file (repeatable)." placeholder:"FILE" sep:"none" type:"path"`
}

// notSaved returns an error if the path names a saved plan.
func (a *app) notSaved(f planFlags) error {
	if plan.IsSaved(f.Path) {
		return fmt.Errorf("%s is a saved plan, not the text of one: %s runs it, %s prints it", f.Path,
			a.command("apply", textutil.ShellWord(f.Path)), a.command("show", textutil.ShellWord(f.Path)))
	}
	return nil
}

// outFlag names the output folder.
type outFlag struct {
	OutDir string `help:"Output folder of the exports." default:"out" placeholder:"DIR" type:"path"`
}

// selectFlags select what is planned and collected.
type selectFlags struct {
	Target  []string `help:"Only these stages and what they need (glob, repeatable)." placeholder:"ADDRESS" sep:"none"`
	Exclude []string `help:"Not these stages and what needs them (glob, repeatable)." placeholder:"ADDRESS" sep:"none"`
	Replace []string `help:"Run these stages again (glob, repeatable)." placeholder:"ADDRESS" sep:"none"`

	Limit int `help:"At most N cases of every grid." least:"1" is:"a number from 1, and without it there is no limit"`

	Smoke bool   `help:"A handful of cases of every grid."`
	Retry string `help:"Try cases again: failed, tripped." enum:",failed,tripped" default:"" placeholder:"WHICH"`
}

// priceFlag belongs to the commands that print the cost of a plan.
type priceFlag struct {
	Gpus  int     `help:"Estimate the time for N GPUs (default: those of a node)." least:"1" is:"a number of GPUs from 1"`
	Price float64 `help:"Price of a GPU hour, to estimate the cost." env:"AICPLAN_GPU_HOUR_PRICE" placeholder:"AMOUNT"`
}

// defaultSeed is the seed of random samples.
const defaultSeed = 42

// given returns the first flag without its default value, or "".
func (s selectFlags) given() string {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"--target", len(s.Target) > 0}, {"--exclude", len(s.Exclude) > 0}, {"--replace", len(s.Replace) > 0},
		{"--limit", s.Limit > 0}, {"--smoke", s.Smoke}, {"--retry", s.Retry != ""},
	} {
		if f.set {
			return f.name
		}
	}

	return ""
}

func (s selectFlags) options() plan.Options {
	return plan.Options{
		Targets: s.Target, Excludes: s.Exclude, Replace: s.Replace,
		Stage: stage.Options{Limit: s.Limit, Smoke: s.Smoke, Seed: defaultSeed, Retry: s.Retry},
	}
}

// load reads a plan and prints its diagnostics. It returns an error if one of them is an error.
func (a *app) load(f planFlags) (*config.Config, error) {
	if err := a.notSaved(f); err != nil {
		return nil, err
	}
	cfg, diags := config.Load(a.loadOptions(f))
	a.hide(cfg)
	return cfg, a.report(cfg, diags)
}

func (a *app) loadOptions(f planFlags) config.Options {
	all := a.stages()
	return config.Options{
		Path: f.Path, Kinds: all.Kinds, Runtimes: all.Runtimes(), Services: all.Services(),
		Vars: f.Var, VarFiles: f.VarFile, Environ: a.environ, Systems: loadSystem,
	}
}

func loadSystem(name, file string) (*systems.Spec, error) {
	if file != "" {
		return systems.LoadFile(file)
	}
	return systems.Load(name)
}

// report prints diagnostics. If one of them is an error, it returns an exitError without an error.
func (a *app) report(cfg *config.Config, diags hcl.Diagnostics) error {
	if len(diags) == 0 {
		return nil
	}

	var files map[string]*hcl.File
	if cfg != nil {
		files = cfg.Files()
	}
	a.diagnose(files, diags)
	if diags.HasErrors() && a.diagnosed != nil {
		if err := a.diagnosed(diagsJSON(files, diags)); err != nil {
			return err
		}
	}

	return exitIf(diags.HasErrors(), run.ExitError)
}

// diagnose prints diagnostics. An error of stderr cannot be reported.
func (a *app) diagnose(files map[string]*hcl.File, diags hcl.Diagnostics) {
	_ = config.WriteDiagnostics(a.stderr, files, diags, a.width(), a.colorErr())
}

// open opens the state folder. Each warning is printed once. A label distinguishes concurrent writers.
func (a *app) open(readOnly bool, label ...string) (*checkpoint.Store, error) {
	var mu sync.Mutex
	said := map[string]bool{}
	opts := reading(readOnly)
	opts.Foreign, opts.Label = a.global.ForeignState, strings.Join(label, "")
	opts.Warn = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if !said[line] {
			fmt.Fprintln(a.stderr, "Warning:", line)
		}
		said[line] = true
	}

	store, err := checkpoint.Open(a.global.StateDir, opts)
	if err == nil {
		a.opened, a.provided = store, append(a.provided, store)
	}
	return store, err
}

// reading returns the options for opening a state folder. All commands use the same check for damaged
// records.
func reading(readOnly bool) checkpoint.Options {
	return checkpoint.Options{ReadOnly: readOnly, ValidStage: plan.ReadableRecord}
}

// plan loads a plan and builds it.
func (a *app) plan(ctx context.Context, f planFlags, opts plan.Options) (*plan.Plan, error) {
	store, cfg, err := a.configured(f)
	if err != nil {
		return nil, err
	}

	p, diags := plan.Build(ctx, cfg, store, opts)
	return p, a.report(cfg, diags)
}

// configured returns the state folder, and a plan that was read.
func (a *app) configured(f planFlags) (*checkpoint.Store, *config.Config, error) {
	store, err := a.store()
	if err != nil {
		return nil, nil, err
	}
	cfg, err := a.load(f)
	return store, cfg, err
}

// planStage plans the stage at an address and what it needs. With cases, the plan examines the stage's single cases
// even if a checkpoint exists.
func (a *app) planStage(f planFlags, address string, cases bool) (*plan.Stage, error) {
	store, cfg, err := a.configured(f)
	if err != nil {
		return nil, err
	}

	in, err := cfg.Find(address)
	if err != nil {
		return nil, err
	}

	opts := plan.Options{Targets: []string{in.Address}}
	if cases {
		opts.Replace = opts.Targets
	}

	p, diags := plan.Build(context.Background(), cfg, store, opts)
	return p.Stage(in.Address), a.report(cfg, diags)
}

// width returns the width for text on stderr: COLUMNS, the terminal's width, or 80.
func (a *app) width() uint {
	return uint(max(cmp.Or(a.asked(), terminalWidth(a.stderr), columns), narrowest))
}

// isTerminal reports whether a reader or writer is a terminal.
func (a *app) isTerminal(rw any) bool {
	if w, ok := rw.(io.Writer); ok {
		rw = textutil.Raw(w)
	}
	f, ok := rw.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *app) colorErr() bool { return a.colors(a.stderr) }
func (a *app) colorOut() bool { return a.colors(a.stdout) }

// colors follows no-color.org: any text in NO_COLOR but the empty one turns colours off.
func (a *app) colors(w io.Writer) bool {
	return !a.global.NoColor && os.Getenv("NO_COLOR") == "" && a.isTerminal(w)
}

// json prints v as indented JSON.
func (a *app) json(v any) error { return textutil.WriteJSON(a.stdout, v) }

// mayBecomeDir returns an error if dir cannot be created because a file is in the way. It is called
// before anything is measured.
func mayBecomeDir(dir string) error {
	if at := fileOnTheWay(dir); at != "" {
		return fmt.Errorf("exports cannot go to %s: %s is a file; choose another folder with --out-dir", dir, at)
	}
	return nil
}
