package collect

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
)

// DecodeBody implements stage.BodyDecoder. Blocks that collect does not define may belong to the runtime
// kind.
func (c *Config) DecodeBody(body hcl.Body, eval stage.Evaluator) hcl.Diagnostics {
	native := body.(*hclsyntax.Body)
	words := stage.TagWords(c)[""]
	common := *native
	common.Blocks = nil
	var own hclsyntax.Blocks
	for _, b := range native.Blocks {
		if slices.Contains(words, b.Type) {
			common.Blocks = append(common.Blocks, b)
		} else {
			own = append(own, b)
		}
	}

	diags := stage.Decode(&common, eval, c)
	rt, err := stage.RuntimeOf(c.Runtime)
	if err != nil {
		return diags // Check reports the error
	}

	kind := c.pools.Kind(rt.Kind)
	for _, b := range common.Blocks {
		if b.Type == "measure" && len(kind.Measure) == 0 {
			stage.AddError(&diags, b.DefRange(), "Wrong measure block",
				"Runtimes of kind %s measure in a way of their own and use no measure block; remove it.", rt.Kind)
		}
	}

	if len(own) == 0 {
		return diags
	}

	rest := &hclsyntax.Body{Blocks: own, SrcRange: native.SrcRange, EndRange: native.EndRange}
	ctx, more := eval.Context(stage.Expressions(rest), nil)
	diags = append(diags, more...)
	if more.HasErrors() {
		return diags
	}

	in := &stage.Own{What: "a collect on a runtime of kind " + rt.Kind, Blocks: kind.Collect}
	c.blocks, more = in.Decode(rest, ctx)
	return append(diags, more...)
}

// plainBlocks returns the values of blocks as for keys.
func plainBlocks(blocks map[string]cty.Value) map[string]any {
	out := map[string]any{}
	for name, v := range blocks {
		out[name] = stage.Plain(v)
	}
	return out
}

// workerBlocks returns all blocks of the runtime's kind as JSON for the worker.
func (c *Config) workerBlocks() (json.RawMessage, error) {
	if len(c.blocks) == 0 {
		return nil, nil
	}

	out := map[string]any{}
	for name, v := range c.blocks {
		plain, err := runtimes.Plain(v)
		if err != nil {
			return nil, fmt.Errorf("block %s: %w", name, err)
		}
		out[name] = plain
	}
	return json.Marshal(out)
}

// measured returns the measure settings that are part of keys, or nil if the workers use none.
func (c *Config) measured() any {
	if len(c.kind().Measure) == 0 {
		return nil
	}
	s := c.settings
	if !slices.Contains(c.kind().Measure, "operating_point") {
		s.OperatingPoint = "" // workers without a power cap have no operating point
	}
	return s
}

// Words implements stage.BodyDecoder.
func (c *Config) Words() stage.Vocabulary { return stage.TagWords(c) }
