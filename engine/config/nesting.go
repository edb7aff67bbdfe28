package config

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// limits are far above what people write and far below what the parser, and what
// walks over its expressions, have stack for: both call themselves for every level.
type limits struct {
	nesting int // brackets, templates, signs, conditionals
	links   int // operators, indices and directives in a row, each of which holds those before it
}

var usual = limits{nesting: 500, links: 10_000}

// TooDeep refuses text whose brackets, templates, signs, conditionals or operators
// are nested without end: such a text would end the program in the parser.
func TooDeep(src []byte, name string) hcl.Diagnostics {
	if shallow(src, usual) {
		return nil
	}
	return tooDeep(src, name, usual)
}

// level is a bracket that is open, or the file around all of them.
type level struct {
	kind  byte // of shallow; $ for a template in a string
	lines bool // a newline ends an expression
	// What its expression has had so far.
	conditionals, links int
}

// nested is how deep a text is at a place.
type nested struct {
	open                       []level
	conditionals, links, signs int // of all levels that are open
}

func newNested() *nested { return &nested{open: []level{{lines: true}}} }

func (n *nested) top() *level { return &n.open[len(n.open)-1] }

// enter and leave are a bracket and its end; leaving the file is no mistake here.
func (n *nested) enter(kind byte, lines bool) {
	n.open = append(n.open, level{kind: kind, lines: lines})
}

func (n *nested) leave() {
	n.expression()
	if len(n.open) > 1 {
		n.open = n.open[:len(n.open)-1]
	}
}

// expression begins another one on the same level.
func (n *nested) expression() {
	l := n.top()
	n.conditionals, n.links = n.conditionals-l.conditionals, n.links-l.links
	l.conditionals, l.links = 0, 0
}

func (n *nested) line() {
	if n.top().lines {
		n.expression()
	}
}

func (n *nested) conditional() { n.top().conditionals++; n.conditionals++ }
func (n *nested) link()        { n.top().links++; n.links++ }

func (n *nested) within(max limits) bool {
	return len(n.open)-1 <= max.nesting && n.signs <= max.nesting && n.conditionals <= max.nesting && n.links <= max.links
}

func tooDeep(src []byte, name string, most limits) hcl.Diagnostics {
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos) // mistakes are the parser's to report
	n := newNested()
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace:
			n.enter('{', !loops(tokens[i+1:]))
		case hclsyntax.TokenTemplateControl:
			n.link()
			n.enter('$', false)
		case hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp:
			n.enter('(', false)
		case hclsyntax.TokenCBrace, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			n.leave()
		case hclsyntax.TokenCBrack:
			n.leave()
			n.link()
		case hclsyntax.TokenQuestion:
			n.conditional()
		case hclsyntax.TokenComma:
			n.expression()
		case hclsyntax.TokenNewline:
			n.line()
		case hclsyntax.TokenComment:
			if bytes.HasSuffix(t.Bytes, []byte("\n")) { // which is no token of its own
				n.line()
			}
		case hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent, hclsyntax.TokenAnd, hclsyntax.TokenOr,
			hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq:
			n.link()
		}
		if t.Type == hclsyntax.TokenBang || t.Type == hclsyntax.TokenMinus {
			n.signs++
		} else {
			n.signs = 0
		}
		switch {
		case n.within(most):
		case n.links > most.links:
			return hcl.Diagnostics{errorAt(t.Range, "Expression too long", fmt.Sprintf("An expression may have at most %d operators, indices and template directives, and here it has more; give its parts names in locals, or write it with a for expression.", most.links))}
		default:
			return hcl.Diagnostics{errorAt(t.Range, "Nested too deep", fmt.Sprintf("An expression may be nested at most %d deep, and here it is deeper; give its parts names in locals.", most.nesting))}
		}
	}
	return nil
}

// loops says whether the tokens behind a brace are those of a for expression, in
// which newlines end nothing.
func loops(tokens hclsyntax.Tokens) bool {
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
			continue
		case hclsyntax.TokenIdent:
			return string(t.Bytes) == "for" && i+1 < len(tokens) && tokens[i+1].Type != hclsyntax.TokenEqual
		}
		return false
	}
	return false
}

// shallow is true of most texts that are not nested too deep. It spares them the
// tokens, which the parser makes once more. What it does not know well is not shallow:
// texts of several lines, brackets that do not belong together. It may count more
// than there is.
func shallow(src []byte, most limits) bool {
	n := newNested()
	for i := 0; i < len(src); i++ {
		c, next := src[i], byte(0)
		if i+1 < len(src) {
			next = src[i+1]
		}
		switch c {
		case '!', '-':
			n.signs++
		case ' ', '\t', '\r':
		default:
			n.signs = 0
		}
		text := false // a string begins, or goes on behind a template
		switch {
		case c == '\n':
			n.line()
		case c == ',':
			n.expression()
		case c == '?':
			n.conditional()
		case c == '(' || c == '[':
			n.enter(c, false)
		case c == '{':
			rest := bytes.TrimLeft(src[i+1:], " \t\r\n")
			n.enter(c, !bytes.HasPrefix(rest, []byte("for")) && !bytes.HasPrefix(rest, []byte("#")) && !bytes.HasPrefix(rest, []byte("/")))
		case c == ')' || c == ']' || c == '}':
			last := n.top().kind
			text = last == '$' && c == '}'
			if !text && last != opening[c] {
				return false
			}
			n.leave()
			n.link()
		case c == '#' || c == '/' && next == '/':
			end := bytes.IndexByte(src[i:], '\n')
			if end < 0 {
				return n.within(most)
			}
			i += end
			n.line()
		case c == '/' && next == '*' || c == '<' && next == '<':
			return false
		case c == '"':
			text = true
		case strings.IndexByte("+-*/%&|=<>!", c) >= 0:
			n.link()
		}
		if text {
			var template bool
			if i, template = stringEnd(src, i+1); i < 0 {
				return false
			}
			if template {
				n.link()
				n.enter('$', false)
			}
		}
		if !n.within(most) {
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
