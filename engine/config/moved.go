package config

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Move says that what has the address From in state folders has the address To
// in the plan: a stage, all instances of one, or a module with all that is in it.
type Move struct {
	From, To string
	Range    hcl.Range
}

// Moved lists the moved blocks of the plan, in its order.
func (c *Config) Moved() []Move {
	if c.root == nil {
		return nil
	}
	return c.root.decl.moved
}

// Before is the address that a stage had before the move; "" where the move is
// not about it.
func (m Move) Before(address string) string {
	rest, ok := strings.CutPrefix(address, m.To)
	if !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
		return ""
	}
	return m.From + rest
}

func (m *moduleDecl) declareMoved(b *hclsyntax.Block) hcl.Diagnostics {
	diags := noLabels(b)
	move := Move{Range: b.DefRange()}
	for _, nested := range b.Body.Blocks {
		diags = append(diags, errorAt(nested.TypeRange, "Unexpected block", "A moved block holds from and to only."))
	}
	for _, name := range sortedKeys(b.Body.Attributes) {
		a := b.Body.Attributes[name]
		into := map[string]*string{"from": &move.From, "to": &move.To}[name]
		if into == nil {
			diags = append(diags, errorAt(a.NameRange, "Unexpected attribute", "A moved block holds from and to only."))
			continue
		}
		address, err := addressOf(a.Expr)
		if err != nil {
			diags = append(diags, errorAt(a.Expr.Range(), "Wrong address", err.Error()))
		}
		*into = address
	}
	if diags.HasErrors() {
		return diags
	}
	if move.From == "" || move.To == "" || move.From == move.To {
		return append(diags, errorAt(b.DefRange(), "Incomplete moved block", "A moved block says where a stage was and where it is: from = collect.old, to = collect.new."))
	}
	m.moved = append(m.moved, move)
	return diags
}

// addressOf reads an expression as the address of a stage or a module.
func addressOf(e hcl.Expression) (string, error) {
	t, diags := hcl.AbsTraversalForExpr(e)
	if diags.HasErrors() || len(t) < 2 {
		return "", fmt.Errorf(`an address is written without quotes, as in collect.gemm, collect.op["moe"] or module.m.grid.g`)
	}
	var b strings.Builder
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			b.WriteString(s.Name)
		case hcl.TraverseAttr:
			b.WriteString("." + s.Name)
		case hcl.TraverseIndex:
			if s.Key.Type() != cty.String {
				return "", fmt.Errorf("the key of an instance is a string")
			}
			b.WriteString(keySuffix(s.Key.AsString()))
		}
	}
	return b.String(), nil
}

// checkMoved finds moved blocks that say what cannot be.
func (c *Config) checkMoved() hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, m := range c.Moved() {
		to := false
		for _, in := range c.Instances {
			back := Move{From: m.To, To: m.From}
			if back.Before(in.Address) != "" {
				diags = append(diags, errorAt(m.Range, "Moved from what is there",
					fmt.Sprintf("%s is still in the plan (%s), so it did not move; remove the moved block, or the stage.", in.Address, shortRange(in.Range))))
				break
			}
			to = to || m.Before(in.Address) != ""
		}
		if !to && len(diags) == 0 {
			diags = append(diags, warnAt(m.Range, "Moved to nowhere", fmt.Sprintf("The plan has no %s; the moved block does nothing.", m.To)))
		}
	}
	return diags
}
