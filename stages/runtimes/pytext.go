package runtimes

import (
	"regexp"
	"strings"
)

// meaning is Python code without what does not run: comments, blank lines,
// spaces at the ends of lines, and strings that are statements of their own, such as
// docstrings. Code that differs in nothing else has the same meaning here, so
// that a corrected comment measures nothing again.
func meaning(text string) string {
	var out strings.Builder
	var line strings.Builder // of the code, up to its end
	depth := 0               // of brackets
	continued := false       // by a backslash before
	alone := false           // the line is a string so far
	end := func() {
		code := strings.TrimRight(line.String(), " \t\r\f")
		line.Reset()
		if code != "" && !alone {
			out.WriteString(code)
			out.WriteByte('\n')
		}
		continued, alone = depth == 0 && strings.HasSuffix(code, `\`), false
	}
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '\n':
			end()
			i++
		case c == '"' || c == '\'':
			n := stringEnd(text[i:])
			alone = depth == 0 && !continued && strings.TrimSpace(line.String()) == ""
			line.WriteString(text[i : i+n])
			i += n
		default:
			if c != ' ' && c != '\t' && c != '\r' && c != '\f' {
				alone = false
			}
			switch c {
			case '(', '[', '{':
				depth++
			case ')', ']', '}':
				depth = max(0, depth-1)
			}
			line.WriteByte(c)
			i++
		}
	}
	end()
	return out.String()
}

// stringEnd is the length of the string literal that text begins with, without
// its prefix; one that does not end takes its line, or all where it is of three
// quotes.
func stringEnd(text string) int {
	quote := text[:1]
	if strings.HasPrefix(text, strings.Repeat(quote, 3)) {
		quote = text[:3]
	}
	for i := len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		case text[i] == '\n' && len(quote) == 1:
			return i
		}
	}
	return len(text)
}

var (
	importLine = regexp.MustCompile(`(?m)(?:^|[;:])[ \t]*import[ \t]+([^\n;]+)`)
	nameCall   = regexp.MustCompile(`\b(?:import_module|__import__)\([ \t\n]*(?:name[ \t]*=[ \t]*)?['"]([.\w]+)['"]`)
	fromLine   = regexp.MustCompile(`(?m)(?:^|[;:])[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n;(]+)`)
)

// imported is one import of a file.
type imported struct {
	module string // with the dots of a relative import before it
	names  []string
}

// importsOf lists what Python code, as meaning has it, imports by name. Modules
// whose names it puts together while it runs are not among them.
func importsOf(code string) []imported {
	var out []imported
	code = strings.ReplaceAll(code, "\\\n", " ")
	for _, m := range nameCall.FindAllStringSubmatch(code, -1) {
		out = append(out, imported{module: m[1]})
	}
	for _, m := range importLine.FindAllStringSubmatch(code, -1) {
		for _, part := range strings.Split(m[1], ",") {
			if name := firstWord(part); name != "" {
				out = append(out, imported{module: name})
			}
		}
	}
	for _, m := range fromLine.FindAllStringSubmatch(code, -1) {
		imp := imported{module: m[1]}
		for _, part := range strings.Split(strings.Trim(m[2], "() \t"), ",") {
			if name := firstWord(part); name != "" && name != "*" {
				imp.names = append(imp.names, name)
			}
		}
		out = append(out, imp)
	}
	return out
}

func firstWord(text string) string {
	words := strings.Fields(text)
	if len(words) == 0 {
		return ""
	}
	return words[0]
}
