package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"aicplan/sink/base/textutil"
)

// columns is the default width of text for people.
const columns = 80

// narrowest is the minimum width for wrapping.
const narrowest = 40

// columns returns the width of text for people: COLUMNS, the terminal's width, or 80.
func (a *app) columns() int { return max(cmp.Or(a.screen(), columns), narrowest) }

// screen returns the known width of stdout, or 0 in a pipe.
func (a *app) screen() int { return cmp.Or(a.asked(), a.behind, terminalWidth(a.stdout)) }

// terminalWidth returns the width of the terminal that w writes to, or 0.
func terminalWidth(w io.Writer) int {
	if f, ok := textutil.Raw(w).(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 0
}

// asked returns the value of COLUMNS, or 0 if it is not set.
func (a *app) asked() int {
	for _, kv := range a.environ {
		if v, ok := strings.CutPrefix(kv, "COLUMNS="); ok {
			if n, err := strconv.Atoi(v); err == nil && n > 0 {
				return n
			}
		}
	}
	return 0
}

// keep is a non-breaking space for wrapped text.
const keep = "\u00a0"

// wrapped writes head and text in lines of at most wide columns. Continuation lines start in column
// indent. Words longer than a line are not broken. swap replaces a word of head with a coloured one of
// the same width.
func wrapped(b *strings.Builder, wide, indent int, head, text string, swap ...string) {
	line, start := head, true
	first := true
	flush := func() {
		line = strings.TrimRight(line, " ")
		if first && len(swap) == 2 {
			line = strings.Replace(line, swap[0], swap[1], 1)
		}
		first = false
		b.WriteString(line + "\n")
	}

	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' }) {
		word = strings.ReplaceAll(word, keep, " ")
		if !start && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > wide {
			flush()
			line, start = strings.Repeat(" ", indent), true
		}
		if !start {
			line += " "
		}
		line, start = line+word, false
	}

	flush()
}

// foldWidth returns the width at which lines are wrapped. In a pipe they are not.
func (a *app) foldWidth() int {
	if a.screen() == 0 {
		return math.MaxInt
	}
	return a.columns()
}

// fold wraps lines that are wider than the terminal at spaces, with an indent for continuation lines. In
// a pipe, lines are not wrapped, for grep.
func (a *app) fold(text string) string {
	if a.screen() == 0 {
		return text
	}

	wide := a.columns()
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		if utf8.RuneCountInString(line) <= wide {
			b.WriteString(line)
			continue
		}
		words := strings.TrimLeft(line, " ")
		depth := min(len(line)-len(words), wide/4)
		wrapped(&b, wide, depth+2, strings.Repeat(" ", depth), words)
	}

	return b.String()
}

// printf prints a text and wraps its lines as fold does.
func (a *app) printf(format string, args ...any) {
	fmt.Fprint(a.stdout, a.fold(fmt.Sprintf(format, args...)))
}

// wrap prints head and text wrapped to the width of the terminal. Continuation lines start in column indent.
func (a *app) wrap(indent int, head, text string) {
	var b strings.Builder
	wrapped(&b, a.columns(), indent, head, text)
	fmt.Fprint(a.stdout, b.String())
}

// hanging prints head, padded to indent columns, and text wrapped in the remaining columns. A word
// longer than a line is not broken.
func (a *app) hanging(indent int, head, text string) {
	a.wrap(indent, head+strings.Repeat(" ", max(1, indent-utf8.RuneCountInString(head))), text)
}

// wrapLines prints text and wraps long lines. Continuation lines start below the last column, which is
// separated by two or more spaces.
func (a *app) wrapLines(text string) {
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if utf8.RuneCountInString(line) <= a.columns() {
			fmt.Fprintln(a.stdout, strings.TrimRight(line, " "))
			continue
		}
		at := max(0, strings.LastIndex(line, "  ")+2)
		if at == 1 || at > a.columns()/2 {
			at = len(line) - len(strings.TrimLeft(line, " "))
		}
		a.hanging(utf8.RuneCountInString(line[:at]), strings.TrimRight(line[:at], " "), line[at:])
	}
}

// table prints a table in the width of the terminal. A table without rows is left out.
func (a *app) table(t *textutil.Table) error {
	if t.Len() == 0 {
		return nil
	}
	return t.Text(a.stdout, "", a.screen())
}

// indented prints a table behind an empty line, with an indent.
func (a *app) indented(t *textutil.Table) {
	fmt.Fprintln(a.stdout)
	t.Text(a.stdout, "  ", a.screen())
}
