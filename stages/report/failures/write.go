package failures

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"aicplan/sink/phrase"
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

// WriteCSV writes one line a group: its values, the count and the example.
func WriteCSV(w io.Writer, groups []Group) error {
	cw := csv.NewWriter(w)
	if len(groups) > 0 {
		if err := cw.Write(append(append([]string{}, groups[0].By...), "count", "stage", "case_id", "params", "example", "attempts", "worker")); err != nil {
			return err
		}
	}
	for _, g := range groups {
		e := g.Example
		line := append(append([]string{}, g.Values...), fmt.Sprint(g.Count), e.Stage, e.CaseID, e.Params, e.Message, fmt.Sprint(e.Attempts), e.Worker)
		if err := cw.Write(line); err != nil {
			return err
		}
	}
	cw.Flush()
	return cw.Error()
}

// WriteMarkdown writes a table of the groups with one example each.
func WriteMarkdown(w io.Writer, groups []Group) error {
	var b strings.Builder
	if len(groups) > 0 {
		b.WriteString("| cases |")
		for _, name := range groups[0].By {
			b.WriteString(" " + phrase.Cell(name) + " |")
		}
		b.WriteString(" example |\n|---:|" + strings.Repeat("---|", len(groups[0].By)+1) + "\n")
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "| %d |", g.Count)
		for _, v := range g.Values {
			b.WriteString(" " + phrase.Cell(v) + " |")
		}
		fmt.Fprintf(&b, " %s |\n", phrase.Code(g.Example.Case()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteText writes the groups for a terminal of that many columns: a line with
// the count and the values, the example below it.
func WriteText(w io.Writer, groups []Group, columns int) error {
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "%6d  %s\n", g.Count, phrase.Clip(strings.Join(nonEmpty(g.Values), "  "), columns-8))
		e := g.Example
		fmt.Fprintf(&b, "        e.g. %s\n", phrase.Clip(e.Case(), columns-13))
		if g.Value("message") != e.Message {
			fmt.Fprintf(&b, "        %s\n", phrase.Clip(phrase.OneLine(e.Message), columns-8))
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
