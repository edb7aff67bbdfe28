package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"aicplan/engine/run"
	"aicplan/sink/lint"
	"aicplan/sink/tree"
)

type dataCmd struct {
	Lint   dataLintCmd   `cmd:"" help:"Examine a database of perf files."`
	Matrix dataMatrixCmd `cmd:"" help:"List the models that a database covers."`

	ReadBack dataReadBackCmd `cmd:"" name:"read-back" help:"Query a database through the installed consumer."`
}

type dataLintCmd struct {
	Dir   string   `arg:"" optional:"" help:"The database's folder." type:"path"`
	Rule  []string `help:"Only these rules (repeatable)." placeholder:"RULE" sep:"none"`
	Allow []string `help:"Let so many occurrences of a rule through (repeatable)." placeholder:"RULE=N" sep:"none"`
	JSON  bool     `name:"json" help:"Print as JSON."`
	Rules bool     `help:"List the rules instead."`
}

// shownRows is the number of rows that are printed for each finding.
const shownRows = 5

// Run examines a database. It exits with 4 if there are more errors than --allow permits.
func (c *dataLintCmd) Run(a *app) error {
	if c.Rules {
		return c.rules(a)
	}
	if c.Dir == "" {
		return fmt.Errorf("name the folder of the database; aicplan data lint --rules lists the rules")
	}

	allow := map[string]int{}
	for _, s := range c.Allow {
		name, n, ok := strings.Cut(s, "=")
		count, err := strconv.Atoi(n)
		if !ok || err != nil || count < 0 {
			return fmt.Errorf("--allow %s: write RULE=N, N being a number from 0", s)
		}
		allow[name] = count
	}

	rep, err := lint.Run(context.Background(), c.Dir, lint.Options{Rules: c.Rule, Allow: allow})
	if err != nil {
		return err
	}

	if c.JSON {
		err = a.json(rep)
	} else {
		var text strings.Builder
		err = rep.WriteText(&text, shownRows)
		a.printf("%s", text.String())
	}

	if err != nil {
		return err
	}

	return exitIf(rep.Failed(), run.ExitGate)
}

func (c *dataLintCmd) rules(a *app) error {
	if c.JSON {
		return a.json(lint.Rules())
	}

	for _, r := range lint.Rules() {
		a.hanging(28, fmt.Sprintf("%-20s %s", r.Name, r.Severity), r.Summary)
	}

	return nil
}

type dataMatrixCmd struct {
	Dir     string `arg:"" help:"The database's folder." type:"path"`
	Models  string `required:"" help:"YAML or JSON file with a list of model shapes." placeholder:"FILE" type:"path"`
	JSON    bool   `name:"json" help:"Print as JSON."`
	Require bool   `help:"Exit 4 when a model is covered at no degree of parallelism."`
}

// Run prints which models have all the ops that they need.
func (c *dataMatrixCmd) Run(a *app) error {
	models, err := tree.ReadModels(c.Models)
	if err != nil {
		return err
	}

	m, err := tree.BuildMatrix(c.Dir, models)
	if err != nil {
		return err
	}

	if c.JSON {
		err = a.json(m)
	} else {
		err = m.WriteMarkdown(a.stdout)
	}

	if err != nil || !c.Require {
		return err
	}

	covered := map[string]bool{}
	for _, cell := range m.Cells {
		if cell.Answer == tree.Yes || cell.Answer == tree.Interpolated {
			covered[cell.Model] = true
		}
	}

	missing := false
	for _, name := range m.Models {
		if !covered[name] {
			missing = true
			fmt.Fprintf(a.stderr, "Not covered: %s\n", name)
		}
	}

	return exitIf(missing, run.ExitGate)
}
