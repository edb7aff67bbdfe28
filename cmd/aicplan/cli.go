package main

// cli is the command line: one field a verb, in the order of the help text.
type cli struct {
	Global globalFlags `embed:""`

	Validate   validateCmd   `cmd:"" help:"Check a plan; needs no GPU."`
	Fmt        fmtCmd        `cmd:"" help:"Rewrite plans in the canonical format."`
	Test       testCmd       `cmd:"" help:"Run the tests of plans (*.aictest.hcl); measures nothing."`
	Plan       planCmd       `cmd:"" help:"Show what would be collected; needs no GPU."`
	Apply      applyCmd      `cmd:"" help:"Collect, check and export."`
	Status     statusCmd     `cmd:"" help:"Say how far a run is."`
	Watch      watchCmd      `cmd:"" help:"Show a run until it ends."`
	Serve      serveCmd      `cmd:"" help:"Show runs on a live page."`
	Preflight  preflightCmd  `cmd:"" help:"Look at the machine as the plan's preflights do."`
	Report     reportCmd     `cmd:"" help:"Report on a finished run (HTML, Markdown, text, JSON)."`
	Failures   failuresCmd   `cmd:"" help:"Group the cases that failed, with counts and examples."`
	Publish    publishCmd    `cmd:"" help:"Commit what has been exported so far, as the plan's publish stages say."`
	Diff       diffCmd       `cmd:"" help:"Compare perf files, folders of them, or stages."`
	Data       dataCmd       `cmd:"" help:"Examine databases of perf files."`
	Show       showCmd       `cmd:"" help:"Print a stage's table, or a saved plan."`
	History    historyCmd    `cmd:"" help:"Show every try of a case: over runs, versions, devices and settings."`
	Trace      traceCmd      `cmd:"" help:"Say what part of a profiler's trace is communication."`
	GPUs       gpusCmd       `cmd:"" name:"gpus" help:"Show what GPUs do now, or offer it like a DCGM exporter."`
	Graph      graphCmd      `cmd:"" help:"Print the graph of stages (DOT, Mermaid)."`
	Describe   describeCmd   `cmd:"" help:"List a plan's variables, stages and axes."`
	Eval       evalCmd       `cmd:"" help:"Evaluate one expression in a plan."`
	Cases      casesCmd      `cmd:"" help:"Print the cases of a grid."`
	Why        whyCmd        `cmd:"" help:"Say whether a grid keeps a case, and if not, why."`
	New        newCmd        `cmd:"" help:"Write the start of something new: an op."`
	Ckpt       ckptCmd       `cmd:"" help:"Look after the checkpoints."`
	Unlock     unlockCmd     `cmd:"" help:"Remove the mark of a run that died."`
	Models     modelsCmd     `cmd:"" help:"List the models whose shapes are on file, and what each needs."`
	Doctor     doctorCmd     `cmd:"" help:"Say what this machine can measure."`
	Systems    systemsCmd    `cmd:"" help:"List, show and validate system specs."`
	Runtimes   runtimesCmd   `cmd:"" help:"List the kinds of runtimes with their options."`
	Docs       docsCmd       `cmd:"" help:"Try what Markdown pages tell to run."`
	MockServer mockServerCmd `cmd:"" name:"mock-server" help:"Be an OpenAI-compatible server, for trying load."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Completion completionCmd `cmd:"" help:"Print a shell completion script."`
	Complete   completeCmd   `cmd:"" hidden:"" help:"Say what a word of a command line may become; completion scripts ask."`
	Task       taskCmd       `cmd:"" hidden:"" help:"Measure one shard of a collect; started by jobs of an executor."`
	Worker     workerCmd     `cmd:"" hidden:"" help:"Run cases for an aicplan; started by it."`
	WorkerRank workerRankCmd `cmd:"" hidden:"" help:"Be one GPU's rank for a worker; started by it."`
}
