package runtimes

import (
	"regexp"
	"strings"
)

// meaning returns Python code without comments, blank lines, trailing spaces, and strings that are
// statements, such as docstrings. Changes to these do not cause a new measurement.
func meaning(text string) string {
	var out strings.Builder
	var line strings.Builder // code of the current line
	depth := 0               // of open brackets
	continued := false       // the last line ended with a backslash
	alone := false           // the line consists of a string so far
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

// stringEnd returns the length of the string literal at the start of text, without its prefix. An
// unterminated literal ends at the end of the line, or of the text if it has triple quotes.
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

// imported is one import in a file.
type imported struct {
	module string // with the leading dots of a relative import
	names  []string
}

// importsOf returns the imports in Python code, which must be the result of meaning. Computed module
// names are not found.
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
