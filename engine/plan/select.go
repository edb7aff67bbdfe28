package plan

import (
	"slices"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/config"
	"aicplan/engine/stage"
)

// choose returns the addresses of the plan: the targets with their dependencies, without the excluded stages and
// the stages that depend on those.
func (p *Plan) choose() (map[string]bool, hcl.Diagnostics) {
	all := p.Config.Addresses()
	pick := func(flag string, globs []string) ([]string, hcl.Diagnostics) {
		var out []string
		var diags hcl.Diagnostics
		for _, g := range globs {
			n := len(out)
			for _, a := range all {
				if MatchAny([]string{g}, a) {
					out = append(out, a)
				}
			}
			if len(out) == n && !p.Options.Shared {
				at := p.Config.Flag(flag, g)
				if why := p.Config.LeftOut(g); why != "" {
					diags = append(diags, stage.ErrorAt(at, "No such stage", "%s is not part of this plan: %s.", g, why)...)
					continue
				}
				diags = append(diags, stage.ErrorAt(at, "No such stage",
					"No stage of the plan fits %s.%s Use a glob such as 'grid.attention_*'; aicplan describe -v lists all addresses.",
					stage.Quoted(g), stage.DidYouMean(g, p.spellings()))...)
			}
		}

		return out, diags
	}

	targets, diags := pick("--target", p.Options.Targets)
	excludes, more := pick("--exclude", p.Options.Excludes)
	diags = append(diags, more...)
	_, more = pick("--replace", p.Options.Replace)
	diags = append(diags, more...)
	if len(p.Options.Targets) == 0 {
		targets = all
	}
	out := p.Graph.Closure(targets...)
	for a := range p.Graph.Behind(excludes...) {
		delete(out, a)
	}
	for _, g := range p.Options.Replace {
		if diags.HasErrors() || p.Options.Shared ||
			slices.ContainsFunc(all, func(a string) bool { return out[a] && MatchAny([]string{g}, a) }) {
			continue
		}
		at := p.Config.Flag("--replace", g)
		diags = append(diags, stage.ErrorAt(
			at,
			"Nothing to replace",
			"--target or --exclude leave out all stages that fit %s, so none would run again. Name one with --target as well, "+
				"or leave --replace away.",
			stage.Quoted(g),
		)...)
	}

	return out, diags
}

// spellings returns the ways to write the addresses: with their module and, if there are too many to list, also
// without it.
func (p *Plan) spellings() []string {
	all := p.Config.Addresses()
	if len(all) > 12 {
		for _, a := range all {
			all = append(all, config.LocalAddress(a))
		}
	}

	return all
}
