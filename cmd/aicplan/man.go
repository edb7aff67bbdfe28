package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// manPage returns a page of section 1 with all commands and flags, in roff.
func manPage(top *kong.Node) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`.TH AICPLAN 1 "" "aicplan %s"`, version)
	line(".SH NAME\naicplan \\- %s", roff(top.Help))
	line(".SH SYNOPSIS\n.B aicplan\n.I command\n.RI [ flags ]")
	line(".SH FLAGS OF ALL COMMANDS")
	manFlags(line, top.Flags)

	line(".SH COMMANDS")
	for _, n := range top.Leaves(true) {
		line(".SS %s", roff(n.Summary()))
		line("%s", roff(n.Help))
		for _, p := range n.Positional {
			line(".TP\n.I %s\n%s", roff(p.Summary()), roff(p.Help))
		}
		manFlags(line, n.Flags)
		for text := range strings.Lines(n.Detail) {
			line(".br\n%s", roff(strings.TrimSpace(text)))
		}
		if e := examples[strings.TrimPrefix(n.Path(), "aicplan ")]; e != "" {
			line(".PP\nExample:\n.br\n.B %s", roff(e))
		}
	}

	line(".SH EXIT STATUS")
	for _, e := range exitCodes {
		line(".TP\n.B %d\n%s", e.code, roff(e.meaning))
	}

	return b.String()
}

func manFlags(line func(string, ...any), flags []*kong.Flag) {
	shown := slices.DeleteFunc(slices.Clone(flags), func(f *kong.Flag) bool { return f.Hidden || f.Name == "help" })
	for _, f := range shown {
		line(".TP\n.B %s\n%s", roff(f.Summary()), roff(withDefault(f.Value)))
	}
}

// roff escapes text: backslashes, hyphens, and what would be a request at the start of a line.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
