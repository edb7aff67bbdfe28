package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// maxNesting is far above what people write and far below what the parser,
// which calls itself for every level, has stack for.
const maxNesting = 500

// TooDeep refuses text whose brackets, templates, signs or conditionals are
// nested without end: such a text would end the program in the parser.
func TooDeep(src []byte, name string) hcl.Diagnostics {
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos) // mistakes are the parser's to report
	depth, signs, questions := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			depth = max(0, depth-1)
		case hclsyntax.TokenQuestion:
			questions++
		case hclsyntax.TokenNewline:
			questions = 0
		}
		if t.Type == hclsyntax.TokenBang || t.Type == hclsyntax.TokenMinus {
			signs++
		} else {
			signs = 0
		}
		if max(depth, signs, questions) > maxNesting {
			return hcl.Diagnostics{errorAt(t.Range, "Nested too deep", fmt.Sprintf("An expression may be nested at most %d deep, and here it is deeper; give its parts names in locals.", maxNesting))}
		}
	}
	return nil
}

// parseExpression parses text that is no file.
func parseExpression(text, name string) (hclsyntax.Expression, hcl.Diagnostics) {
	if diags := TooDeep([]byte(text), name); diags.HasErrors() {
		return nil, diags
	}
	return hclsyntax.ParseExpression([]byte(text), name, hcl.InitialPos)
}
