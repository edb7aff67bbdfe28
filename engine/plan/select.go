package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/config"
	"aicplan/engine/stage"
)

// choose returns the addresses of the plan: the targets with their dependencies, without the excluded stages and
// the stages that depend on those.
func (p *Plan) choose() (map[string]bool, hcl.Diagnostics) {
	all := p.Config.Addresses()
	var diags hcl.Diagnostics
	pick := func(flag string, globs []string) (out []string) {
		for _, g := range globs {
			n := len(out)
			for _, a := range all {
				if MatchAny([]string{g}, a) {
					out = append(out, a)
				}
			}
			if len(out) == n {
				at := p.Config.Flag(flag, g)
				if why := p.Config.LeftOut(g); why != "" {
					stage.AddError(&diags, at, "No such stage", "%s is not part of this plan: %s.", g, why)
					continue
				}
				stage.AddError(&diags, at, "No such stage",
					"No stage of the plan fits %s.%s Use a glob such as 'grid.attention_*'; aicplan describe -v lists all addresses.",
					stage.Quoted(g), stage.DidYouMean(g, p.spellings()))
			}
		}

		return out
	}

	targets := pick("--target", p.Options.Targets)
	excludes := pick("--exclude", p.Options.Excludes)
	pick("--replace", p.Options.Replace)
	if len(p.Options.Targets) == 0 {
		targets = all
	}
	out := p.Graph.Closure(targets...)
	for a := range p.Graph.Behind(excludes...) {
		delete(out, a)
	}
	for _, g := range p.Options.Replace {
		if diags.HasErrors() ||
			slices.ContainsFunc(all, func(a string) bool { return out[a] && MatchAny([]string{g}, a) }) {
			continue
		}
		at := p.Config.Flag("--replace", g)
		stage.AddError(&diags,
			at,
			"Nothing to replace",
			"--target or --exclude leave out all stages that fit %s, so none would run again. Name one with --target as well, "+
				"or remove --replace.",
			stage.Quoted(g),
		)
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

// MatchAny reports whether address matches one of the globs. A glob without a module matches in every module, one
// without an instance key matches every instance, and one that names a module matches all its stages. * also
// matches dots.
func MatchAny(globs []string, address string) bool {
	local := config.LocalAddress(address)
	return slices.ContainsFunc(globs, func(g string) bool {
		at := address
		if !strings.HasPrefix(g, "module.") {
			at = local
		}
		switch {
		case globMatch(g, at):
			return true
		case strings.HasSuffix(g, "]"):
		case globMatch(g, config.WithoutOwnKey(at)) || globMatch(g, config.WithoutKeys(at)):
			return true
		}

		return slices.ContainsFunc(config.ModulesOf(address), func(m string) bool {
			return globMatch(g, m) || globMatch(g, config.WithoutKeys(m))
		})
	})
}

func globMatch(glob, s string) bool {
	if glob == s {
		return true
	}
	// In path.Match, [ starts a class, / is a separator and \ escapes. Addresses use none of them in this sense.
	esc := strings.NewReplacer("[", `\[`, "]", `\]`, "/", "\x01", `\`, `\\`)
	ok, err := path.Match(esc.Replace(glob), strings.ReplaceAll(s, "/", "\x01"))
	return err == nil && ok
}
