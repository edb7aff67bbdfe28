package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/hashicorp/go-hclog"

	"aicplan/cudaops/comm"
	"aicplan/cudaops/hosts"
	"aicplan/cudaops/worker"
)

type versionCmd struct {
	JSON bool `name:"json" help:"Print as JSON."`
}

// Run prints the version with what the binary was built from.
func (c *versionCmd) Run(a *app) error {
	info := map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			switch s.Key {
			case "vcs.revision":
				info["commit"] = s.Value
			case "vcs.modified":
				info["modified"] = s.Value
			}
		}
	}
	if c.JSON {
		return a.json(info)
	}
	text := "aicplan " + version
	if info["commit"] != "" {
		text += " (" + info["commit"][:min(12, len(info["commit"]))] + ")"
	}
	fmt.Fprintf(a.stdout, "%s %s %s\n", text, info["go"], info["platform"])
	return nil
}

type workerCmd struct{}

// Run is the worker's side of the protocol.
func (c *workerCmd) Run(a *app) error {
	return worker.Serve(context.Background(), hosts.FromInit)
}

type workerRankCmd struct{}

// Run is one rank of a communicator, in a process of its own.
func (c *workerRankCmd) Run(a *app) error {
	a.code = comm.RankMain()
	return nil
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints a script that completes verbs and flags.
func (c *completionCmd) Run(a *app, parser *kong.Kong) error {
	var verbs, parents []string
	flags := map[string][]string{}
	var walk func(n *kong.Node, path string)
	walk = func(n *kong.Node, path string) {
		for _, child := range n.Children {
			if child.Hidden {
				continue
			}
			name := strings.TrimSpace(path + " " + child.Name)
			verbs = append(verbs, name)
			if len(child.Children) > 0 {
				parents = append(parents, name)
			}
			for _, group := range child.AllFlags(true) {
				for _, f := range group {
					flags[name] = append(flags[name], "-"+f.Name)
				}
			}
			walk(child, name)
		}
	}
	walk(parser.Model.Node, "")
	switch c.Shell {
	case "fish":
		for _, v := range verbs {
			words := strings.Fields(v)
			cond := "__fish_use_subcommand"
			if len(words) > 1 {
				cond = "__fish_seen_subcommand_from " + words[0]
			}
			fmt.Fprintf(a.stdout, "complete -c aicplan -n '%s' -a %s\n", cond, words[len(words)-1])
			for _, f := range flags[v] {
				fmt.Fprintf(a.stdout, "complete -c aicplan -n '__fish_seen_subcommand_from %s' -o %s\n", words[len(words)-1], strings.TrimPrefix(f, "-"))
			}
		}
		return nil
	case "zsh":
		fmt.Fprintln(a.stdout, "autoload -U +X bashcompinit && bashcompinit")
	}
	fmt.Fprintf(a.stdout, "_aicplan() {\n  local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]}\n  case \"$verb\" in %s) if [ $COMP_CWORD -gt 2 ]; then verb=\"$verb ${COMP_WORDS[2]}\"; fi;; esac\n", strings.Join(parents, "|"))
	fmt.Fprintln(a.stdout, "  case \"$cur\" in -*)\n    case \"$verb\" in")
	for _, v := range verbs {
		fmt.Fprintf(a.stdout, "    %q) COMPREPLY=($(compgen -W %q -- \"$cur\"));;\n", v, strings.Join(flags[v], " "))
	}
	fmt.Fprintln(a.stdout, "    esac\n    return;;\n  esac")
	var top []string
	for _, v := range verbs {
		if !strings.Contains(v, " ") {
			top = append(top, v)
		}
	}
	fmt.Fprintf(a.stdout, "  if [ $COMP_CWORD -eq 1 ]; then COMPREPLY=($(compgen -W %q -- \"$cur\")); else COMPREPLY=($(compgen -f -- \"$cur\")); fi\n}\n", strings.Join(top, " "))
	fmt.Fprintln(a.stdout, "complete -o filenames -F _aicplan aicplan")
	return nil
}

// runLog writes the program's log to the run folder at debug level, and to
// standard error at the level that the user asked for.
func (a *app) runLog(dir string) (hclog.Logger, func(), error) {
	f, err := os.Create(filepath.Join(dir, "aicplan.log"))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot write the run's log: %w", err)
	}
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "aicplan", Level: hclog.Debug, Output: f})
	log.RegisterSink(hclog.NewSinkAdapter(&hclog.LoggerOptions{
		Level: hclog.LevelFromString(a.global.LogLevel), Output: a.stderr, JSONFormat: a.global.LogJSON,
	}))
	return log, func() { closeQuietly(f) }, nil
}

// closeQuietly closes a log: its rows live elsewhere.
func closeQuietly(c io.Closer) {
	if err := c.Close(); err != nil {
		return
	}
}
