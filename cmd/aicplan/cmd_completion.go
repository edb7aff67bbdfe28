package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"aicplan/stages/runtimes"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// completions are the words that a shell can offer.
type completions struct {
	verbs []string            // "plan", "ckpt", "ckpt list"
	under map[string][]string // verbs of a verb, of "" the first ones
	flags map[string][]string // of a verb, without dashes
	kinds map[string][]string // of runtimes, with their options and blocks
}

func completionsOf(parser *kong.Kong) completions {
	c := completions{under: map[string][]string{}, flags: map[string][]string{}}
	var walk func(n *kong.Node, path string)
	walk = func(n *kong.Node, path string) {
		for _, child := range n.Children {
			if child.Hidden {
				continue
			}
			name := strings.TrimSpace(path + " " + child.Name)
			c.verbs = append(c.verbs, name)
			c.under[path] = append(c.under[path], child.Name)
			for _, group := range child.AllFlags(true) {
				for _, f := range group {
					c.flags[name] = append(c.flags[name], f.Name)
				}
			}
			walk(child, name)
		}
	}
	walk(parser.Model.Node, "")
	return c
}

// Run prints a script that completes verbs and flags, the latter with one dash
// or two, and asks aicplan itself for what stands behind them.
func (c *completionCmd) Run(a *app, parser *kong.Kong) error {
	words := completionsOf(parser)
	words.kinds = map[string][]string{}
	for _, k := range runtimes.Registered(a.kinds) {
		words.kinds[k.Name] = k.OptionNames()
		for _, b := range k.Collect {
			words.kinds[k.Name] = append(words.kinds[k.Name], b.Name)
		}
	}
	if c.Shell == "fish" {
		a.completeFish(words)
		return nil
	}
	if c.Shell == "zsh" {
		fmt.Fprintln(a.stdout, "autoload -U +X bashcompinit && bashcompinit")
	}
	a.completeBash(words)
	return nil
}

func (a *app) completeBash(c completions) {
	say := func(format string, args ...any) { fmt.Fprintf(a.stdout, format+"\n", args...) }
	say("_aicplan() {")
	say("  local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} dash=-")
	say("  if [ \"$verb\" = help ] && [ $COMP_CWORD -ge 2 ]; then verb=; COMP_CWORD=$((COMP_CWORD - 1)); COMP_WORDS=(aicplan \"${COMP_WORDS[@]:2}\"); verb=${COMP_WORDS[1]}; fi")
	say("  if [ $COMP_CWORD -eq 1 ]; then COMPREPLY=($(compgen -W %q -- \"$cur\")); return; fi", strings.Join(c.under[""], " "))
	for _, v := range c.under[""] {
		if below := c.under[v]; len(below) > 0 {
			say("  if [ \"$verb\" = %s ]; then", v)
			say("    if [ $COMP_CWORD -eq 2 ]; then COMPREPLY=($(compgen -W %q -- \"$cur\")); return; fi", strings.Join(below, " "))
			say("    verb=\"$verb ${COMP_WORDS[2]}\"")
			say("  fi")
		}
	}
	say("  case \"$cur\" in --*) dash=--;; esac")
	say("  case \"$cur\" in -*)")
	say("    case \"$verb\" in")
	for _, v := range c.verbs {
		say("    %q) COMPREPLY=($(compgen -P \"$dash\" -W %q -- \"${cur#\"$dash\"}\"));;", v, strings.Join(c.flags[v], " "))
	}
	say("    esac")
	say("    return;;")
	say("  esac")
	kinds := slices.Sorted(maps.Keys(c.kinds))
	say("  if [ \"$verb\" = runtimes ]; then")
	say("    if [ $COMP_CWORD -eq 2 ]; then COMPREPLY=($(compgen -W %q -- \"$cur\")); return; fi", strings.Join(kinds, " "))
	say("    case \"${COMP_WORDS[2]}\" in")
	for _, k := range kinds {
		say("    %s) COMPREPLY=($(compgen -W %q -- \"$cur\"));;", k, strings.Join(c.kinds[k], " "))
	}
	say("    esac")
	say("    return")
	say("  fi")
	// One candidate a line; file names where it says nothing. Its first word is a
	// path in "./bin/aicplan plan".
	say("  local IFS=$'\\n' had=$-; set -f")
	say("  COMPREPLY=($(\"${COMP_WORDS[0]}\" complete -- \"${COMP_WORDS[@]:1:$COMP_CWORD}\" 2>/dev/null))")
	say("  case $had in *f*) ;; *) set +f;; esac")
	say("  if [ ${#COMPREPLY[@]} -eq 0 ]; then COMPREPLY=($(compgen -f -- \"$cur\")); return; fi")
	// As file names, words get the quotes that addresses with keys need, and "m=" a
	// backslash that nobody wants.
	say("  case \"${COMPREPLY[*]}\" in *[\\[\\\"]*) ;; *=) compopt +o filenames -o nospace 2>/dev/null;; esac")
	say("}")
	say("complete -o filenames -F _aicplan aicplan")
}

func (a *app) completeFish(c completions) {
	fmt.Fprintln(a.stdout, "complete -c aicplan -a '(aicplan complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'")
	for _, v := range c.verbs {
		words := strings.Fields(v)
		cond := "__fish_use_subcommand"
		if len(words) > 1 {
			cond = "__fish_seen_subcommand_from " + words[0]
		}
		fmt.Fprintf(a.stdout, "complete -c aicplan -n '%s' -a %s\n", cond, words[len(words)-1])
		for _, f := range c.flags[v] {
			fmt.Fprintf(a.stdout, "complete -c aicplan -n '__fish_seen_subcommand_from %s' -o %s -l %s\n", words[len(words)-1], f, f)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.kinds)) {
		fmt.Fprintf(a.stdout, "complete -c aicplan -n '__fish_seen_subcommand_from runtimes' -f -a %s\n", k)
		for _, o := range c.kinds[k] {
			fmt.Fprintf(a.stdout, "complete -c aicplan -n '__fish_seen_subcommand_from runtimes; and __fish_seen_subcommand_from %s' -f -a %s\n", k, o)
		}
	}
}
