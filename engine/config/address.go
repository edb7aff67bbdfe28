package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// An address consists of names and keys: module.a["x"].collect.gemm["fp8"]. Keys are quoted like Go
// strings, so they may contain dots, brackets and quotes.

var (
	keyPattern    = regexp.MustCompile(`\["(?:[^"\\]|\\.)*"\]`)
	ownKeyPattern = regexp.MustCompile(keyPattern.String() + `$`)
	modulePattern = regexp.MustCompile(`^module\.[^.\[]*(?:` + keyPattern.String() + `)?\.`)
)

// LocalAddress returns an address without its modules: module.a["x"].grid.gemm becomes grid.gemm.
func LocalAddress(address string) string {
	for {
		module := modulePattern.FindString(address)
		if module == "" {
			return address
		}
		address = address[len(module):]
	}
}

// ModulesOf returns the addresses of the modules that contain an address, outermost first.
func ModulesOf(address string) []string {
	var out []string
	for end := 0; ; {
		module := modulePattern.FindString(address[end:])
		if module == "" {
			return out
		}
		end += len(module)
		out = append(out, address[:end-1])
	}
}

// WithoutOwnKey returns an address without the key of the instance itself. Keys of its modules are
// kept.
func WithoutOwnKey(address string) string { return ownKeyPattern.ReplaceAllString(address, "") }

// WithoutKeys returns an address without any keys, that is, the address of the block as written.
func WithoutKeys(address string) string { return keyPattern.ReplaceAllString(address, "") }

// Find returns the instance with the given address. The modules may be omitted if only one instance
// has that local address.
func (c *Config) Find(address string) (*Instance, error) {
	if in := c.l.byAddr[address]; in != nil {
		return in, nil
	}

	var found []*Instance
	var near, sameName []string
	for _, in := range c.Instances {
		local := LocalAddress(in.Address)
		if local == address {
			found = append(found, in)
		}
		near = append(near, local)
		if strings.HasSuffix(local, "."+address) {
			sameName = append(sameName, local)
		}
	}

	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if len(sameName) > 1 {
			return nil, severalStages(address, sameName)
		}
		if why := c.LeftOut(address); why != "" {
			return nil, fmt.Errorf("%s is not part of this plan: %s", address, why)
		}
		return nil, fmt.Errorf("the plan has no stage %s.%s aicplan describe lists them", address,
			didYouMean(address, near))
	}

	var names []string
	for _, in := range found {
		names = append(names, in.Address)
	}

	return nil, severalStages(address, names)
}

func severalStages(address string, stages []string) error {
	return fmt.Errorf("%s could be any of %s: give the whole address", address, strings.Join(stages, ", "))
}

// LeftOut explains why a declared stage has no instance, or returns "". The modules of the address may
// be omitted.
func (c *Config) LeftOut(address string) string {
	if c.root == nil {
		return ""
	}
	defer c.lock()()

	address = WithoutOwnKey(address)
	for _, s := range c.root.all() {
		for _, d := range s.decl.order {
			local := d.kind + "." + d.name
			if d.kind != "module" && len(s.instances[d]) == 0 && (address == local || address == s.qualify(local)) {
				return s.offBecause(d)
			}
		}
	}
	return ""
}

// offBecause returns which conditions of a block without instances are false.
func (s *scope) offBecause(d *blockDecl) string {
	if d.enabled == nil {
		return fmt.Sprintf("a stage that it reads is not part of it either (%s)", shortRange(d.rng()))
	}

	var off []string
	for _, e := range conjuncts(d.enabled) {
		v, diags := s.eval(e, nil)
		if v, _ = v.Unmark(); !diags.HasErrors() && v.IsKnown() && !v.IsNull() && v.Type() == cty.Bool && v.False() {
			off = append(off, s.l.src.snippet(e.Range()))
		}
	}

	return fmt.Sprintf("%s is false (%s)", strings.Join(off, " and "), shortRange(d.enabled.Range()))
}

// conjuncts splits a condition at its outer && operators.
func conjuncts(e hcl.Expression) []hcl.Expression {
	if b, ok := e.(*hclsyntax.BinaryOpExpr); ok && b.Op == hclsyntax.OpLogicalAnd {
		return append(conjuncts(b.LHS), conjuncts(b.RHS)...)
	}
	return []hcl.Expression{e}
}
