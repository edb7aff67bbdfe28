package plan

import (
	"path"
	"slices"
	"strings"

	"aicplan/engine/config"
)

// MatchAny reports whether address fits one of the globs. A glob that names no
// module fits in every module, one without an instance key every instance, one
// that names a module all that is in it; * does not stop at dots.
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
	// path.Match treats [ as a class, / as a border and \ as an escape; addresses
	// use none of them in that sense.
	esc := strings.NewReplacer("[", `\[`, "]", `\]`, "/", "\x01", `\`, `\\`)
	ok, err := path.Match(esc.Replace(glob), strings.ReplaceAll(s, "/", "\x01"))
	return err == nil && ok
}
