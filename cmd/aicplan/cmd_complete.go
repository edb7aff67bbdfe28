package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/systems"
)

// completeCmd answers completion scripts. It says what a word may become, one a
// line, and nothing where file names are meant or nothing is known.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// asked is a command line up to the word that is to be completed.
type asked struct {
	node  *kong.Node
	flag  *kong.Flag // the word is its value; nil for an argument
	args  []string   // before the word, without flags
	state string
	cur   string
}

// Run never fails: a shell would show the error in the middle of a line.
func (c *completeCmd) Run(a *app, parser *kong.Kong) error {
	q := askedOf(parser, c.Words)
	if q.state != "" {
		a.global.StateDir = q.state
	}
	for _, word := range a.candidates(parser, q) {
		if strings.HasPrefix(word, q.cur) && !strings.ContainsAny(word, "\n\r") {
			fmt.Fprintln(a.stdout, word)
		}
	}
	return nil
}

// askedOf reads words as far as they go. bash makes three words of "-format=csv".
func askedOf(parser *kong.Kong, words []string) asked {
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	q := asked{node: parser.Model.Node}
	if len(words) == 0 {
		return q
	}
	last := len(words) - 1
	q.cur = strings.TrimLeft(words[last], `"'`)
	if q.cur == "=" {
		q.cur = ""
	}
	for _, word := range words[:last] {
		if word == "=" {
			continue
		}
		word = strings.Trim(word, `"'`)
		if q.flag != nil {
			if q.flag.Name == "state-dir" {
				q.state = word
			}
			q.flag = nil
			continue
		}
		if strings.HasPrefix(word, "-") {
			name, _, whole := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if f := flagOf(q.node, name); f != nil && !f.IsBool() && !whole {
				q.flag = f
			}
			continue
		}
		at := slices.IndexFunc(q.node.Children, func(n *kong.Node) bool { return n.Name == word })
		if at >= 0 && len(q.args) == 0 {
			q.node = q.node.Children[at]
			continue
		}
		q.args = append(q.args, word)
	}
	return q
}

func flagOf(n *kong.Node, name string) *kong.Flag {
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			if f.Name == name {
				return f
			}
		}
	}
	return nil
}

// candidates are the words that fit the place, whatever the word begins with.
func (a *app) candidates(parser *kong.Kong, q asked) []string {
	if q.flag != nil {
		return a.flagValues(q)
	}
	if strings.HasPrefix(q.cur, "-") {
		return nil // scripts have the flags themselves
	}
	if len(q.node.Children) > 0 {
		var names []string
		for _, n := range q.node.Children {
			if !n.Hidden {
				names = append(names, n.Name)
			}
		}
		return names
	}
	at := min(len(q.args), len(q.node.Positional)-1)
	if at < 0 {
		return nil
	}
	pos := q.node.Positional[at]
	if pos.Enum != "" {
		return strings.Split(pos.Enum, ",")
	}
	planned := q.node.Positional[0].Name == "path"
	switch {
	case pos.Name == "address" && planned:
		kind := "grid"
		if q.node.Path() == "ckpt import" {
			kind = "collect"
		}
		return a.plannedAddresses(q, kind)
	case slices.Contains([]string{"address", "addresses", "what", "a", "b"}, pos.Name):
		return a.storedAddresses()
	case pos.Name == "values" && planned && len(q.args) >= 2:
		return a.caseValues(q)
	case pos.Name == "run":
		return append(a.runIDs(), "latest")
	case strings.HasPrefix(q.node.Path(), "systems "):
		return systems.List()
	}
	return nil
}

func (a *app) flagValues(q asked) []string {
	if q.flag.Enum != "" {
		return slices.DeleteFunc(strings.Split(q.flag.Enum, ","), func(s string) bool { return s == "" })
	}
	planned := len(q.node.Positional) > 0 && q.node.Positional[0].Name == "path"
	switch q.flag.Name {
	case "target", "exclude", "replace", "stage":
		if planned {
			return a.plannedAddresses(q, "")
		}
		return a.storedAddresses()
	case "var":
		p := a.quietPlan(q)
		if p == nil {
			return nil
		}
		var names []string
		for _, v := range p.Config.Variables() {
			names = append(names, v.Name+"=")
		}
		return names
	case "since":
		return a.runIDs()
	case "columns", "sort", "by", "between", "key", "metric":
		return a.storedColumns(q)
	}
	return nil
}

// quietPlan is the plan that the line names; nil where it cannot be made.
func (a *app) quietPlan(q asked) *plan.Plan {
	if len(q.args) == 0 {
		return nil
	}
	quiet := *a
	quiet.stderr = discarded{}
	all := quiet.stages()
	defer all.Close()
	store, err := quiet.open(true)
	if err != nil {
		return nil
	}
	defer store.Close()
	p, err := quiet.plan(context.Background(), planFlags{Path: q.args[0]}, plan.Options{}, all, store)
	if err != nil {
		return nil
	}
	return p
}

type discarded struct{}

func (discarded) Write(p []byte) (int, error) { return len(p), nil }

// plannedAddresses are those of the plan's stages; of one kind where it is given.
func (a *app) plannedAddresses(q asked, kind string) []string {
	p := a.quietPlan(q)
	if p == nil {
		return nil
	}
	var out []string
	for _, s := range p.Stages {
		if kind == "" || s.Instance.Kind.Name == kind {
			out = append(out, s.Address())
		}
	}
	return out
}

// caseValues are what a case of the grid can be named by: m=, n=.
func (a *app) caseValues(q asked) []string {
	p := a.quietPlan(q)
	if p == nil {
		return nil
	}
	var out []string
	for _, s := range p.Stages {
		if s.Address() != q.args[1] || s.Plan == nil || s.Plan.Waterfall == nil {
			continue
		}
		for _, x := range s.Plan.Waterfall.Axes {
			out = append(out, x.Name+"=")
		}
	}
	return out
}

func (a *app) storedAddresses() []string {
	store, err := a.open(true)
	if err != nil {
		return nil
	}
	defer store.Close()
	all, err := store.Stages()
	if err != nil {
		return nil
	}
	var out []string
	for _, rec := range all {
		out = append(out, rec.Address)
	}
	return out
}

func (a *app) runIDs() []string {
	store, err := a.open(true)
	if err != nil {
		return nil
	}
	defer store.Close()
	all, err := store.Runs()
	if err != nil {
		return nil
	}
	var out []string
	for _, r := range all {
		out = append(out, r.ID)
	}
	return out
}

// storedColumns are the columns of the stage that the line names. A list of them
// is one word, of which the last is completed.
func (a *app) storedColumns(q asked) []string {
	store, err := a.open(true)
	if err != nil || len(q.args) == 0 {
		return nil
	}
	defer store.Close()
	rec, err := readStage(store, q.args[0])
	if err != nil {
		return nil
	}
	d, err := run.LoadDataset(store, rec)
	if err != nil || d.Table == nil {
		return nil
	}
	before := ""
	if q.flag.Target.Kind() == reflect.Slice {
		before = q.cur[:strings.LastIndex(q.cur, ",")+1]
	}
	var out []string
	for _, f := range d.Table.Schema().Fields() {
		out = append(out, before+f.Name)
	}
	return out
}
