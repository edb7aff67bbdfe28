package main

import (
	"regexp"
	"strings"

	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/sink/base/textutil"
)

// command returns a command that the user can copy, for the state folder in use.
func (a *app) command(words ...string) string {
	return a.inState(a.global.StateDir, "aicplan "+strings.Join(words, " "))
}

// inState adds a state folder to a command, unless it is the one in use and the default.
func (a *app) inState(dir, command string) string {
	if dir == ".aicplan" && a.global.StateDir == dir {
		return command
	}
	return command + " --state-dir " + typed(dir)
}

// planCommand is command for a plan: it adds the variables, and the output folder if it is not the default.
func (a *app) planCommand(in config.Inputs, outDir string, words ...string) string {
	text := a.command(words...)
	if outDir != "" && shown(outDir) != "out" {
		text += " --out-dir " + typed(outDir)
	}
	for _, file := range in.VarFiles {
		text += " --var-file " + typed(file)
	}
	for _, kv := range in.Vars {
		text += " --var " + textutil.ShellWord(kv)
	}
	return text
}

// applyPlan stands for applyCommand in texts of the stages, which do not know the plan.
const applyPlan = "aicplan apply PLAN"

// applyCommand returns the command that applies a plan again.
func (a *app) applyCommand(p *plan.Plan) string {
	return a.planCommand(p.Config.Inputs(), p.Options.OutDir, "apply", typed(p.Config.Path))
}

// stateCommand matches the commands in texts of the engine and the stages, which do not know the flags.
var stateCommand = regexp.MustCompile(`aicplan (cancel|ckpt (gc|list|verify)|report --list)( --state-dir)?`)

// here adds the state folder to the commands of a text.
func (a *app) here(text string) string {
	return stateCommand.ReplaceAllStringFunc(text, func(c string) string {
		if strings.HasSuffix(c, " --state-dir") {
			return c
		}
		return a.inState(a.global.StateDir, c)
	})
}
