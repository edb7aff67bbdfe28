package config

import (
	"bytes"
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
	if shallow(src, maxNesting) {
		return nil
	}
	return tooDeep(src, name, maxNesting)
}

func tooDeep(src []byte, name string, limit int) hcl.Diagnostics {
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
		if max(depth, signs, questions) > limit {
			return hcl.Diagnostics{errorAt(t.Range, "Nested too deep", fmt.Sprintf("An expression may be nested at most %d deep, and here it is deeper; give its parts names in locals.", limit))}
		}
	}
	return nil
}

// shallow is true of most texts that are not nested too deep. It spares them the
// tokens, which the parser makes once more. What it does not know well is not shallow:
// texts of several lines, brackets that do not belong together.
func shallow(src []byte, limit int) bool {
	var open []byte // brackets, and $ for a template in a string
	signs, questions := 0, 0
	for i := 0; i < len(src); i++ {
		c, next := src[i], byte(0)
		if i+1 < len(src) {
			next = src[i+1]
		}
		switch c {
		case '!', '-':
			signs++
		case ' ', '\t', '\r':
		default:
			signs = 0
		}
		text := false // a string begins, or goes on behind a template
		switch {
		case c == '\n':
			questions = 0
		case c == '?':
			questions++
		case c == '(' || c == '[' || c == '{':
			open = append(open, c)
		case c == ')' || c == ']' || c == '}':
			if len(open) == 0 {
				return false
			}
			last := open[len(open)-1]
			open = open[:len(open)-1]
			text = last == '$' && c == '}'
			if !text && last != opening[c] {
				return false
			}
		case c == '#' || c == '/' && next == '/':
			end := bytes.IndexByte(src[i:], '\n')
			if end < 0 {
				return max(len(open), signs, questions) <= limit
			}
			i += end // with its newline, which is no token of its own
		case c == '/' && next == '*' || c == '<' && next == '<':
			return false
		case c == '"':
			text = true
		}
		if text {
			var template bool
			if i, template = stringEnd(src, i+1); i < 0 {
				return false
			}
			if template {
				open = append(open, '$')
			}
		}
		if max(len(open), signs, questions) > limit {
			return false
		}
	}
	return true
}

var opening = map[byte]byte{')': '(', ']': '[', '}': '{'}

// stringEnd is where a string ends, or a template in it begins; -1 where it does
// neither in its line.
func stringEnd(src []byte, from int) (at int, template bool) {
	for i := from; i < len(src); i++ {
		switch c := src[i]; {
		case c == '\\':
			i++
		case c == '"':
			return i, false
		case c == '\n':
			return -1, false
		case (c == '$' || c == '%') && i+1 < len(src) && src[i+1] == '{':
			return i + 1, true
		case (c == '$' || c == '%') && i+2 < len(src) && src[i+1] == c && src[i+2] == '{':
			i += 2
		}
	}
	return -1, false
}

// parseExpression parses text that is no file.
func parseExpression(text, name string) (hclsyntax.Expression, hcl.Diagnostics) {
	if diags := TooDeep([]byte(text), name); diags.HasErrors() {
		return nil, diags
	}
	return hclsyntax.ParseExpression([]byte(text), name, hcl.InitialPos)
}
