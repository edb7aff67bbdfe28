package textutil

import "strings"

// inline escapes HTML and links. The texts "](", "][" and "]:" would make a link of the
// text before them. Addresses with brackets stay readable.
var inline = strings.NewReplacer("\r", " ", "\n", " ", "<", "&lt;", "](", "]\\(", "][", "]\\[", "]:", "]\\:")

// Inline is text for a line of Markdown.
func Inline(s string) string { return inline.Replace(s) }

// Cell keeps text inside its cell of a Markdown table.
func Cell(s string) string { return pipes(Inline(s)) }

// Code is text in backquotes, also in a cell; "" stays empty. Nothing in them is
// markup, and no escape gives a backquote.
func Code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + pipes(strings.NewReplacer("\r", " ", "\n", " ", "`", "'").Replace(s)) + "`"
}

// pipes escapes what ends a cell. Backslashes before it are doubled: one that
// escaped the next would leave the bar without its own.
func pipes(s string) string {
	if !strings.Contains(s, "|") {
		return s
	}
	var b strings.Builder
	slashes := 0
	for i := range len(s) {
		switch s[i] {
		case '\\':
			slashes++
		case '|':
			b.WriteString(strings.Repeat("\\", slashes+1))
			slashes = 0
		default:
			slashes = 0
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
