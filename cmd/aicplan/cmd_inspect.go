package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/stage"
)

type describeCmd struct {
	planFlags `embed:""`
	Graph     string `help:"Print the graph of stages instead: dot, mermaid." enum:",dot,mermaid" default:"" placeholder:"FORMAT"`
	JSON      bool   `name:"json" help:"Print as JSON."`
}

// description is the output of describe.
type description struct {
	Variables []variableInfo `json:"variables"`
	Modules   []string       `json:"modules"`
	Runtimes  []runtimeInfo  `json:"runtimes"`
	Stages    []stageInfo    `json:"stages"`
	Outputs   []string       `json:"outputs"`
}

type variableInfo struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Default     string `json:"default,omitempty"`
	Required    bool   `json:"required,omitempty"`
	Description string `json:"description,omitempty"`
}

type stageInfo struct {
	Address     string     `json:"address"`
	Kind        string     `json:"kind"`
	Summary     string     `json:"summary"`
	Description string     `json:"description,omitempty"`
	Axes        []axisInfo `json:"axes,omitempty"`
	DependsOn   []string   `json:"depends_on,omitempty"`
	Place       string     `json:"place"`
}

// runtimeInfo is a runtime of the plan with the schema of its kind.
type runtimeInfo struct {
	Address string   `json:"address"`
	Place   string   `json:"place"`
	Kind    kindInfo `json:"kind"`
}

type axisInfo struct {
	Name        string `json:"name"`
	Size        int    `json:"size"`
	Description string `json:"description,omitempty"`
}

// Run prints the parts of a plan.
func (c *describeCmd) Run(a *app) error {
	all := a.stages()
	defer all.Close()
	if c.Graph != "" {
		cfg, err := a.load(c.planFlags, all)
		if err != nil {
			return err
		}
		return a.graph(cfg, c.Graph)
	}

	store, err := a.open(true)
	if err != nil {
		return err
	}

	defer store.Close()
	p, err := a.plan(context.Background(), c.planFlags, plan.Options{}, all, store)
	if err != nil {
		return err
	}

	d, err := describe(p, all.Runtimes())
	if err != nil {
		return err
	}

	if c.JSON {
		return a.json(d)
	}

	a.describe(d)
	return nil
}

func describe(p *plan.Plan, kinds []stage.RuntimeKind) (*description, error) {
	d := &description{Modules: p.Config.Modules()}
	for _, v := range p.Config.Variables() {
		info := variableInfo{Name: v.Name, Type: config.TypeText(v.Type), Description: v.Description,
			Required: v.Default == cty.NilVal}
		if v.Default != cty.NilVal {
			info.Default = valueText(v.Default)
		}
		d.Variables = append(d.Variables, info)
	}

	for _, rt := range p.Config.Runtimes() {
		i := slices.IndexFunc(kinds, func(k stage.RuntimeKind) bool { return k.Name == rt.Kind })
		d.Runtimes = append(d.Runtimes, runtimeInfo{
			Address: rt.Address, Place: fmt.Sprintf("%s:%d", rt.Range.Filename, rt.Range.Start.Line),
			Kind: kindInfoOf(&kinds[i]),
		})
	}

	for _, s := range p.Stages {
		in := s.Instance
		info := stageInfo{
			Address: in.Address, Kind: in.Kind.Name, Summary: in.Kind.Summary, Description: in.Description, DependsOn: in.Deps,
			Place: fmt.Sprintf("%s:%d", in.Range.Filename, in.Range.Start.Line),
		}

		if s.Plan != nil && s.Plan.Waterfall != nil {
			for _, x := range s.Plan.Waterfall.Axes {
				info.Axes = append(info.Axes, axisInfo{Name: x.Name, Size: x.Size})
			}
		}

		d.Stages = append(d.Stages, info)
	}

	outs, diags := p.Config.Outputs()
	if diags.HasErrors() {
		return nil, diags
	}

	for _, o := range outs {
		d.Outputs = append(d.Outputs, o.Name)
	}

	return d, nil
}

func (a *app) describe(d *description) {
	if len(d.Variables) > 0 {
		fmt.Fprintln(a.stdout, "Variables:")
	}

	for _, v := range d.Variables {
		def := "default " + v.Default
		if v.Required {
			def = "must be given"
		}
		a.hanging(21, "  "+v.Name, v.Type+", "+def)
		if v.Description != "" {
			a.hanging(21, "", v.Description)
		}
	}

	if len(d.Runtimes) > 0 {
		fmt.Fprintln(a.stdout, "Runtimes:")
	}

	for _, rt := range d.Runtimes {
		a.hanging(21, "  "+rt.Address, rt.Kind.Name+": "+rt.Kind.Summary)
		if text := rt.Kind.optionsLine(); text != "" {
			a.hanging(21, "", "options: "+text)
		}
	}

	fmt.Fprintln(a.stdout, "Stages:")
	w := 0
	for _, s := range d.Stages {
		if n := utf8.RuneCountInString(s.Address); n <= 36 {
			w = max(w, n)
		}
	}

	for _, s := range d.Stages {
		text := s.Description
		if text == "" {
			text = s.Summary
		}

		if utf8.RuneCountInString(s.Address) > w {
			fmt.Fprintf(a.stdout, "  %s\n", s.Address)
			a.hanging(w+3, "", text)
		} else {
			a.hanging(w+3, "  "+s.Address, text)
		}

		var axes []string
		for _, x := range s.Axes {
			axes = append(axes, fmt.Sprintf("%s (%d)", x.Name, x.Size))
		}

		if len(axes) > 0 {
			a.hanging(w+3, "", "axes: "+strings.Join(axes, ", "))
		}
	}

	if len(d.Outputs) > 0 {
		a.hanging(9, "Outputs:", strings.Join(d.Outputs, ", "))
	}

	a.hanging(9, "Modules:", strings.Join(d.Modules, ", "))
}

type evalCmd struct {
	planFlags  `embed:""`
	Expression string `arg:"" help:"For example: 'length(local.token_counts)'."`
	JSON       bool   `name:"json" help:"Print as JSON."`
}

// Run evaluates one expression in the root module.
func (c *evalCmd) Run(a *app) error {
	all := a.stages()
	defer all.Close()
	cfg, err := a.load(c.planFlags, all)
	if err != nil {
		return err
	}

	v, diags := cfg.Eval(c.Expression)
	if err := a.report(cfg, diags); err != nil {
		return err
	}

	if c.JSON {
		return a.json(outputJSON(v))
	}

	fmt.Fprintln(a.stdout, valueText(v))
	return nil
}
