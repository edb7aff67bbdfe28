package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

type modelsCmd struct {
	Words []string `arg:"" optional:"" name:"word" help:"Only models whose names contain all of these words."`
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
func (c *modelsCmd) Run(a *app) error {
	if _, err := os.Stat(filepath.Join(c.Dir, "outputs.hcl")); err != nil {
		return fmt.Errorf("%s has no rows of models (it has no outputs.hcl); name their folder with --dir, for example "+
			"plans/modules/models of a checkout",
			c.Dir)
	}

	cfg, diags := config.Load(a.loadOptions(planFlags{Path: c.Dir}))
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
			strings.Join(c.Words, " "), stage.DidYouMean(strings.Join(c.Words, " "), names), len(names))
	}

	if c.JSON {
		return a.json(models)
	}

	t := new(textutil.Table).Left("model", "layers", "tp", "formats of experts")
	for _, m := range models {
		t.Row(
			m.Name,
			strings.Join(m.Layers, " "),
			strings.Trim(strings.ReplaceAll(fmt.Sprint(m.TP), " ", ","), "[]"),
			formats(m.Dtypes),
		)
	}

	if err := a.table(t); err != nil {
		return err
	}

	_, err = fmt.Fprintf(a.stdout, "%s. What one needs: aicplan plan PLAN --var 'models=[\"%s\"]'\n",
		textutil.Some(len(models), "model"), models[0].Name)

	return err
}

// needsOf groups the rows of each kind of layer by the models that they name.
func needsOf(rows cty.Value) ([]modelNeeds, error) {
	raw, err := json.Marshal(jsonValue(rows))
	if err != nil {
		return nil, err
	}

	var kinds map[string][]struct {
		Models []string
		TP     []int
		Dtypes map[string][]string
	}
	if err := json.Unmarshal(raw, &kinds); err != nil {
		return nil, err
	}

	by := map[string]*modelNeeds{}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for _, row := range kinds[kind] {
			if row.Models == nil {
				return nil, fmt.Errorf("a row of %s names no models", kind)
			}

			for _, name := range row.Models {
				m := by[name]
				if m == nil {
					m = &modelNeeds{Name: name, Dtypes: map[string][]string{}}
					by[name] = m
				}

				if !slices.Contains(m.Layers, kind) {
					m.Layers, m.Ops = append(m.Layers, kind), append(m.Ops, opsOf[kind]...)
				}
				if kind == "attention" {
					m.TP = merged(m.TP, row.TP)
				}
				for backend, words := range row.Dtypes {
					if len(words) > 0 {
						m.Dtypes[backend] = merged(m.Dtypes[backend], words)
					}
				}
			}
		}
	}

	var out []modelNeeds
	for _, name := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[name].TP)
		out = append(out, *by[name])
	}

	return out, nil
}

// merged appends the values that list does not have.
func merged[T comparable](list, more []T) []T {
	for _, v := range more {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
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
