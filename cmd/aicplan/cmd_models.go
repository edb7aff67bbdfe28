package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
	"aicplan/sink/base/textutil"
	"aicplan/stages"
)

type modelsCmd struct {
	Words []string `arg:"" optional:"" name:"word" help:"Only models whose names hold all of these words."`
	Dir   string   `help:"Folder of the rows of models." default:"plans/modules/models" placeholder:"DIR"`
	JSON  bool     `name:"json" help:"Print as JSON."`
}

// Help implements kong.HelpProvider.
func (c *modelsCmd) Help() string {
	return `Examples:
  aicplan models                 every model whose shapes are on file
  aicplan models qwen3 235b      those whose names hold both words
  aicplan plan plans/h200_vllm.hcl --var 'models=["Qwen/Qwen3-32B"]'`
}

// modelNeeds is what one model requires of a database.
type modelNeeds struct {
	Name   string   `json:"name"`
	Layers []string `json:"layers"`
	TP     []int    `json:"tp,omitempty"` // tensor-parallel sizes of its attention
	// Dtypes are the formats of its experts, by backend.
	Dtypes map[string][]string `json:"dtypes,omitempty"`
	Ops    []string            `json:"ops"`
}

// opsOf maps a kind of layer to the ops that it needs.
var opsOf = map[string][]string{
	"attention": {"attention_context", "attention_generation"},
	"moe":       {"moe", "moe_ep"},
	"mla": {"mla_context", "mla_generation", "mla_bmm_gen_pre", "mla_bmm_gen_post", "mla_context_module",
		"mla_generation_module"},
	"dsa": {"dsa_context_module", "dsa_generation_module"},
	"dsv4": {"dsv4_csa_context_module", "dsv4_csa_generation_module", "dsv4_hca_context_module",
		"dsv4_hca_generation_module"},
	"msa":         {"msa_context_module", "msa_generation_module"},
	"mhc":         {"mhc_module"},
	"gdn":         {"gdn"},
	"kda":         {"kda"},
	"mamba2":      {"mamba2"},
	"encoder":     {"encoder_attention"},
	"projections": {"gemm", "compute_scale"},
	"widths":      {"gemm"},
}

// Run prints the models with known shapes and what each needs.
func (c *modelsCmd) Run(a *app, all *stages.Set) error {
	if _, err := os.Stat(filepath.Join(c.Dir, "outputs.hcl")); err != nil {
		return fmt.Errorf("%s holds no rows of models (it has no outputs.hcl); name their folder with --dir, for example plans/modules/models of a checkout",
			c.Dir)
	}

	cfg, diags := config.Load(a.loadOptions(planFlags{Path: c.Dir}, all))
	if err := a.report(cfg, diags); err != nil {
		return err
	}

	v, diags := cfg.Eval("merge(local.rows, { attention = local.attention, moe = local.moe })")
	if err := a.report(cfg, diags); err != nil {
		return err
	}

	models, err := needsOf(v)
	if err != nil {
		return fmt.Errorf("the rows in %s: %w", c.Dir, err)
	}

	var names []string
	for _, m := range models {
		names = append(names, m.Name)
	}

	models = slices.DeleteFunc(models, func(m modelNeeds) bool {
		return slices.ContainsFunc(c.Words,
			func(w string) bool { return !strings.Contains(strings.ToLower(m.Name), strings.ToLower(w)) })
	})

	if len(models) == 0 {
		return fmt.Errorf("no model on file is called %s.%s aicplan models lists all %d",
			strings.Join(c.Words, " "), config.DidYouMean(strings.Join(c.Words, " "), names), len(names))
	}

	if c.JSON {
		return a.json(models)
	}

	t := new(textutil.Table).Left("model", "layers", "tp", "formats of experts")
	for _, m := range models {
		t.Row(m.Name, strings.Join(m.Layers, " "), sizes(m.TP), formats(m.Dtypes))
	}

	if err := a.table(t); err != nil {
		return err
	}

	_, err = fmt.Fprintf(a.stdout, "%s. What one needs: aicplan plan PLAN --var 'models=[\"%s\"]'\n",
		textutil.Some(len(models), "model"), models[0].Name)

	return err
}

// needsOf groups the rows by the models that they name.
func needsOf(rows cty.Value) ([]modelNeeds, error) {
	by := map[string]*modelNeeds{}
	for it := rows.ElementIterator(); it.Next(); {
		key, list := it.Element()
		kind := key.AsString()
		for rt := list.ElementIterator(); rt.Next(); {
			_, row := rt.Element()
			if !row.Type().IsObjectType() || !row.Type().HasAttribute("models") {
				return nil, fmt.Errorf("a row of %s names no models", kind)
			}

			for _, name := range row.GetAttr("models").AsValueSlice() {
				m := by[name.AsString()]
				if m == nil {
					m = &modelNeeds{Name: name.AsString()}
					by[m.Name] = m
				}
				m.add(kind, row)
			}
		}
	}

	var out []modelNeeds
	for _, name := range slices.Sorted(maps.Keys(by)) {
		m := by[name]
		slices.Sort(m.Layers)
		slices.Sort(m.TP)
		for _, kind := range m.Layers {
			m.Ops = append(m.Ops, opsOf[kind]...)
		}
		out = append(out, *m)
	}

	return out, nil
}

func (m *modelNeeds) add(kind string, row cty.Value) {
	if !slices.Contains(m.Layers, kind) {
		m.Layers = append(m.Layers, kind)
	}

	if kind == "attention" && row.Type().HasAttribute("tp") {
		for _, t := range row.GetAttr("tp").AsValueSlice() {
			if n, _ := t.AsBigFloat().Int64(); !slices.Contains(m.TP, int(n)) {
				m.TP = append(m.TP, int(n))
			}
		}
	}

	if kind != "moe" {
		return
	}
	if m.Dtypes == nil {
		m.Dtypes = map[string][]string{}
	}

	for it := row.GetAttr("dtypes").ElementIterator(); it.Next(); {
		backend, words := it.Element()
		for _, w := range words.AsValueSlice() {
			if b := backend.AsString(); !slices.Contains(m.Dtypes[b], w.AsString()) {
				m.Dtypes[b] = append(m.Dtypes[b], w.AsString())
			}
		}
	}
}

func sizes(tp []int) string {
	out := make([]string, len(tp))
	for i, t := range tp {
		out[i] = fmt.Sprint(t)
	}
	return strings.Join(out, ",")
}

// formats returns the formats of all backends together. Only --json separates them.
func formats(by map[string][]string) string {
	var all []string
	for _, words := range by {
		all = append(all, words...)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}
