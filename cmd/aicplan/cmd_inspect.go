package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

type describeCmd struct {
	planFlags `embed:""`
	Stages    []string `arg:"" optional:"" help:"Addresses of the stages to list in full, as globs."`
	Verbose   bool     `short:"v" help:"List every stage with its axes, and the options of runtimes."`
	Eval      string   `help:"Evaluate an expression instead, such as 'length(local.m)'." placeholder:"EXPRESSION"`
	JSON      bool     `name:"json" help:"Print as JSON."`
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
	if c.Eval != "" {
		return c.eval(a)
	}

	p, err := a.plan(context.Background(), c.planFlags, plan.Options{})
	if err != nil {
		return err
	}

	d, err := describe(p, a.stages().Runtimes())
	if err != nil {
		return err
	}

	if c.JSON {
		return a.json(d)
	}

	if len(c.Stages) > 0 {
		return a.describeStages(d, c.Stages)
	}
	a.hanging(2, shown(p.Config.Path)+":", d.summary())
	a.describe(d, a.planCommand(p.Config.Inputs(), "", "describe", typed(p.Config.Path)), c.Verbose)
	return nil
}

// describeStages lists the stages whose addresses, with or without their modules, match one of globs.
func (a *app) describeStages(d *description, globs []string) error {
	var found []stageInfo
	for _, g := range globs {
		fit := slices.DeleteFunc(slices.Clone(d.Stages), func(s stageInfo) bool {
			return !plan.MatchAny([]string{g}, s.Address)
		})
		if len(fit) == 0 {
			return fmt.Errorf("no stage of the plan fits %q; aicplan describe -v lists them", g)
		}
		found = append(found, fit...)
	}

	a.listStages(found)
	return nil
}

func describe(p *plan.Plan, kinds []stage.RuntimeKind) (*description, error) {
	d := &description{Modules: p.Config.Modules()}
	for _, v := range p.Config.Variables() {
		info := variableInfo{Name: v.Name, Type: v.TypeText, Description: v.Description,
			Required: v.Default == cty.NilVal}
		if v.Default != cty.NilVal {
			info.Default = valueText(v.Default, math.MaxInt)
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

// manyStages is the number of stages above which describe groups them.
const manyStages = 16

// describe prints the description of a plan. again is the command that prints it.
func (a *app) describe(d *description, again string, verbose bool) {
	fmt.Fprintln(a.stdout)
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
		if text := rt.Kind.optionsLine(); text != "" && verbose {
			a.hanging(21, "", "options: "+text)
		}
	}

	fmt.Fprintln(a.stdout, "Stages:")
	if len(d.Stages) > manyStages && !verbose {
		a.groupStages(again, d.Stages)
	} else {
		a.listStages(d.Stages)
	}

	if len(d.Outputs) > 0 {
		a.hanging(9, "Outputs:", strings.Join(d.Outputs, ", "))
	}

	a.hanging(9, "Modules:", strings.Join(d.Modules, ", "))
}

// summary counts the stages of each kind.
func (d *description) summary() string {
	var kinds []string
	for _, s := range d.Stages {
		kinds = append(kinds, s.Kind)
	}
	return textutil.Counted(len(d.Stages), "stage") + ": " + countsOf(kinds)
}

// groupStages prints a line for each group of stages: those of one block with for_each, or those of one
// kind in one module.
func (a *app) groupStages(again string, stages []stageInfo) {
	names := map[string][]string{}
	var groups []string
	for _, s := range stages {
		group, name := config.WithoutOwnKey(s.Address), ""
		if group != s.Address {
			name = strings.Trim(strings.TrimPrefix(s.Address, group), `[]"`)
		} else if at := strings.LastIndex(group, "."); at >= 0 {
			group, name = group[:at], group[at+1:]
		}
		if names[group] == nil {
			groups = append(groups, group)
		}
		names[group] = append(names[group], name)
	}

	// Groups with the same names, such as the collects and gates of the same ops, share one line.
	same := map[string][]string{}
	for _, g := range groups {
		list := strings.Join(names[g], ", ")
		same[list] = append(same[list], fmt.Sprintf("%s (%d)", g, len(names[g])))
	}

	for _, g := range groups {
		list := strings.Join(names[g], ", ")
		if same[list] == nil {
			continue
		}
		a.hanging(2, "", strings.Join(same[list], ", "))
		a.hanging(4, "", list)
		delete(same, list)
	}

	fmt.Fprintf(a.stdout, "  -v lists them with their axes, as an address does:\n    %s %s\n", again,
		textutil.ShellWord(stages[0].Address))
}

// listStages prints stages with their descriptions and axes.
func (a *app) listStages(stages []stageInfo) {
	w := 0
	for _, s := range stages {
		if n := utf8.RuneCountInString(s.Address); n <= min(36, a.columns()/2) {
			w = max(w, n)
		}
	}

	for _, s := range stages {
		text := cmp.Or(s.Description, s.Summary)
		if utf8.RuneCountInString(s.Address) > w {
			fmt.Fprintf(a.stdout, "  %s\n", s.Address)
			a.hanging(w+3, "", text)
		} else {
			a.hanging(w+3, "  "+s.Address, text)
		}

		axes := ""
		for _, x := range s.Axes {
			axes += fmt.Sprintf(", %s (%d)", x.Name, x.Size)
		}
		if axes != "" {
			a.hanging(w+3, "", "axes: "+axes[2:])
		}
	}
}

// eval evaluates an expression in the root module.
func (c *describeCmd) eval(a *app) error {
	cfg, err := a.load(c.planFlags)
	if err != nil {
		return err
	}

	v, diags := cfg.Eval(c.Eval)
	if err := a.report(cfg, diags); err != nil {
		return err
	}

	if c.JSON {
		return a.json(jsonValue(v))
	}

	fmt.Fprintln(a.stdout, valueText(v, a.foldWidth()))
	return nil
}
