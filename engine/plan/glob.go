package plan

import (
	"path"
	"slices"
	"strings"

	"aicplan/engine/config"
)

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
