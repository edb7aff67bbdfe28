package failures

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"aicplan/sink/base/textutil"
)

// WriteJSON writes the groups as one JSON array.
func WriteJSON(w io.Writer, groups []Group) error {
	if groups == nil {
		groups = []Group{}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(groups)
}

// WriteMarkdown writes a table of the groups with one example each.
func WriteMarkdown(w io.Writer, groups []Group) error {
	var b strings.Builder
	if len(groups) > 0 {
		b.WriteString("| cases |")
		for _, name := range groups[0].By {
			b.WriteString(" " + textutil.Cell(name) + " |")
		}
		b.WriteString(" example |\n|---:|" + strings.Repeat("---|", len(groups[0].By)+1) + "\n")
	}

	for _, g := range groups {
		fmt.Fprintf(&b, "| %d |", g.Count)
		for _, v := range g.Values {
			b.WriteString(" " + textutil.Cell(v) + " |")
		}
		fmt.Fprintf(&b, " %s |\n", textutil.Code(g.Example.Case()))
	}

	_, err := io.WriteString(w, b.String())
	return err
}

// mostLines is how many lines a message takes.
const mostLines = 6

// WriteText writes the groups for a terminal of that many columns: a line with
// the count and the values, an example, and the result of next: advice, and a command on
// a separate line for copying.
func WriteText(w io.Writer, groups []Group, columns int, next func(Group) (advice, command string)) error {
	var b strings.Builder
	below := func(text string) {
		for _, line := range textutil.Wrap(text, columns-8, mostLines) {
			b.WriteString("        " + line + "\n")
		}
	}
	for _, g := range groups {
		for i, line := range textutil.Wrap(strings.Join(nonEmpty(g.Values), ", "), columns-8, mostLines) {
			if i == 0 {
				fmt.Fprintf(&b, "%6d  %s\n", g.Count, line)
			} else {
				b.WriteString("        " + line + "\n")
			}
		}

		e := g.Example
		below("e.g. " + e.Case())

		if g.Value("message") != e.Message {
			below(textutil.OneLine(e.Message))
		}

		if next != nil {
			advice, command := next(g)
			if advice != "" {
				below("next: " + advice)
			}
			if command != "" {
				b.WriteString("          " + command + "\n")
			}
		}
	}

	_, err := io.WriteString(w, b.String())
	return err
}

func nonEmpty(list []string) []string {
	var out []string
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}
