package main

import (
	"fmt"
	"slices"
	"strings"

	"aicplan/engine/config"
)

// graph prints the graph of stages in DOT or Mermaid. Instances of for_each are one node.
func (a *app) graph(cfg *config.Config, format string) error {
	var nodes []string
	var edges [][2]string
	for _, in := range cfg.Instances {
		to := config.WithoutKeys(in.Address)
		if !slices.Contains(nodes, to) {
			nodes = append(nodes, to)
		}
		for _, d := range in.Deps {
			e := [2]string{config.WithoutKeys(cfg.Instance(d).Address), to}
			if e[0] != e[1] && !slices.Contains(edges, e) {
				edges = append(edges, e)
			}
		}
	}

	if format == "mermaid" {
		fmt.Fprintln(a.stdout, "flowchart LR")
		for i, n := range nodes {
			fmt.Fprintf(a.stdout, "  s%d[\"%s\"]\n", i, strings.ReplaceAll(n, `"`, "#quot;"))
		}
		for _, e := range edges {
			fmt.Fprintf(a.stdout, "  s%d --> s%d\n", slices.Index(nodes, e[0]), slices.Index(nodes, e[1]))
		}
		return nil
	}

	fmt.Fprintln(a.stdout, "digraph plan {\n  rankdir = LR;\n  node [shape = box];")
	for _, n := range nodes {
		fmt.Fprintf(a.stdout, "  %q;\n", n)
	}

	for _, e := range edges {
		fmt.Fprintf(a.stdout, "  %q -> %q;\n", e[0], e[1])
	}

	fmt.Fprintln(a.stdout, "}")
	return nil
}
