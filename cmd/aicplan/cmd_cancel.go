package main

import (
	"context"
	"fmt"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/stages/executors"
)

type cancelCmd struct {
	Stage string `arg:"" optional:"" help:"Address of a collect; by default all with jobs in the queue."`
	JSON  bool   `name:"json" help:"Print as JSON."`
}

// Help is printed below the summary.
func (cancelCmd) Help() string {
	return `The rows that the jobs have stored are kept. An apply that follows the jobs ends
its collect; the next one submits what is left.

Examples:
  aicplan cancel
  aicplan --state-dir /shared/state cancel collect.gemm`
}

// Run cancels the jobs of the state folder.
func (c *cancelCmd) Run(a *app, store *checkpoint.Store) error {
	cancelled, err := executors.Cancel(context.Background(), store.Dir, c.Stage)
	if c.JSON && err == nil {
		return a.json(struct {
			Cancelled []executors.Cancelled `json:"cancelled"`
		}{cancelled})
	}

	for _, s := range cancelled {
		fmt.Fprintf(a.stdout, "%s: cancelled the jobs %s\n", s.Stage, strings.Join(s.Jobs, " "))
	}
	if err == nil && len(cancelled) == 0 {
		fmt.Fprintln(a.stdout, "No jobs of this state folder are in the queue.")
	}
	return err
}
