package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// columns is how wide text for people is.
const columns = 80

// hanging prints text behind head, which takes indent columns, and wraps it
// under itself. A word that is longer than a line stays whole.
func (a *app) hanging(indent int, head, text string) {
	line := head + strings.Repeat(" ", max(0, indent-utf8.RuneCountInString(head)))
	if utf8.RuneCountInString(head) >= indent {
		line += " "
	}
	start := true
	for _, word := range strings.Fields(text) {
		if !start && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
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
		if utf8.RuneCountInString(line) <= columns {
			fmt.Fprintln(a.stdout, strings.TrimRight(line, " "))
			continue
		}
		at := max(0, strings.LastIndex(line, "  ")+2)
		if at == 1 || at > columns/2 {
			at = len(line) - len(strings.TrimLeft(line, " "))
		}
		a.hanging(utf8.RuneCountInString(line[:at]), strings.TrimRight(line[:at], " "), line[at:])
	}
}
