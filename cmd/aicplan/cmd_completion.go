package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"aicplan/engine/plan"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,man" help:"bash, zsh or fish; man prints a man page instead."`
}

// completionScripts call the hidden command complete with the words up to the cursor. If complete prints
// nothing, the shell completes file names.
var completionScripts = map[string]string{
	"bash": `_aicplan() {
  mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -o filenames -F _aicplan aicplan`,
	"zsh": `_aicplan() {
  local -a found=("${(@f)$($words[1] complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n $found ]]; then compadd -- $found; else _files; fi
}
compdef _aicplan aicplan`,
	"fish": `complete -c aicplan -a '(aicplan complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'`,
}

// Run prints a completion script, or the man page.
func (c *completionCmd) Run(a *app, parser *kong.Kong) error {
	if c.Shell == "man" {
		return manPage(a.stdout, parser.Model.Node)
	}

	_, err := fmt.Fprintln(a.stdout, completionScripts[c.Shell])
	return err
}

// completeCmd prints the possible completions of the last word, one per line: commands, flags, values of
// flags and addresses of stages.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run never fails, because the shell would print the error into the command line.
func (c *completeCmd) Run(a *app, parser *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}

	if len(words) == 0 {
		return nil
	}

	last := len(words) - 1
	current := strings.TrimLeft(words[last], `"'`)

	node, flag, args := commandOf(parser.Model.Node, words[:last])
	for _, word := range a.completions(node, flag, args, current) {
		if strings.HasPrefix(word, current) {
			fmt.Fprintln(a.stdout, word)
		}
	}

	return nil
}

// commandOf returns the command of a command line, the flag whose value comes next, or nil, and the
// arguments.
func commandOf(node *kong.Node, words []string) (verb *kong.Node, flag *kong.Flag, args []string) {
	for _, word := range words {
		if flag != nil {
			flag = nil
			continue
		}

		if strings.HasPrefix(word, "-") {
			name, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if f := flagOf(node, name); f != nil && !f.IsBool() && !hasValue {
				flag = f
			}
			continue
		}

		at := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
		if at >= 0 && len(args) == 0 {
			node = node.Children[at]
			continue
		}

		args = append(args, strings.Trim(word, `"'`))
	}

	return node, flag, args
}

func flagOf(n *kong.Node, name string) *kong.Flag {
	for _, f := range slices.Concat(n.AllFlags(true)...) {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// completions returns the words that are valid at a position.
func (a *app) completions(node *kong.Node, flag *kong.Flag, args []string, current string) []string {
	var out []string
	switch {
	case flag != nil && flag.Enum != "":
		return strings.Split(strings.TrimPrefix(flag.Enum, ","), ",")

	case flag != nil && slices.Contains([]string{"target", "exclude", "replace", "stage"}, flag.Name):
		return a.addresses(node, args)

	case flag != nil:
		return nil

	case strings.HasPrefix(current, "-"):
		for _, f := range slices.Concat(node.AllFlags(true)...) {
			out = append(out, "--"+f.Name)
		}

	case len(node.Children) > 0:
		for _, n := range node.Children {
			if !n.Hidden {
				out = append(out, n.Name)
			}
		}

	case len(node.Positional) > 0:
		pos := node.Positional[min(len(args), len(node.Positional)-1)]
		if pos.Enum != "" {
			return strings.Split(pos.Enum, ",")
		}
		if slices.Contains([]string{"address", "what", "a", "b", "stage", "stages"}, pos.Name) {
			return a.addresses(node, args)
		}
	}

	return out
}

// addresses returns the stages of the plan on the command line. If there is no plan, or the command takes none, it
// returns those of the state folder.
func (a *app) addresses(node *kong.Node, args []string) []string {
	quiet := *a
	quiet.stderr = io.Discard
	defer quiet.close()
	var out []string
	if len(args) > 0 && node.Positional[0].Name == "path" {
		p, err := quiet.plan(context.Background(), planFlags{Path: args[0]}, plan.Options{})
		if err != nil {
			return nil
		}
		for _, s := range p.Stages {
			out = append(out, s.Address())
		}
		return out
	}

	store, err := quiet.store()
	if err != nil {
		return nil
	}

	records, err := store.Stages()
	if err != nil {
		return nil
	}

	for _, r := range records {
		out = append(out, r.Address)
	}

	return out
}
