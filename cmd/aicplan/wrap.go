package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"aicplan/sink/visible"
)

// columns is how wide text for people is where nobody says.
const columns = 80

// narrowest is the least width that text is wrapped to.
const narrowest = 40

// columns is how wide text for people is: what COLUMNS says, the terminal's
// width, or 80.
func (a *app) columns() int {
	if n := a.screen(); n > 0 {
		return max(n, narrowest)
	}
	return columns
}

// screen is the width that is known; 0 in a pipe.
func (a *app) screen() int {
	if n := a.asked(); n > 0 {
		return n
	}
	if a.behind > 0 {
		return a.behind
	}
	if f, ok := visible.Raw(a.stdout).(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 0
}

// asked is the width that COLUMNS asks for; 0 where it does not.
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

// keep is a space between words that stay on one line in wrapped text.
const keep = "\u00a0"

// wrapped writes head and text, at most wide columns a line where words allow;
// further lines begin in column indent. Nothing is left out. Swap replaces a
// word of head by one in colour, which takes no more room.
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

// fold wraps lines that are longer than the terminal between words; what goes on
// stands deeper than the line began. In a pipe lines stay whole, for grep.
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

// hanging prints text behind head, which takes indent columns, and wraps it
// under itself. A word that is longer than a line stays whole.
func (a *app) hanging(indent int, head, text string) {
	line := head + strings.Repeat(" ", max(0, indent-utf8.RuneCountInString(head)))
	if utf8.RuneCountInString(head) >= indent {
		line += " "
	}
	start := true
	for _, word := range strings.Fields(text) {
		if !start && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > a.columns() {
			fmt.Fprintln(a.stdout, strings.TrimRight(line, " "))
			line, start = strings.Repeat(" ", indent), true
		}
		if !start {
			line += " "
		}
		line, start = line+word, false
	}
	fmt.Fprintln(a.stdout, strings.TrimRight(line, " "))
}

// wrapLines prints text whose lines may be longer than the terminal: what goes
// on stands under the last column, which two spaces or more set apart.
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
