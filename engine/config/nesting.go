package config

import (
	"regexp"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// maxDepth limits the nesting of one expression. The parser and the evaluator recurse once per
// level; their stacks allow far more levels than this.
const maxDepth = 10_000

// longExponent matches exponents of five or more digits, which stand for numbers of more than
// 10,000 digits.
var longExponent = regexp.MustCompile(`[eE][+-]?0*[1-9][0-9]{4}`)

// TooDeep returns an error if brackets are nested too deeply, or if an expression has too many
// operators, signs, conditionals, indices or template directives in a row. The parser would
// overflow the stack, which crashes the program.
func TooDeep(src []byte, name string) hcl.Diagnostics {
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos) // the parser reports syntax errors
	open, row := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp:
			open++
		case hclsyntax.TokenTemplateControl:
			open++
			row++

		case hclsyntax.TokenCBrace, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			open--
		case hclsyntax.TokenCBrack:
			open--
			row++

		case hclsyntax.TokenComma, hclsyntax.TokenEqual:
			row = 0
		case hclsyntax.TokenQuestion, hclsyntax.TokenBang, hclsyntax.TokenPlus, hclsyntax.TokenMinus,
			hclsyntax.TokenStar, hclsyntax.TokenSlash,
			hclsyntax.TokenPercent, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp,
			hclsyntax.TokenNotEqual,
			hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan,
			hclsyntax.TokenGreaterThanEq:
			row++
		}

		if t.Type == hclsyntax.TokenNumberLit && longExponent.Match(t.Bytes) {
			return errorAt(t.Range, "Number out of bounds",
				"A float64 ends at 1e308. Writing out the digits of this number would take all memory.")
		}
		if open > maxDepth || row > maxDepth {
			return errorAt(t.Range, "Nested too deep",
				"An expression has more than %d nested brackets, or operators in a row. Give its parts names in locals.", maxDepth)
		}
	}

	return nil
}

// expression parses text that does not come from a file.
func expression(text, name string) (hclsyntax.Expression, hcl.Diagnostics) {
	if diags := TooDeep([]byte(text), name); diags.HasErrors() {
		return nil, diags
	}
	return hclsyntax.ParseExpression([]byte(text), name, hcl.InitialPos)
}
