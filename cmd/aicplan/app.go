package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/term"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/redact"
	"aicplan/sink/visible"
	"aicplan/stages"
	"aicplan/stages/runtimes"
	"aicplan/systems"
)

// app is what every command shares.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	global         globalFlags
	out            *checkedOutput // stdout, but for a terminal
	endPlanning    func()         // from here on Ctrl-C is the run's
	secrets        *redact.Values // values of sensitive variables
	sensitive      []string       // names of those of the plan itself
	code           int            // exit code of a command that ended without error
	kinds          []runtimes.Kind
	goesOn         bool                          // though nobody reads the output any more
	diagnosed      func([]config.DiagJSON) error // tells programs of a plan with mistakes; nil where the output is for people
	behind         int                           // width of the terminal behind a stdout that is none itself; 0: ask stdout
}

// stages makes the stage kinds of one command.
func (a *app) stages() *stages.Set { return stages.With(a.kinds) }

// globalFlags are accepted by every command.
type globalFlags struct {
	StateDir    string        `help:"State folder." default:".aicplan" env:"AICPLAN_STATE_DIR" placeholder:"DIR"`
	LockTimeout time.Duration `help:"Wait so long for another aicplan, such as 10m; without it apply waits for devices only, as long as it takes." default:"0s" placeholder:"TIME"`
	NoColor     bool          `help:"No colours." env:"NO_COLOR"`
	LogLevel    string        `help:"Log to standard error: trace, debug, info, warn, error, off." default:"warn" env:"AICPLAN_LOG" enum:"trace,debug,info,warn,error,off" placeholder:"LEVEL"`
	LogJSON     bool          `name:"log-json" help:"Log lines as JSON."`
}

// planFlags choose a plan, its variables and its selection.
type planFlags struct {
	Path    string   `arg:"" help:"Plan file, or a folder of plan files." type:"path"`
	Var     []string `help:"Set a variable of the plan (repeatable)." placeholder:"NAME=VALUE" sep:"none"`
	VarFile []string `help:"Read variables from a file (repeatable)." placeholder:"FILE" sep:"none" type:"path"`
}

// notSaved tells where a saved plan goes, which is no text to read.
func (f planFlags) notSaved() error {
	if plan.IsSaved(f.Path) {
		return fmt.Errorf("%s is a saved plan, not the text of one: aicplan apply %s runs it, aicplan show %s prints it", f.Path, f.Path, f.Path)
	}
	return nil
}

// outFlag names the output folder.
type outFlag struct {
	OutDir string `help:"Output folder of the exports." default:"out" placeholder:"DIR"`
}

// selectFlags narrow what is planned and collected.
type selectFlags struct {
	Target  []string `help:"Only these stages and what they need (glob, repeatable)." placeholder:"ADDRESS" sep:"none"`
	Exclude []string `help:"Leave out these stages and all that depend on them (glob, repeatable)." placeholder:"ADDRESS" sep:"none"`
	Replace []string `help:"Run these although a checkpoint answers them (glob, repeatable)." placeholder:"ADDRESS" sep:"none"`
	Limit   *int     `help:"At most N cases of every grid." placeholder:"N"`
	Smoke   bool     `help:"A handful of cases of every grid."`
	Retry   string   `help:"Try cases of the ledger again: failed, tripped." enum:",failed,tripped" default:"" placeholder:"WHICH"`
}

// priceFlag is of the verbs that say what a plan costs.
type priceFlag struct {
	Price float64 `help:"What an hour of a GPU costs: the plan then says what measuring costs, in the same currency." env:"AICPLAN_GPU_HOUR_PRICE" placeholder:"AMOUNT"`
}

// Validate is called by kong.
func (f priceFlag) Validate() error {
	if f.Price < 0 || math.IsNaN(f.Price) || math.IsInf(f.Price, 0) {
		return fmt.Errorf("-price is %v; it is an amount from 0, such as 2.50", f.Price)
	}
	return nil
}

// defaultSeed is the seed of random samples.
const defaultSeed = 42

// given names the first flag that is not as it is by default, or "".
func (s selectFlags) given() string {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"-target", len(s.Target) > 0}, {"-exclude", len(s.Exclude) > 0}, {"-replace", len(s.Replace) > 0}, {"-limit", s.Limit != nil},
		{"-smoke", s.Smoke}, {"-retry", s.Retry != ""},
	} {
		if f.set {
			return f.name
		}
	}
	return ""
}

// Validate is called by kong.
func (s selectFlags) Validate() error {
	if s.Limit != nil && *s.Limit < 1 {
		return fmt.Errorf("-limit is %d; it is a number from 1, and without it there is no limit", *s.Limit)
	}
	return nil
}

func notNegative(flag string, n int) error {
	if n < 0 {
		return fmt.Errorf("%s is %d; it is a number from 0", flag, n)
	}
	return nil
}

