package main

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// cli is the command line.
type cli struct {
	common
	commands
}

// common has the flags of all commands.
type common struct {
	Global globalFlags `embed:""`
}

// commands are the commands in the order of the help text.
type commands struct {
	Validate_  validateCmd   `cmd:"" name:"validate" help:"Check a plan, or a system spec (.yaml); needs no GPU."`
	Fmt        fmtCmd        `cmd:"" help:"Rewrite plans in the canonical format."`
	Test       testCmd       `cmd:"" help:"Run the tests of plans (*.aictest.hcl), or the servers of Markdown pages."`
	Plan       planCmd       `cmd:"" help:"Show what would be collected; needs no GPU."`
	Apply      applyCmd      `cmd:"" help:"Collect, check and export."`
	Status     statusCmd     `cmd:"" help:"Show the progress of a run."`
	Cancel     cancelCmd     `cmd:"" help:"Cancel the jobs that applies have submitted to a cluster."`
	Serve      serveCmd      `cmd:"" help:"Show runs on a live page."`
	Report     reportCmd     `cmd:"" help:"Report on a finished run (HTML, Markdown, JSON)."`
	Failures   failuresCmd   `cmd:"" help:"Group the cases that failed, with counts and examples."`
	Publish    publishCmd    `cmd:"" help:"Commit the exports that have ended, as the plan's publish stages describe."`
	Diff       diffCmd       `cmd:"" help:"Compare perf files, folders of them, or stages."`
	Data       dataCmd       `cmd:"" help:"Examine databases of perf files."`
	Show       showCmd       `cmd:"" help:"Print a stage's table, or a saved plan."`
	Trace      traceCmd      `cmd:"" help:"Print the share of communication in profiler traces."`
	Describe   describeCmd   `cmd:"" help:"List a plan's variables, stages and axes, or evaluate an expression."`
	Cases      casesCmd      `cmd:"" help:"Print the cases of a grid."`
	Why        whyCmd        `cmd:"" help:"Explain whether a grid keeps a case."`
	New        newCmd        `cmd:"" help:"Create the files of a new op."`
	Ckpt       ckptCmd       `cmd:"" help:"Manage the checkpoints."`
	Doctor     doctorCmd     `cmd:"" help:"Report what this machine can measure, or run the preflight checks of a plan."`
	Systems    systemsCmd    `cmd:"" help:"List the shipped system specs, print one, or make one of this machine."`
	MockServer mockServerCmd `cmd:"" name:"mock-server" help:"Serve an OpenAI-compatible API for trying load."`
	Help_      helpCmd       `cmd:"" name:"help" help:"Print a page of the reference, or the help of a command."`
	Completion completionCmd `cmd:"" help:"Print a shell completion script."`
	Complete   completeCmd   `cmd:"" hidden:"" help:"Print the completions of a command line."`
	Task       taskCmd       `cmd:"" hidden:"" help:"Measure one shard of a collect; started by jobs of an executor."`
	Worker     workerCmd     `cmd:"" hidden:"" help:"Run cases for the engine; started by it."`
	Generator  generatorCmd  `cmd:"" hidden:"" help:"Send a share of a load; started by its first generator."`
	WorkerRank workerRankCmd `cmd:"" hidden:"" help:"Run one GPU's rank for a worker; started by it."`
}

// grammar returns what kong builds a parser from. If a command comes first, it is that command alone, because
// building all of them is a fifth of the time in which the program starts. Help and completion know all commands.
func (c *cli) grammar(args []string) (any, kong.Option) {
	all := reflect.ValueOf(&c.commands).Elem()
	for i := range all.NumField() {
		f := all.Type().Field(i)
		name := strings.ToLower(cmp.Or(f.Tag.Get("name"), f.Name))
		if len(args) > 0 && name == args[0] && !slices.Contains([]string{"help", "completion", "complete"}, name) {
			return &c.common, kong.DynamicCommand(name, f.Tag.Get("help"), "", all.Field(i).Addr().Interface(), string(f.Tag))
		}
	}

	return c, kong.OptionFunc(func(*kong.Kong) error { return nil })
}

// Validate implements kong's validation. It checks that numbers after flags are finite and not below the flag's tag
// least, which is 0 by default. The tag is replaces the wording of the message.
func (*common) Validate(ctx *kong.Context) error {
	float := reflect.TypeFor[float64]()
	for _, f := range ctx.Flags() {
		if !f.Set || !f.Target.CanConvert(float) {
			continue
		}

		least, _ := f.Tag.GetFloat("least")
		if n := f.Target.Convert(float).Float(); !(n >= least) || math.IsInf(n, 1) {
			words := map[string]string{"AMOUNT": "an amount", "TIME": "a time", "SHARE": "a share"}
			return fmt.Errorf("--%s is %v; it is %s", f.Name, f.Target, cmp.Or(f.Tag.Get("is"),
				fmt.Sprintf("%s from %v", cmp.Or(words[f.PlaceHolder], "a number"), least)))
		}
	}

	return nil
}
