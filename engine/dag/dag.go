// Package dag orders stage instances. It keeps dominikbraun/graph behind a few
// functions: vertices are stages, never cases (its sort is quadratic), the
// graph is built once and read only from then on.
package dag

import (
	"errors"
	"fmt"
	"sort"

	"github.com/dominikbraun/graph"
)

// Graph is an acyclic graph of stage addresses.
type Graph struct {
	order      []string
	deps       map[string][]string
	dependents map[string][]string
}

// CycleError names the members of one cycle, in the order of the plan.
type CycleError struct{ Members []string }

func (e *CycleError) Error() string {
	return fmt.Sprintf("these stages wait for each other: %v", e.Members)
}

// Build makes the graph. Vertices are given in source order, which also breaks
// ties in Order; deps lists what a vertex waits for. A dependency that is not
// a vertex is a programming error.
func Build(vertices []string, deps map[string][]string) (*Graph, error) {
	g := graph.New(graph.StringHash, graph.Directed())
	position := make(map[string]int, len(vertices))
	for i, v := range vertices {
		position[v] = i
		if err := g.AddVertex(v); err != nil {
			return nil, fmt.Errorf("two stages have the address %s: %w", v, err)
		}
	}
	out := &Graph{deps: map[string][]string{}, dependents: map[string][]string{}}
	for _, v := range vertices {
		for _, d := range deps[v] {
			if d == v {
				return nil, &CycleError{Members: []string{v}}
			}
			err := g.AddEdge(d, v)
			if errors.Is(err, graph.ErrEdgeAlreadyExists) {
				continue
			}
			if err != nil {
				panic(fmt.Sprintf("edge %s -> %s: %v", d, v, err))
			}
			out.deps[v] = append(out.deps[v], d)
			out.dependents[d] = append(out.dependents[d], v)
		}
	}
	bySource := func(a, b string) bool { return position[a] < position[b] }
	order, err := graph.StableTopologicalSort(g, bySource)
	if err != nil {
		return nil, cycle(g, bySource)
	}
	out.order = order
	for _, m := range []map[string][]string{out.deps, out.dependents} {
		for v := range m {
			sort.Slice(m[v], func(i, j int) bool { return bySource(m[v][i], m[v][j]) })
		}
	}
	return out, nil
}

func cycle(g graph.Graph[string, string], less func(a, b string) bool) error {
	components, err := graph.StronglyConnectedComponents(g)
	if err != nil {
		return fmt.Errorf("find the cycle: %w", err)
	}
	var best []string
	for _, c := range components {
		if len(c) > 1 && (best == nil || len(c) < len(best)) {
			best = c
		}
	}
	sort.Slice(best, func(i, j int) bool { return less(best[i], best[j]) })
	return &CycleError{Members: best}
}

// Order lists all vertices so that each comes after what it waits for.
func (g *Graph) Order() []string { return g.order }

// Deps lists what v waits for directly.
func (g *Graph) Deps(v string) []string { return g.deps[v] }

// Dependents lists what waits for v directly.
func (g *Graph) Dependents(v string) []string { return g.dependents[v] }

// Closure returns from and all it waits for, directly or not.
func (g *Graph) Closure(from ...string) map[string]bool { return reach(from, g.deps) }

// Behind returns from and all that waits for it, directly or not.
func (g *Graph) Behind(from ...string) map[string]bool { return reach(from, g.dependents) }

func reach(from []string, next map[string][]string) map[string]bool {
	seen := map[string]bool{}
	for len(from) > 0 {
		v := from[len(from)-1]
		from = from[:len(from)-1]
		if !seen[v] {
			seen[v] = true
			from = append(from, next[v]...)
		}
	}
	return seen
}