func (s selectFlags) options() plan.Options {
	limit := 0
	if s.Limit != nil {
		limit = *s.Limit
	}
	return plan.Options{
		Targets: s.Target, Excludes: s.Exclude, Replace: s.Replace,
		Stage: stage.Options{Limit: limit, Smoke: s.Smoke, Seed: defaultSeed, Retry: s.Retry},
	}
}

// load reads a plan and prints its diagnostics.
func (a *app) load(f planFlags, all *stages.Set) (*config.Config, error) {
	if err := f.notSaved(); err != nil {
		return nil, err
	}
	cfg, diags := config.Load(a.loadOptions(f, all))
	a.hide(cfg)
	return cfg, a.report(cfg, diags)
}

func (a *app) loadOptions(f planFlags, all *stages.Set) config.Options {
	return config.Options{
		Path: f.Path, Kinds: all.Kinds(), Runtimes: all.Runtimes(), Services: all.Services(), Version: version, Vars: f.Var, VarFiles: f.VarFile, Environ: a.environ, Systems: loadSystem,
	}
}

func loadSystem(name, file string) (*systems.Spec, error) {
	if file != "" {
		return systems.LoadFile(file)
	}
	return systems.Load(name)
}

// report prints diagnostics; the error is quiet and set when one is an error.
func (a *app) report(cfg *config.Config, diags hcl.Diagnostics) error {
	if len(diags) == 0 {
		return nil
	}
	var files map[string]*hcl.File
	if cfg != nil {
		files = cfg.Files()
	}
	if err := config.WriteDiagnostics(a.stderr, files, diags, a.width(), a.colorErr()); err != nil {
		return err
	}
	if !diags.HasErrors() {
		return nil
	}
	if a.diagnosed != nil {
		if err := a.diagnosed(diagsJSON(files, diags)); err != nil {
			return err
		}
	}
	return &exitError{code: run.ExitError, quiet: true}
}

// open opens the state folder.
func (a *app) open(readOnly bool) (*checkpoint.Store, error) {
	var mu sync.Mutex
	said := map[string]bool{}
	opts := reading(readOnly)
	opts.Warn = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if !said[line] {
			fmt.Fprintln(a.stderr, "Warning:", line)
		}
		said[line] = true
	}
	return checkpoint.Open(a.global.StateDir, opts)
}

// reading says what can be read of a state folder: every verb takes the same for
// damaged.
func reading(readOnly bool) checkpoint.Options {
	return checkpoint.Options{ReadOnly: readOnly, ValidStage: plan.ReadableRecord}
}

// plan loads and plans in one go.
func (a *app) plan(ctx context.Context, f planFlags, opts plan.Options, all *stages.Set, store *checkpoint.Store) (*plan.Plan, error) {
	cfg, err := a.load(f, all)
	if err != nil {
		return nil, err
	}
	opts.Progress = a.planProgress()
	p, diags := plan.Build(ctx, cfg, store, opts)
	opts.Progress.Close()
	return p, a.report(cfg, diags)
}

// planProgress tells how far planning is: after a second on a terminal, and
// rarely elsewhere, where it becomes part of a log.
func (a *app) planProgress() *plan.Progress {
	every := 5 * time.Second
	terminal := a.isTerminal(a.stderr)
	if terminal {
		every = time.Second
	}
	return plan.NewProgress(every, func(text string, last bool) {
		switch {
		case !terminal && !last:
			fmt.Fprintln(a.stderr, text)
		case terminal && last:
			fmt.Fprint(visible.Raw(a.stderr), "\r\x1b[K")
		case terminal:
			fmt.Fprint(visible.Raw(a.stderr), "\r\x1b[K"+visible.Line(text))
		}
	})
}

// width is the terminal's, or 80.
func (a *app) width() uint {
	if n := a.asked(); n > 0 {
		return uint(max(n, narrowest))
	}
	if f, ok := visible.Raw(a.stderr).(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return uint(max(w, narrowest))
		}
	}
	return columns
}

func (a *app) isTerminal(w io.Writer) bool {
	f, ok := visible.Raw(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *app) colorErr() bool { return !a.global.NoColor && a.isTerminal(a.stderr) }
func (a *app) colorOut() bool { return !a.global.NoColor && a.isTerminal(a.stdout) }

// json prints v, indented.
func (a *app) json(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// absDir makes the folder for exports absolute.
func absDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("output folder %s: %w", dir, err)
	}
	return abs, nil
}

// mayBecomeDir finds out before anything is measured that exports would have
// nowhere to go.
func mayBecomeDir(dir string) error {
	if at := fileOnTheWay(dir); at != "" {
		return fmt.Errorf("exports cannot go to %s: %s is a file; choose another folder with -out-dir", dir, at)
	}
	return nil
}

// fileOnTheWay is the part of dir that is a file, "" where it can be made or is
// there.
func fileOnTheWay(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			return at
		case err == nil, at == filepath.Dir(at):
			return ""
		}
	}
}
